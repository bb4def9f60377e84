/* What the keys of the view of one run ask of its trainer, and how they lead through what has happened to it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <unistd.h>

#include "runs/writer.h"
#include "tests/tui/view/terminal_fixture.h"

static void keys_lead_from_event_to_event(void **state)
{
    struct fixture *fixture = *state;
    const char *arguments[] = {"watch", "lion-first", NULL};
    struct pty *pty = terminal_open(fixture->environment, 40, 120, NULL, NULL, arguments);
    pty_wait_text(pty, "▸loss");
    pty_send(pty, "n"); /* without a cursor, from the beginning */
    pty_wait_text(pty, "loss @150");
    pty_wait_text(pty, "! @150 the loss rose");
    pty_send(pty, "n");
    pty_wait_text(pty, "loss @299");
    pty_send(pty, "n");
    pty_wait_text(pty, "no event after this step");
    pty_send(pty, "N");
    pty_wait_text(pty, "loss @150");
    pty_send(pty, "N");
    pty_wait_text(pty, "no event before this step");
    pty_send(pty, "f++++"); /* a window at the end: it follows */
    pty_wait_text(pty, "@299 checkpoint written");
    pty_send(pty, "NN");
    pty_wait_text(pty, "loss @150");
    pty_close(pty);
}

/* On a small screen there is room for one event: the one under the cursor, and the keys stay. */
static void on_a_small_screen_the_event_stands_where_events_stand(void **state)
{
    struct fixture *fixture = *state;
    const char *arguments[] = {"watch", "lion-first", NULL};
    struct pty *pty = terminal_open(fixture->environment, 24, 80, NULL, NULL, arguments);
    pty_wait_text(pty, "▸loss");
    pty_wait_text(pty, "? help");
    pty_send(pty, "n");
    pty_wait_text(pty, "! @150 the loss rose");
    assert_true(pty_has_text(pty, "? help"));
    assert_non_null(strstr(pty_row(pty, 23), "? help"));
    pty_send(pty, "f"); /* the newest again */
    pty_wait_no_text(pty, "@150 the loss rose");
    pty_close(pty);
}

/* The trainer's side: takes the order that comes, and obeys. */
static void expect_order(struct fixture *fixture, enum order_verb verb, double argument)
{
    struct order order;
    while (!writer_next_order(fixture->run.writer, &order)) usleep(1000);
    assert_int_equal(order.verb, verb);
    assert_true(isnan(argument) ? isnan(order.argument) : order.argument == argument);
    writer_order_done(fixture->run.writer, order.id, 441, "obeyed");
}

static void every_other_order_has_a_key(void **state)
{
    struct fixture *fixture = *state;
    const char *arguments[] = {"watch", "kjv-live", NULL};
    struct pty *pty = terminal_open(fixture->environment, 40, 120, NULL, NULL, arguments);
    static const struct {
        const char *key, *asked, *done;
        enum order_verb verb;
        double argument;
    } keys[] = {
        {"c", "asked kjv-live to write a checkpoint", "checkpoint at step 441: obeyed", ORDER_CHECKPOINT,
         NAN},
        {"e", "asked kjv-live to evaluate", "eval at step 441: obeyed", ORDER_EVAL, NAN},
        {"t", "asked kjv-live to write a sample", "sample at step 441: obeyed", ORDER_SAMPLE, NAN},
        {"T", "asked kjv-live to write a trace", "trace at step 441: obeyed", ORDER_TRACE, NAN},
        {"<", "learning rate with 0.5", "lr-factor at step 441: obeyed", ORDER_LR_FACTOR, 0.5},
        {"<", "learning rate with 0.25", "lr-factor at step 441: obeyed", ORDER_LR_FACTOR, 0.25},
        {">", "learning rate with 0.5", "lr-factor at step 441: obeyed", ORDER_LR_FACTOR, 0.5},
    };
    pty_wait_text(pty, "▸loss");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        pty_send(pty, keys[i].key);
        pty_wait_text(pty, keys[i].asked);
        expect_order(fixture, keys[i].verb, keys[i].argument);
        pty_wait_text(pty, keys[i].done);
    }
    pty_close(pty);
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_a_small_screen_the_event_stands_where_events_stand),
        cmocka_unit_test(keys_lead_from_event_to_event),
        cmocka_unit_test(every_other_order_has_a_key),
    };
    return cmocka_run_group_tests(tests, terminal_make_store, terminal_drop_store);
}
