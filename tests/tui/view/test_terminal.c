/* The real binary in a pseudo-terminal: sizes, terminals of all kinds, and every way to leave. */
#include <locale.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cmocka.h"
#include "tests/tui/view/terminal_fixture.h"
#include "tui/view/mouse.h"

/* --- sizes --- */

TEST_CASE(a_terminal_too_small_says_so_and_recovers)
{
    struct fixture *fixture = *state;
    struct pty *pty = terminal_open_list(fixture, 8, 30);
    pty_wait_text(pty, "too small: 30 x 8");
    pty_wait_text(pty, "anneal needs 40 x 10");
    pty_resize(pty, 10, 40);
    pty_wait_text(pty, "kjv-live");
    pty_resize(pty, 1, 1);
    pty_resize(pty, 24, 80);
    pty_wait_text(pty, "3 runs, 1 training");
    pty_send(pty, "q");
    assert_int_equal(pty_wait_exit(pty), 0);
    pty_close(pty);
}

TEST_CASE(a_resize_storm_ends_with_the_right_screen)
{
    struct fixture *fixture = *state;
    const char *arguments[] = {"watch", "kjv-live", NULL};
    struct pty *pty = terminal_open(fixture->environment, 24, 80, NULL, NULL, arguments);
    pty_wait_text(pty, "━ train");
    uint32_t seed = 12345;
    for (int i = 0; i < 300; i++) {
        seed = seed * 1664525u + 1013904223u;
        int columns = i % 7 == 0 ? 1 : 1 + (int)(seed >> 8) % 400,
            rows = i % 11 == 0 ? 1 : 1 + (int)(seed >> 20) % 120;
        pty_resize(pty, rows, columns);
        if (i % 9 == 0) pty_send(pty, "\t");
    }
    pty_resize(pty, 60, 200);
    pty_wait_text(pty, "configuration");
    pty_resize(pty, 24, 80);
    pty_wait_no_text(pty, "configuration");
    pty_wait_text(pty, "━ train");
    pty_send(pty, "qq");
    assert_int_equal(pty_wait_exit(pty), 0);
    pty_close(pty);
}

TEST_CASE(a_resize_is_no_key)
{
    struct fixture *fixture = *state;
    struct pty *pty = terminal_open_list(fixture, 24, 80);
    pty_wait_text(pty, "newest first");
    pty_send(pty, "?");
    pty_wait_text(pty, "another key closes");
    pty_resize(pty, 30, 100);
    pty_wait_text(pty, "compare the marked runs: curves"); /* further below */
    pty_send(pty, "q");                                    /* closes the help, which a resize has not done */
    pty_wait_no_text(pty, "another key closes");
    pty_wait_text(pty, "newest first");
    pty_send(pty, "jD");
    pty_wait_text(pty, "with its history and checkpoints?");
    pty_resize(pty, 24, 80);
    pty_send(pty, "y");
    pty_wait_text(pty, "is deleted when you leave");
    pty_send(pty, "uq");
    assert_int_equal(pty_wait_exit(pty), 0);
    pty_close(pty);
}

TEST_CASE(it_starts_on_a_terminal_of_one_cell)
{
    struct fixture *fixture = *state;
    struct pty *pty = terminal_open_list(fixture, 1, 1);
    pty_resize(pty, 24, 80);
    pty_wait_text(pty, "3 runs");
    pty_close(pty);
}

/* --- terminals --- */

