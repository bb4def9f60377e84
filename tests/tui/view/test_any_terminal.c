/* Terminals of all kinds: those that this system does not know, light and dark ones, those without a locale,
 * and text that is pasted into them. */
#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/view/headless.h"
#include "tests/tui/view/terminal_fixture.h"
#include "tui/view/screen.h"
#include "tui/view/terminal.h"

/* --- answers and variables --- */

TEST_CASE(answers_about_the_background_are_read)
{
    static const struct {
        const char *answer;
        int background; /* -1: none */
    } answers[] = {
        {"11;rgb:ffff/ffff/ffff", BACKGROUND_LIGHT},
        {"11;rgb:0000/0000/0000", BACKGROUND_DARK},
        {"11;rgb:fd/f6/e3", BACKGROUND_LIGHT},
        {"11;rgb:1/2/3", BACKGROUND_DARK},
        {"11;rgb:FDFD/F6F6/E3E3", BACKGROUND_LIGHT},
        {"11;rgba:2828/2c2c/3434/ffff", BACKGROUND_DARK},
        {"10;rgb:ffff/ffff/ffff", -1},
        {"11;rgb:ffff/ffff", -1},
        {"11;rgb:ffff//ffff", -1},
        {"11;rgb:9999/9999/9999", BACKGROUND_LIGHT},
        {"11;rgb:6666/6666/6666", BACKGROUND_DARK},
        {"11;rgb:ffff,ffff/ffff", -1},
        {"11;rgb:ffff/ffff,ffff", -1},
        {"11;rgb:ffff/ffff/", -1},
        {"11;rgb:", -1},
        {"11;rgb", -1},
        {"11;#ffffff", -1},
        {"", -1},
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        enum background found;
        bool read = terminal_read_background(answers[i].answer, &found);
        if (read != (answers[i].background >= 0) || (read && (int)found != answers[i].background))
            fail_msg("\"%s\"", answers[i].answer);
    }
}

TEST_CASE(colorfgbg_is_read)
{
    static const struct {
        const char *value;
        int background;
    } values[] = {{"15;0", BACKGROUND_DARK},
                  {"0;15", BACKGROUND_LIGHT},
                  {"0;default;7", BACKGROUND_LIGHT},
                  {"15;8", BACKGROUND_DARK},
                  {"0;9", BACKGROUND_LIGHT},
                  {"12;default", -1},
                  {"0;", -1},
                  {"0;-1", -1},
                  {"0;99999999999999999999", -1},
                  {"7", -1},
                  {NULL, -1}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        enum background found;
        bool read = terminal_read_colorfgbg(values[i].value, &found);
        if (read != (values[i].background >= 0) || (read && (int)found != values[i].background))
            fail_msg("\"%s\"", values[i].value);
    }
}

TEST_CASE(only_terminals_like_xterm_have_a_stand_in)
{
    static const char *const like[] = {"xterm-kitty", "xterm-ghostty", "alacritty", "foot-extra", "wezterm"};
    for (size_t i = 0; i < sizeof like / sizeof *like; i++) {
        assert_string_equal(terminal_stand_in(like[i]), "xterm-256color");
        assert_true(terminal_takes_questions(like[i]));
    }
    static const char *const others[] = {"vt100", "linux", "dumb", "no-such-terminal", "", NULL};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_null(terminal_stand_in(others[i]));
        assert_false(terminal_takes_questions(others[i]));
    }
    assert_string_equal(terminal_stand_in("tmux-direct"), "screen-256color");
}

/* --- in a terminal --- */

TEST_CASE(a_terminal_without_a_description_is_drawn_as_xterm)
{
    struct fixture *fixture = *state;
    struct pty *pty = terminal_open(fixture->environment, 24, 100, "xterm-nonesuch", NULL, NULL);
    pty_wait_text(pty, "no description of the terminal xterm-nonesuch, so it is drawn as xterm-256color");
    assert_true(pty_coloured_cells(pty) > 10);
    pty_send(pty, "j");
    pty_wait_text(pty, "leave"); /* the hints again */
    pty_send(pty, "q");
    assert_int_equal(pty_wait_exit(pty), 0);
    pty_close(pty);
}

