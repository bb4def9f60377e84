/* The real binary in a pseudo-terminal: every view at three sizes, terminals of all kinds, ways to leave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/file.h"
#include "runs/order.h"
#include "tests/tui/fill.h"
#include "tests/tui/pty.h"

static const struct fill live = {.name = "kjv-live",
                                 .steps = 420,
                                 .total_steps = 1000,
                                 .eval_every = 50,
                                 .patience = 5,
                                 .spike_step = -1,
                                 .keep_alive = true};
static const struct fill ended = {.name = "lion-first",
                                  .steps = 300,
                                  .total_steps = 300,
                                  .eval_every = 50,
                                  .spike_step = 150,
                                  .spike = 12,
                                  .status = RUN_FINISHED};
static const struct fill failed = {.name = "diverged",
                                   .steps = 60,
                                   .total_steps = 300,
                                   .spike_step = -1,
                                   .status = RUN_FAILED,
                                   .message = "100 updates in a row had a gradient norm that is not finite"};

struct fixture {
    char home[1024], empty[1024], environment[1100], empty_environment[1100];
    struct fill_run run; /* the living one: this process is its trainer */
};

static int make_store(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    struct err err = {0};
    struct fill_run other;
    assert_non_null(fixture);
    assert_non_null(getenv("ANNEAL_TEST_DIR"));
    snprintf(fixture->home, sizeof fixture->home, "%s/store", getenv("ANNEAL_TEST_DIR"));
    snprintf(fixture->empty, sizeof fixture->empty, "%s/empty", getenv("ANNEAL_TEST_DIR"));
    snprintf(fixture->environment, sizeof fixture->environment, "ANNEAL_HOME=%s", fixture->home);
    snprintf(fixture->empty_environment, sizeof fixture->empty_environment, "ANNEAL_HOME=%s", fixture->empty);
    assert_int_equal(file_make_folders(fixture->home, &err), STATUS_OK);
    assert_int_equal(file_make_folders(fixture->empty, &err), STATUS_OK);
    fill_run(fixture->home, &failed, &other);
    fill_run(fixture->home, &ended, &other);
    fill_run(fixture->home, &live, &fixture->run);
    *state = fixture;
    return 0;
}

static int drop_store(void **state)
{
    struct fixture *fixture = *state;
    fill_end(&fixture->run, RUN_STOPPED, "");
    free(fixture);
    return 0;
}

/* The workbench on the filled store. */
static struct pty *open_on(const char *environment, int rows, int columns, const char *term, const char *more,
                           const char *const *arguments)
{
    const char *variables[] = {environment, "LC_ALL=C.UTF-8", more, NULL};
    return pty_open(&(struct pty_options){rows, columns, term, variables, arguments});
}

static struct pty *open_list(const struct fixture *fixture, int rows, int columns)
{
    return open_on(fixture->environment, rows, columns, NULL, NULL, NULL);
}

static const int sizes[3][2] = {{24, 80}, {40, 120}, {60, 200}};

/* --- views at three sizes --- */

static void the_list_shows_every_run_at_three_sizes(void **state)
{
    struct fixture *fixture = *state;
    for (int s = 0; s < 3; s++) {
        struct pty *pty = open_list(fixture, sizes[s][0], sizes[s][1]);
        pty_wait_text(pty, "3 runs, 1 training");
        pty_wait_text(pty, "● running");
        pty_wait_text(pty, "✓ finished");
        pty_wait_text(pty, "✗ failed");
        pty_wait_text(pty, "kjv-live");
        pty_wait_text(pty, "42%");
        pty_wait_text(pty, "? help");
        pty_wait_text(pty, "▁"); /* the curve */
        pty_send(pty, "q");
        assert_int_equal(pty_wait_exit(pty), 0);
        assert_false(pty_on_alternate_screen(pty));
        assert_true(pty_cursor_visible(pty));
        pty_close(pty);
    }
}