TEST_CASE(colours_follow_the_terminal_and_no_color)
{
    struct fixture *fixture = *state;
    static const struct {
        const char *term, *more;
        bool faint; /* dim text is faint: the terminal has no grey */
    } cases[] = {{"xterm-256color", NULL, false},
                 {"xterm-256color", "NO_COLOR=", false},
                 {"screen", NULL, true},
                 {"linux", NULL, true},
                 {"xterm", NULL, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pty *pty = terminal_open(fixture->environment, 24, 80, cases[i].term, cases[i].more, NULL);
        pty_wait_text(pty, "kjv-live");
        pty_wait_text(pty, "leave");
        assert_true(pty_coloured_cells(pty) > 10);
        assert_int_equal(strstr(pty_raw(pty), ";2m") != NULL, cases[i].faint);
        pty_close(pty);
    }
    const char *plain[][2] = {{"xterm-256color", "NO_COLOR=1"}, {"vt100", NULL}};
    for (size_t p = 0; p < 2; p++) {
        struct pty *pty = terminal_open(fixture->environment, 24, 80, plain[p][0], plain[p][1], NULL);
        pty_wait_text(pty, "running"); /* the word is there without the colour */
        pty_wait_text(pty, "leave");
        assert_int_equal(pty_coloured_cells(pty), 0);
        pty_close(pty);
    }
}

TEST_CASE(the_console_gets_no_braille_and_ascii_only_ascii)
{
    struct fixture *fixture = *state;
    const char *arguments[] = {"watch", "kjv-live", NULL};
    struct pty *pty = terminal_open(fixture->environment, 24, 80, "linux", NULL, arguments);
    pty_wait_text(pty, "train");
    pty_wait_text(pty, "▄");
    char *screen = pty_dump(pty);
    for (const char *c = screen; *c; c++)
        assert_false((unsigned char)c[0] == 0xE2 && ((unsigned char)c[1] & 0xFC) == 0xA0);
    free(screen);
    pty_close(pty);
    pty = terminal_open(fixture->environment, 24, 80, "xterm", "LC_ALL=C", arguments);
    pty_wait_text(pty, "train");
    pty_send(pty, "\t"); /* the hint at UTF-8 goes with the first key */
    pty_wait_text(pty, "q back");
    screen = pty_dump(pty);
    for (const char *c = screen; *c; c++) assert_true(*c == '\n' || (*c >= ' ' && *c <= '~'));
    free(screen);
    pty_close(pty);
}

TEST_CASE(an_unknown_terminal_is_one_sentence_and_status_1)
{
    struct fixture *fixture = *state;
    struct {
        const char *term, *more, *says;
    } cases[] = {{"no-such-terminal", NULL, "on a terminal \"no-such-terminal\" (set TERM"},
                 {"dumb", NULL, "\"dumb\""},
                 {"xterm", "TERM", "on a terminal \"\" (set TERM"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pty *pty = terminal_open(fixture->environment, 24, 500, cases[i].term, cases[i].more, NULL);
        assert_int_equal(pty_wait_exit(pty), 1);
        pty_wait_text(pty, "anneal: the workbench");
        pty_wait_text(pty, cases[i].says);
        assert_string_equal(pty_row(pty, 1), "");
        assert_true(pty_modes_restored(pty));
        pty_close(pty);
    }
}

TEST_CASE(without_a_terminal_it_says_what_to_use_instead)
{
    struct fixture *fixture = *state;
    char command[4096], line[1024] = "";
    snprintf(command, sizeof command, "%s '%s' </dev/null 2>&1", fixture->environment,
             getenv("ANNEAL_BINARY"));
    FILE *out = popen(command, "r");
    assert_non_null(out);
    assert_non_null(fgets(line, sizeof line, out));
    assert_non_null(strstr(line, "needs a terminal"));
    assert_non_null(strstr(line, "anneal runs"));
    assert_null(fgets(line, sizeof line, out)); /* one line */
    int how = pclose(out);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 1);
}

TEST_CASE(a_run_that_does_not_exist_is_an_error_before_the_screen)
{
    struct fixture *fixture = *state;
    const char *arguments[] = {"watch", "kjv-lime", NULL};
    struct pty *pty = terminal_open(fixture->environment, 24, 120, NULL, NULL, arguments);
    assert_int_equal(pty_wait_exit(pty), 1);
    pty_wait_text(pty, "kjv-live"); /* the nearest */
    assert_null(strstr(pty_raw(pty), "\033[?1049h"));
    pty_close(pty);
}

/* --- leaving --- */

TEST_CASE(every_way_out_restores_the_terminal)
{
    struct fixture *fixture = *state;
    const int signals[] = {0, -1, SIGTERM, SIGINT};
    for (size_t s = 0; s < sizeof signals / sizeof *signals; s++) {
        struct pty *pty = terminal_open_list(fixture, 24, 80);
        pty_wait_text(pty, "3 runs");
        assert_true(pty_on_alternate_screen(pty));
        if (signals[s] == 0)
            pty_send(pty, "q");
        else if (signals[s] == -1)
            pty_send(pty, "\x03");
        else
            pty_signal(pty, signals[s]);
        assert_int_equal(pty_wait_exit(pty), 0);
        assert_false(pty_on_alternate_screen(pty));
        assert_true(pty_cursor_visible(pty));
        assert_true(pty_modes_restored(pty));
        pty_close(pty);
    }
}

TEST_CASE(on_a_terminal_with_one_screen_the_prompt_comes_below_it)
{
    struct fixture *fixture = *state;
    struct pty *pty = terminal_open(fixture->environment, 24, 80, "linux", NULL, NULL);
    pty_wait_text(pty, "leave");
    assert_non_null(strstr(pty_row(pty, 23), "leave"));
    pty_send(pty, "\x1A");
    pty_wait_stopped(pty);
    assert_non_null(strstr(pty_row(pty, 22), "leave"));
    assert_string_equal(pty_row(pty, 23), "");
    pty_signal(pty, SIGCONT);
    pty_send(pty, "q");
    assert_int_equal(pty_wait_exit(pty), 0);
    assert_non_null(strstr(pty_row(pty, 20), "leave"));
    assert_non_null(strstr(pty_row(pty, 21), "1 run continues training"));
    assert_non_null(strstr(pty_row(pty, 22), "anneal watch"));
    pty_close(pty);
}

TEST_CASE(a_crash_restores_the_terminal)
{
    struct fixture *fixture = *state;
    const int signals[] = {SIGABRT /* which sanitizers leave alone */, SIGQUIT};
    for (size_t s = 0; s < sizeof signals / sizeof *signals; s++) {
        struct pty *pty = terminal_open_list(fixture, 24, 80);
        pty_wait_text(pty, "3 runs");
        pty_signal(pty, signals[s]);
        assert_int_equal(pty_wait_exit(pty), 128 + signals[s]);
        assert_false(pty_on_alternate_screen(pty));
        assert_true(pty_cursor_visible(pty));
        assert_true(pty_modes_restored(pty));
        static const char *const off[] = {"\033[?1003l", "\033[?2004l", "\033[?1l\033>"};
        for (size_t i = 0; i < sizeof off / sizeof *off; i++) assert_non_null(strstr(pty_raw(pty), off[i]));
        pty_close(pty);
    }
}

TEST_CASE(hanging_up_ends_it)
{
    struct fixture *fixture = *state;
    struct pty *pty = terminal_open_list(fixture, 24, 80);
    pty_wait_text(pty, "3 runs");
    pty_signal(pty, SIGHUP);
    assert_int_equal(pty_wait_exit(pty), 0);
    pty_close(pty);
}

TEST_CASE(it_can_be_suspended_and_resumed)
{
    struct fixture *fixture = *state;
    struct pty *pty = terminal_open_list(fixture, 24, 80);
    pty_wait_text(pty, "3 runs");
    pty_send(pty, "\x1A");
    pty_wait_stopped(pty);
    assert_false(pty_on_alternate_screen(pty));
    pty_resize(pty, 40, 120);
    pty_signal(pty, SIGCONT);
    pty_wait_text(pty, "3 runs");
    pty_wait_text(pty, "ETA"); /* a word that only the new width has room for */
    assert_true(pty_on_alternate_screen(pty));
    static const char *const modes[][2] = {{mouse_on, mouse_off}, {"\033[?2004h", "\033[?2004l"}};
    pty_send(pty, "?"); /* answered when the modes are set */
    pty_wait_text(pty, "List of runs");
    for (size_t i = 0; i < 2; i++) {
        const char *off = strstr(pty_raw(pty), modes[i][1]);
        if (!off || !strstr(off, modes[i][0])) fail_msg("%s is not set again", modes[i][0] + 1);
    }
    pty_send(pty, "qq");
    assert_int_equal(pty_wait_exit(pty), 0);
    pty_close(pty);
}

/* A letter of one would leave. */
TEST_CASE(sequences_of_unknown_keys_are_no_keys)
{
    struct fixture *fixture = *state;
    static const char *const unknown[] = {"\033q?", "\033Oq?", "\033[1;9q?", "\033[?61;4q?"};
    struct pty *pty = terminal_open_list(fixture, 24, 80);
    pty_wait_text(pty, "3 runs");
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        pty_send(pty, unknown[i]);
        pty_wait_text(pty, "List of runs"); /* the help */
        pty_send(pty, "?");
        pty_wait_no_text(pty, "List of runs");
    }
    pty_send(pty, "/lionx\b");
    pty_wait_no_text(pty, "/lionx");
    pty_send(pty, "\033\177\033Oz"); /* Alt and Backspace, and one of a keypad */
    pty_send(pty, "y");
    pty_wait_text(pty, "/liony");
    pty_send(pty, "\033\r"); /* two keys, however fast */
    pty_wait_text(pty, "━ train");
    pty_send(pty, "\003");
    assert_int_equal(pty_wait_exit(pty), 0);
    pty_close(pty);
}

