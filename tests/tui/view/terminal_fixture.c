/* See terminal_fixture.h. */
#include "tests/tui/view/terminal_fixture.h"

#include "core/base/file.h"
#include "tests/cmocka.h"

const struct fill terminal_live = {.name = "kjv-live",
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

int terminal_make_store(void **state)
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
    fill_run(fixture->home, &terminal_live, &fixture->run);
    *state = fixture;
    return 0;
}

int terminal_drop_store(void **state)
{
    struct fixture *fixture = *state;
    fill_end(&fixture->run, RUN_STOPPED, "");
    free(fixture);
    return 0;
}

/* The workbench on the filled store. */
struct pty *terminal_open(const char *environment, int rows, int columns, const char *term, const char *more,
                          const char *const *arguments)
{
    const char *variables[] = {environment, "LC_ALL=C.UTF-8", more, NULL};
    return pty_open(&(struct pty_options){rows, columns, term, variables, arguments});
}

struct pty *terminal_open_list(const struct fixture *fixture, int rows, int columns)
{
    return terminal_open(fixture->environment, rows, columns, NULL, NULL, NULL);
}

/* Of the row in focus the mark, a blank, and the columns of the label that lie in front of every value. Waits
 * where the mark is about to move. */
enum { MARK = 4, LABEL = 16 }; /* bytes */
static const char *focus_of(struct pty *pty, char buf[64])
{
    buf[0] = '\0';
    pty_wait_text(pty, "\u25B8");
    for (int row = 1; row < 200 && !*buf; row++) {
        const char *mark = strstr(pty_row(pty, row), "\u25B8");
        if (mark) snprintf(buf, 64, "%.*s", MARK + LABEL, mark);
    }
    return buf;
}

void terminal_go_to(struct pty *pty, const char *label)
{
    char focus[64];
    size_t n = strlen(label) < LABEL ? strlen(label) : LABEL;
    for (int i = 0; i < 200; i++) {
        const char *rest = focus_of(pty, focus) + MARK;
        if (strncmp(rest, label, n) == 0 && !rest[n + strspn(rest + n, " ")]) return;
        pty_send(pty, "\t");
        pty_wait_no_text(pty, focus);
    }
    fail_msg("no field %s", label);
}

void terminal_fill(struct pty *pty, const char *label, const char *text)
{
    terminal_go_to(pty, label);
    pty_send(pty, text);
}