static void a_run_shows_charts_and_story_at_three_sizes(void **state)
{
    struct fixture *fixture = *state;
    const char *arguments[] = {"watch", "kjv-live", NULL};
    for (int s = 0; s < 3; s++) {
        struct pty *pty = open_on(fixture->environment, sizes[s][0], sizes[s][1], NULL, NULL, arguments);
        pty_wait_text(pty, "420 / 1,000 steps");
        pty_wait_text(pty, "━ train");
        pty_wait_text(pty, "◆ val");
        pty_wait_text(pty, "★");
        pty_wait_text(pty, "learning rate");
        pty_wait_text(pty, "In the beginning of the house");
        pty_wait_text(pty, "0 of 5 evaluations without improvement");
        pty_wait_text(pty, "checkpoint written");
        if (s > 0) pty_wait_text(pty, "gradient norm");
        if (s > 0) pty_wait_text(pty, "throughput");
        if (s == 2) pty_wait_text(pty, "configuration");
        if (s == 2) pty_wait_text(pty, "perplexity");
        pty_close(pty);
    }
}

static void new_steps_appear_without_a_key(void **state)
{
    struct fixture *fixture = *state;
    const char *arguments[] = {"watch", "latest", NULL};
    struct pty *pty = open_on(fixture->environment, 24, 80, NULL, NULL, arguments);
    pty_wait_text(pty, "420 / 1,000 steps");
    fill_steps(&fixture->run, &live, 420, 441);
    pty_wait_text(pty, "441 / 1,000 steps");
    pty_close(pty);
}

static void the_form_shows_defaults_and_hints_at_three_sizes(void **state)
{
    struct fixture *fixture = *state;
    for (int s = 0; s < 3; s++) {
        struct pty *pty = open_list(fixture, sizes[s][0], sizes[s][1]);
        pty_wait_text(pty, "3 runs");
        pty_send(pty, "n");
        pty_wait_text(pty, "New run");
        pty_wait_text(pty, "shakespeare (default)");
        pty_wait_text(pty, "2000 (default)");
        pty_wait_text(pty, "Start training");
        pty_send(pty, "\t\t");
        pty_wait_text(pty, "a recipe (kjv)");
        pty_send(pty, "q?n"); /* text, not keys */
        pty_wait_text(pty, "q?n");
        pty_send(pty, "\x15");
        pty_wait_no_text(pty, "q?n");
        pty_send(pty, "\033");
        pty_wait_text(pty, "3 runs");
        pty_close(pty);
    }
}

static void a_bad_value_shows_the_trainers_sentence_in_the_form(void **state)
{
    struct fixture *fixture = *state;
    struct pty *pty = open_list(fixture, 24, 100);
    pty_wait_text(pty, "3 runs");
    pty_send(pty, "n\t\t\t\t");
    pty_wait_text(pty, "optimizer steps until");
    pty_send(pty, "many\x12");
    pty_wait_text(pty, "not started:");
    pty_wait_text(pty, "many"); /* what was typed is still there */
    pty_send(pty, "\033");
    pty_wait_text(pty, "3 runs, 1 training"); /* and no run was made */
    pty_close(pty);
}

static void the_help_covers_each_view(void **state)
{
    struct fixture *fixture = *state;
    struct pty *pty = open_list(fixture, 24, 80);
    pty_wait_text(pty, "3 runs");
    pty_send(pty, "?");
    pty_wait_text(pty, "open the selected run");
    pty_send(pty, " ");
    pty_wait_text(pty, "draw the screen anew");
    pty_send(pty, "x");
    pty_wait_no_text(pty, "draw the screen anew");
    pty_send(pty, "\r");
    pty_wait_text(pty, "━ train");
    pty_send(pty, "?");
    pty_wait_text(pty, "focus the next chart");
    pty_close(pty);
}