TEST_CASE(a_screen_that_others_wrote_on_is_drawn_again)
{
    struct fixture *fixture = *state;
    struct pty *pty = terminal_open_list(fixture, 24, 80);
    pty_wait_text(pty, "3 runs");
    const char *before = pty_raw(pty);
    size_t length = strlen(before);
    pty_send(pty, "\x0C?");
    pty_wait_text(pty, "List of runs");
    assert_non_null(strstr(pty_raw(pty) + length, "\033[H\033[2J"));
    pty_close(pty);
}

TEST_CASE(leaving_never_stops_a_run)
{
    struct fixture *fixture = *state;
    struct pty *pty = terminal_open_list(fixture, 24, 80);
    pty_wait_text(pty, "kjv-live");
    pty_send(pty, "\r");
    pty_wait_text(pty, "━ train");
    pty_send(pty, "q");
    pty_wait_text(pty, "kjv-live continues training");
    pty_send(pty, "q");
    assert_int_equal(pty_wait_exit(pty), 0);
    pty_wait_text(pty, "1 run continues training");
    pty_close(pty);
    struct order order;
    assert_false(writer_next_order(fixture->run.writer, &order)); /* nobody asked it for anything */
    pty = terminal_open_list(fixture, 24, 80);                    /* and one can come back */
    pty_wait_text(pty, "● running");
    pty_close(pty);
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    signal(SIGPIPE, SIG_IGN);
    return TEST_RUN(terminal_make_store, terminal_drop_store);
}