static const char light_blue[] = "38;5;25", dark_blue[] = "38;5;75";

TEST_CASE(the_palette_follows_the_background)
{
    struct fixture *fixture = *state;
    struct pty *pty = terminal_open_list(fixture, 24, 80);
    pty_wait_text(pty, "kjv-live");
    pty_wait_text(pty, "leave");
    assert_non_null(strstr(pty_raw(pty), TERMINAL_ASK_BACKGROUND));
    assert_non_null(strstr(pty_raw(pty), dark_blue));
    assert_null(strstr(pty_raw(pty), light_blue));
    pty_send(pty, "\033]11;rgb:ffff/ff"); /* an answer that comes in two pieces */
    pty_resize(pty, 30, 80);
    pty_wait_text(pty, "kjv-live");
    pty_send(pty, "ff/ffff\033\\?");
    pty_wait_text(pty, "List of runs"); /* the key after the answer, which was no key itself */
    assert_non_null(strstr(pty_raw(pty), light_blue));
    pty_send(pty, "q:palette dark\r");
    pty_wait_text(pty, "palette: dark");
    pty_send(pty, ":palette blue\r");
    pty_wait_text(pty, "\"blue\" is none of auto|dark|light|none");
    pty_send(pty, "\x15none\r");
    pty_wait_text(pty, "palette: none");
    assert_int_equal(pty_coloured_cells(pty), 0);
    pty_send(pty, ":palette auto\rq");
    assert_int_equal(pty_wait_exit(pty), 0);
    pty_close(pty);
    pty = terminal_open(fixture->environment, 24, 80, "xterm-256color", "COLORFGBG=0;15", NULL);
    pty_wait_text(pty, "leave");
    assert_non_null(strstr(pty_raw(pty), light_blue));
    pty_close(pty);
}

TEST_CASE(a_variable_of_the_locale_counts_only_if_it_is_not_empty)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    static const struct {
        const char *values[3]; /* NULL: not set */
        bool open;
        const char *remedy; /* where the system has ASCII alone */
    } cases[] = {{{NULL, NULL, NULL}, true, "LANG=C.UTF-8"},
                 {{"C", "C.UTF-8", "C.UTF-8"}, false, "LC_ALL=C.UTF-8"},
                 {{"", "C", "C.UTF-8"}, false, "LC_CTYPE=C.UTF-8"},
                 {{"", "", "C"}, false, "LANG=C.UTF-8"},
                 {{"", "", "en_US.utf8"}, true, "LANG=C.UTF-8"},
                 {{NULL, "xx_XX.UTF-8", "C"}, true, "LC_CTYPE=C.UTF-8"},
                 {{"", "", ""}, true, "LANG=C.UTF-8"}};
    char *before = strdup(getenv("LC_ALL"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int k = 0; k < 3; k++)
            if (cases[i].values[k])
                setenv(names[k], cases[i].values[k], 1);
            else
                unsetenv(names[k]);
        assert_int_equal(terminal_locale_is_open(), cases[i].open);
        assert_string_equal(screen_locale_remedy(), cases[i].remedy); /* these tests run in the locale "C" */
    }
    unsetenv("LC_CTYPE");
    unsetenv("LANG");
    setenv("LC_ALL", before, 1);
    free(before);
}

TEST_CASE(terminals_that_would_show_the_question_are_not_asked)
{
    struct fixture *fixture = *state;
    static const char *const others[] = {"linux", "vt100"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct pty *pty = terminal_open(fixture->environment, 24, 80, others[i], NULL, NULL);
        pty_wait_text(pty, "leave");
        assert_null(strstr(pty_raw(pty), "\033]"));
        pty_close(pty);
    }
    struct pty *pty = terminal_open(fixture->environment, 24, 80, NULL, "NO_COLOR=1", NULL);
    pty_wait_text(pty, "leave");
    assert_null(strstr(pty_raw(pty), "\033]"));
    pty_close(pty);
}