static void an_empty_store_teaches_how_to_begin(void **state)
{
    struct fixture *fixture = *state;
    for (int s = 0; s < 3; s++) {
        struct pty *pty = open_on(fixture->empty_environment, sizes[s][0], sizes[s][1], NULL, NULL, NULL);
        pty_wait_text(pty, "No runs yet.");
        pty_wait_text(pty, "anneal train --data.train=kjv");
        pty_send(pty, "\r\033[A\033[Bpsc"); /* nothing to act on */
        pty_send(pty, "q");
        assert_int_equal(pty_wait_exit(pty), 0);
        pty_close(pty);
    }
}

/* --- working with it --- */

static void the_filter_narrows_the_list(void **state)
{
    struct fixture *fixture = *state;
    struct pty *pty = open_list(fixture, 24, 80);
    pty_wait_text(pty, "diverged");
    pty_send(pty, "/lion fin");
    pty_wait_text(pty, "1 match");
    pty_wait_no_text(pty, "diverged");
    pty_send(pty, "\r\r"); /* keep it, then open what is left */
    pty_wait_text(pty, "300 / 300 steps");
    pty_send(pty, "\033");
    pty_wait_text(pty, "1 match");
    pty_send(pty, "\033");
    pty_wait_text(pty, "diverged");
    pty_send(pty, "/nosuchrun");
    pty_wait_text(pty, "No run matches");
    pty_close(pty);
}

static void keys_change_charts_cursor_and_zoom(void **state)
{
    struct fixture *fixture = *state;
    const char *arguments[] = {"watch", "lion-first", NULL};
    struct pty *pty = open_on(fixture->environment, 40, 120, NULL, NULL, arguments);
    pty_wait_text(pty, "▸loss");
    pty_wait_text(pty, "12"); /* the spike is inside the axis */
    pty_send(pty, "\t\t");
    pty_wait_text(pty, "▸gradient norm");
    pty_send(pty, "\r");
    pty_wait_no_text(pty, "━ train"); /* alone */
    pty_send(pty, "\r\033[Z\033[Z");
    pty_wait_text(pty, "▸loss");
    pty_send(pty, "y");
    pty_wait_text(pty, "loss log");
    pty_send(pty, "m");
    pty_wait_text(pty, "loss log ema 0.9");
    pty_send(pty, "\033[D");
    pty_wait_text(pty, "loss log ema 0.9 @299");
    pty_send(pty, "\033[H");
    pty_wait_text(pty, "loss log ema 0.9 @0");
    pty_send(pty, "++");
    pty_wait_no_text(pty, " 200");
    pty_send(pty, "0f");
    pty_wait_no_text(pty, "@0 ");
    pty_send(pty, "\033[A");
    pty_wait_text(pty, "(older; Down: newer)");
    pty_close(pty);
}

static void an_unknown_escape_sequence_is_no_command(void **state)
{
    struct fixture *fixture = *state;
    const char *arguments[] = {"watch", "lion-first", NULL};
    struct pty *pty = open_on(fixture->environment, 24, 80, NULL, NULL, arguments);
    pty_wait_text(pty, "▸loss");
    pty_send(pty, "\033[1;5s\033[<0;3;4q\033Os\033[200~\t");
    pty_wait_text(pty, "▸learning rate"); /* only the Tab counted: still in the run, no question asked */
    assert_false(pty_has_text(pty, "Stop"));
    pty_close(pty);
}