TEST_CASE(charts_have_dots_without_a_locale_if_the_terminal_shows_them)
{
    struct fixture *fixture = *state;
    const char *arguments[] = {"watch", "kjv-live", NULL};
    const char *variables[] = {fixture->environment, "LC_ALL", "LC_CTYPE", "LANG", NULL};
    struct pty *pty = pty_open(&(struct pty_options){24, 80, NULL, variables, arguments});
    pty_send(pty, "?"); /* before it is ready: no key is lost */
    pty_wait_text(pty, "One run");
    pty_send(pty, "x");
    pty_wait_text(pty, "━ train");
    assert_false(pty_has_text(pty, "This locale has no UTF-8"));
    pty_close(pty);
    variables[1] = "LC_ALL=xx_XX.UTF-8"; /* a locale that is not installed */
    pty = pty_open(&(struct pty_options){24, 80, NULL, variables, arguments});
    pty_wait_text(pty, "━ train");
    pty_close(pty);
    variables[1] = "LC_ALL=C"; /* who asks for ASCII gets it */
    pty = pty_open(&(struct pty_options){24, 80, NULL, variables, arguments});
    pty_wait_text(pty, "This locale has no UTF-8");
    assert_null(strstr(pty_raw(pty), "\033[6n"));
    pty_close(pty);
}

/* --- notices --- */

TEST_CASE(a_notice_is_bytes_without_surprises)
{
    char buf[400];
    assert_string_equal(notice_bytes(NOTICE_OFF, "x", buf, sizeof buf), "");
    assert_string_equal(notice_bytes(NOTICE_BELL, "x", buf, sizeof buf), "\a");
    assert_string_equal(notice_bytes(NOTICE_OSC9, "x: done", buf, sizeof buf), "\033]9;anneal: x: done\a");
    notice_bytes(NOTICE_OSC777, "a\a\033]0;b\x9c", buf, sizeof buf);
    assert_memory_equal(buf, "\033]777;notify;anneal;a", 21);
    for (const char *c = buf + 1; c[1]; c++) assert_true((unsigned char)*c >= ' ' && *c != 0x7F);
}

TEST_CASE(a_run_that_ends_waits_or_diverges_is_told_once)
{
    struct fill_quiet *quiet = fill_quiet("quiet-notice");
    struct workbench *workbench = headless_open(quiet->home, NULL);
    store_fixture_sql(quiet->home, "update runs set status = 'paused'");
    workbench_tick(workbench, quiet->now + 1);
    assert_string_equal(workbench->notice, ""); /* off, as at first */
    store_fixture_sql(quiet->home, "update runs set status = 'running'");
    headless_type(workbench, ":notify bell\r");
    static const struct {
        const char *sql, *notice;
    } steps[] = {
        {"update runs set heartbeat = heartbeat + 1", ""},
        {"update runs set status = 'paused'", "mortal: waits: it is paused"},
        {"update runs set heartbeat = heartbeat + 1", ""},
        {"update runs set status = 'running'", ""},
        {"update runs set final_loss = null, nan = -1", "mortal: diverges"},
        {"update runs set status = 'failed'", "mortal: failed"},
        {"update runs set heartbeat = heartbeat + 1", ""},
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        workbench->notice[0] = '\0';
        store_fixture_sql(quiet->home, steps[i].sql);
        workbench_tick(workbench, quiet->now + 2 + (double)i);
        assert_string_equal(workbench->notice, steps[i].notice);
    }
    store_fixture_sql(quiet->home, "update runs set status = 'running', final_loss = 1, nan = 0");
    workbench_tick(workbench, quiet->now + 20);
    run_lock_release(&quiet->lock); /* it dies, without a commit */
    workbench_tick(workbench, quiet->now + 21);
    assert_string_equal(workbench->notice, "mortal: crashed");
}

TEST_CASE(of_several_news_the_newest_run_is_named_and_the_others_are_counted)
{
    struct run_lock locks[2];
    struct err err = {0};
    struct fill_quiet *quiet = fill_quiet("quiet-many");
    for (int i = 0; i < 2; i++) {
        char id[] = {'z', (char)('0' + i), '\0'}, sql[300];
        snprintf(sql, sizeof sql,
                 "insert into runs(id, name, status, created_at, heartbeat) select '%s', '%s', status,"
                 " created_at + %d, heartbeat from runs where name = 'mortal'",
                 id, id, i + 1);
        store_fixture_sql(quiet->home, sql);
        fill_checkpoint(quiet->home, id, 1);
        assert_int_equal(run_lock_acquire(quiet->store, id, &locks[i], &err), STATUS_OK);
    }
    struct workbench *workbench = headless_open(quiet->home, NULL);
    headless_type(workbench, ":notify bell\r");
    workbench_tick(workbench, quiet->now + 1);
    store_fixture_sql(quiet->home, "update runs set status = 'failed'");
    workbench_tick(workbench, quiet->now + 2);
    assert_string_equal(workbench->notice, "z1: failed, and 2 more");
    for (int i = 0; i < 2; i++) run_lock_release(&locks[i]);
}

TEST_CASE(the_terminal_gets_the_notice_in_its_way)
{
    static const char *const terms[] = {"xterm-256color", "linux"};
    for (size_t i = 0; i < 2; i++) {
        char environment[1100];
        struct fill_quiet *quiet = fill_quiet(i ? "notice-linux" : "notice-xterm");
        snprintf(environment, sizeof environment, "ANNEAL_HOME=%s", quiet->home);
        struct pty *pty = terminal_open(environment, 24, 80, terms[i], NULL, NULL);
        pty_wait_text(pty, "running");
        pty_send(pty, ":notify osc9\r");
        pty_wait_text(pty, "notify: osc9");
        assert_null(strchr(pty_raw(pty), '\a'));
        run_lock_release(&quiet->lock);
        pty_wait_text(pty, "crashed");
        pty_send(pty, "?");
        pty_wait_text(pty, "List of runs"); /* drawn after the notice */
        const char *notice = strstr(pty_raw(pty), "\033]9;anneal: mortal: crashed\a");
        assert_true(i == 0 ? notice != NULL : !notice && strchr(pty_raw(pty), '\a'));
        pty_close(pty);
    }
}

/* --- pasted text --- */

TEST_CASE(pasted_text_is_never_keys)
{
    struct fixture *fixture = *state;
    static const char *const terms[] = {"xterm-256color", "screen", "linux", "vt100"};
    for (size_t i = 0; i < sizeof terms / sizeof *terms; i++) {
        struct pty *pty = terminal_open(fixture->environment, 24, 80, terms[i], NULL, NULL);
        pty_wait_text(pty, "leave");
        assert_non_null(strstr(pty_raw(pty), "\033[?2004h"));
        pty_send(pty, "\033[200~s\ny q\rD y\033[A\x03\x1A\033\033[201~");
        pty_wait_text(pty, "pasted text is not taken as keys");
        pty_send(pty, "/");
        pty_send(pty, "\033[200~lion\nfirst\033[201~");
        pty_wait_text(pty, "/lion first"); /* as text, on one line */
        pty_send(pty, "\033");             /* keys are keys again */
        pty_wait_no_text(pty, "/lion first");
        pty_send(pty, "q");
        assert_int_equal(pty_wait_exit(pty), 0);
        assert_non_null(strstr(pty_raw(pty), "\033[?2004l"));
        pty_close(pty);
    }
    struct order order;
    assert_false(writer_next_order(fixture->run.writer, &order));
}

TEST_CASE(a_paste_without_an_end_does_not_last)
{
    struct fixture *fixture = *state;
    struct workbench *workbench = headless_open(fixture->home, NULL);
    workbench_key(workbench, K_PASTE);
    headless_type(workbench, "q?");
    headless_expect_not(workbench, 80, 24, "List of runs");
    workbench_tick(workbench, workbench->now + 4);
    headless_type(workbench, "?");
    headless_expect(workbench, 80, 24, 80, "List of runs");
}

int main(void)
{
    return TEST_RUN(terminal_make_store, terminal_drop_store);
}