static void stopping_asks_first_and_sends_an_order(void **state)
{
    struct fixture *fixture = *state;
    struct pty *pty = open_list(fixture, 24, 80);
    struct order order;
    pty_wait_text(pty, "kjv-live");
    pty_send(pty, "s");
    pty_wait_text(pty, "Stop kjv-live?");
    pty_send(pty, "n");
    pty_wait_no_text(pty, "Stop kjv-live?");
    pty_send(pty, "\r");
    pty_wait_text(pty, "━ train");
    pty_send(pty, "s");
    pty_wait_text(pty, "Stop kjv-live?");
    pty_send(pty, "y");
    pty_wait_text(pty, "asked kjv-live to stop");
    while (!writer_next_order(fixture->run.writer, &order)) usleep(1000); /* the trainer's side */
    assert_int_equal(order.verb, ORDER_STOP);
    writer_order_done(fixture->run.writer, order.id, 441, "checkpoint written to step-441");
    pty_wait_text(pty, "stop at step 441: checkpoint written");
    pty_send(pty, "p");
    pty_wait_text(pty, "asked kjv-live to pause");
    while (!writer_next_order(fixture->run.writer, &order)) usleep(1000);
    assert_int_equal(order.verb, ORDER_PAUSE);
    writer_order_done(fixture->run.writer, order.id, 441, "paused");
    writer_status(fixture->run.writer, RUN_PAUSED);
    pty_wait_text(pty, "‖ paused");
    pty_send(pty, "p");
    pty_wait_text(pty, "asked kjv-live to continue");
    while (!writer_next_order(fixture->run.writer, &order)) usleep(1000);
    assert_int_equal(order.verb, ORDER_CONTINUE);
    writer_order_done(fixture->run.writer, order.id, 441, "continued");
    writer_status(fixture->run.writer, RUN_RUNNING);
    pty_wait_text(pty, "● running");
    pty_close(pty);
}

static void an_ended_run_takes_no_orders(void **state)
{
    struct fixture *fixture = *state;
    const char *arguments[] = {"watch", "diverged", NULL};
    struct pty *pty = open_on(fixture->environment, 24, 80, NULL, NULL, arguments);
    pty_wait_text(pty, "100 updates in a row");
    pty_send(pty, "p");
    pty_wait_text(pty, "diverged is not training: it is failed");
    pty_send(pty, "qD"); /* the list; the newest run is selected, and it lives */
    pty_wait_text(pty, "stop it before deleting it");
    pty_close(pty);
}

static void a_run_is_deleted_only_after_yes(void **state)
{
    struct fixture *fixture = *state;
    const struct fill doomed = {
        .name = "doomed", .steps = 20, .total_steps = 20, .spike_step = -1, .status = RUN_FINISHED};
    struct fill_run run;
    fill_run(fixture->home, &doomed, &run);
    struct pty *pty = open_list(fixture, 24, 80);
    pty_wait_text(pty, "4 runs");
    pty_send(pty, "/doomed\r");
    pty_wait_text(pty, "1 match");
    pty_send(pty, "D");
    pty_wait_text(pty, "Delete doomed");
    pty_send(pty, "\033");
    pty_wait_no_text(pty, "Delete doomed");
    pty_send(pty, "D");
    pty_wait_text(pty, "Delete doomed");
    pty_send(pty, "y");
    pty_wait_text(pty, "doomed is deleted");
    pty_send(pty, "\033");
    pty_wait_text(pty, "3 runs");
    pty_close(pty);
}

/* --- sizes --- */

static void a_terminal_too_small_says_so_and_recovers(void **state)
{
    struct fixture *fixture = *state;
    struct pty *pty = open_list(fixture, 8, 30);
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

static void a_resize_storm_ends_with_the_right_screen(void **state)
{
    struct fixture *fixture = *state;
    const char *arguments[] = {"watch", "kjv-live", NULL};
    struct pty *pty = open_on(fixture->environment, 24, 80, NULL, NULL, arguments);
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

static void it_starts_on_a_terminal_of_one_cell(void **state)
{
    struct fixture *fixture = *state;
    struct pty *pty = open_list(fixture, 1, 1);
    pty_resize(pty, 24, 80);
    pty_wait_text(pty, "3 runs");
    pty_close(pty);
}

/* --- terminals --- */

static void colours_follow_the_terminal_and_no_color(void **state)
{
    struct fixture *fixture = *state;
    const char *terms[] = {"xterm-256color", "screen", "linux", "xterm"};
    for (size_t t = 0; t < sizeof terms / sizeof *terms; t++) {
        struct pty *pty = open_on(fixture->environment, 24, 80, terms[t], NULL, NULL);
        pty_wait_text(pty, "kjv-live");
        pty_wait_text(pty, "leave");
        assert_true(pty_coloured_cells(pty) > 10);
        pty_close(pty);
    }
    const char *plain[][2] = {{"xterm-256color", "NO_COLOR=1"}, {"vt100", NULL}};
    for (size_t p = 0; p < 2; p++) {
        struct pty *pty = open_on(fixture->environment, 24, 80, plain[p][0], plain[p][1], NULL);
        pty_wait_text(pty, "running"); /* the word is there without the colour */
        pty_wait_text(pty, "leave");
        assert_int_equal(pty_coloured_cells(pty), 0);
        pty_close(pty);
    }
}

static void the_console_gets_no_braille_and_ascii_only_ascii(void **state)
{
    struct fixture *fixture = *state;
    const char *arguments[] = {"watch", "kjv-live", NULL};
    struct pty *pty = open_on(fixture->environment, 24, 80, "linux", NULL, arguments);
    pty_wait_text(pty, "train");
    pty_wait_text(pty, "▄");
    char *screen = pty_dump(pty);
    for (const char *c = screen; *c; c++)
        assert_false((unsigned char)c[0] == 0xE2 && ((unsigned char)c[1] & 0xFC) == 0xA0);
    free(screen);
    pty_close(pty);
    pty = open_on(fixture->environment, 24, 80, "xterm", "LC_ALL=C", arguments);
    pty_wait_text(pty, "train");
    pty_wait_text(pty, "q back");
    screen = pty_dump(pty);
    for (const char *c = screen; *c; c++) assert_true(*c == '\n' || (*c >= ' ' && *c <= '~'));
    free(screen);
    pty_close(pty);
}

static void an_unknown_terminal_is_one_sentence_and_status_1(void **state)
{
    struct fixture *fixture = *state;
    struct {
        const char *term, *more, *says;
    } cases[] = {{"no-such-terminal", NULL, "does not know the terminal \"no-such-terminal\""},
                 {"dumb", NULL, "cannot"},
                 {"xterm", "TERM", "TERM is not set"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pty *pty = open_on(fixture->environment, 24, 200, cases[i].term, cases[i].more, NULL);
        assert_int_equal(pty_wait_exit(pty), 1);
        pty_wait_text(pty, "anneal: the workbench");
        pty_wait_text(pty, cases[i].says);
        assert_string_equal(pty_row(pty, 1), "");
        pty_close(pty);
    }
}

static void without_a_terminal_it_says_what_to_use_instead(void **state)
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

static void a_run_that_does_not_exist_is_an_error_before_the_screen(void **state)
{
    struct fixture *fixture = *state;
    const char *arguments[] = {"watch", "kjv-lime", NULL};
    struct pty *pty = open_on(fixture->environment, 24, 120, NULL, NULL, arguments);
    assert_int_equal(pty_wait_exit(pty), 1);
    pty_wait_text(pty, "kjv-live"); /* the nearest */
    assert_null(strstr(pty_raw(pty), "\033[?1049h"));
    pty_close(pty);
}

/* --- leaving --- */

static void every_way_out_restores_the_terminal(void **state)
{
    struct fixture *fixture = *state;
    const int signals[] = {0, -1, SIGTERM, SIGINT};
    for (size_t s = 0; s < sizeof signals / sizeof *signals; s++) {
        struct pty *pty = open_list(fixture, 24, 80);
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

static void a_crash_restores_the_terminal(void **state)
{
    struct fixture *fixture = *state;
    struct pty *pty = open_list(fixture, 24, 80);
    pty_wait_text(pty, "3 runs");
    pty_signal(pty, SIGABRT); /* which sanitizers leave alone */
    assert_int_not_equal(pty_wait_exit(pty), 0);
    assert_false(pty_on_alternate_screen(pty));
    assert_true(pty_cursor_visible(pty));
    assert_true(pty_modes_restored(pty));
    pty_close(pty);
}

static void hanging_up_ends_it(void **state)
{
    struct fixture *fixture = *state;
    struct pty *pty = open_list(fixture, 24, 80);
    pty_wait_text(pty, "3 runs");
    pty_signal(pty, SIGHUP);
    assert_int_equal(pty_wait_exit(pty), 0);
    pty_close(pty);
}

static void it_can_be_suspended_and_resumed(void **state)
{
    struct fixture *fixture = *state;
    struct pty *pty = open_list(fixture, 24, 80);
    pty_wait_text(pty, "3 runs");
    pty_send(pty, "\x1A");
    pty_wait_stopped(pty);
    assert_false(pty_on_alternate_screen(pty));
    pty_resize(pty, 40, 120);
    pty_signal(pty, SIGCONT);
    pty_wait_text(pty, "3 runs");
    pty_wait_text(pty, "ETA"); /* a word that only the new width has room for */
    assert_true(pty_on_alternate_screen(pty));
    pty_send(pty, "q");
    assert_int_equal(pty_wait_exit(pty), 0);
    pty_close(pty);
}

static void leaving_never_stops_a_run(void **state)
{
    struct fixture *fixture = *state;
    struct pty *pty = open_list(fixture, 24, 80);
    pty_wait_text(pty, "kjv-live");
    pty_send(pty, "\r");
    pty_wait_text(pty, "━ train");
    pty_send(pty, "q");
    pty_wait_text(pty, "kjv-live goes on training");
    pty_send(pty, "q");
    assert_int_equal(pty_wait_exit(pty), 0);
    pty_close(pty);
    struct order order;
    assert_false(writer_next_order(fixture->run.writer, &order)); /* nobody asked it for anything */
    pty = open_list(fixture, 24, 80);                             /* and one can come back */
    pty_wait_text(pty, "● running");
    pty_close(pty);
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        TEST(the_list_shows_every_run_at_three_sizes),
        TEST(a_run_shows_charts_and_story_at_three_sizes),
        TEST(it_can_be_suspended_and_resumed),
        TEST(new_steps_appear_without_a_key),
        TEST(the_form_shows_defaults_and_hints_at_three_sizes),
        TEST(a_bad_value_shows_the_trainers_sentence_in_the_form),
        TEST(the_help_covers_each_view),
        TEST(an_empty_store_teaches_how_to_begin),
        TEST(the_filter_narrows_the_list),
        TEST(keys_change_charts_cursor_and_zoom),
        TEST(an_unknown_escape_sequence_is_no_command),
        TEST(stopping_asks_first_and_sends_an_order),
        TEST(an_ended_run_takes_no_orders),
        TEST(a_run_is_deleted_only_after_yes),
        TEST(a_terminal_too_small_says_so_and_recovers),
        TEST(a_resize_storm_ends_with_the_right_screen),
        TEST(it_starts_on_a_terminal_of_one_cell),
        TEST(colours_follow_the_terminal_and_no_color),
        TEST(the_console_gets_no_braille_and_ascii_only_ascii),
        TEST(an_unknown_terminal_is_one_sentence_and_status_1),
        TEST(without_a_terminal_it_says_what_to_use_instead),
        TEST(a_run_that_does_not_exist_is_an_error_before_the_screen),
        TEST(every_way_out_restores_the_terminal),
        TEST(a_crash_restores_the_terminal),
        TEST(hanging_up_ends_it),
        TEST(leaving_never_stops_a_run),
    };
    return cmocka_run_group_tests(tests, make_store, drop_store);
}
