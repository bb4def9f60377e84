/* The search for a learning rate from the form of a new run: its curve, the rate that goes into the form, and
 * how it fails or is stopped. The searches are those of the real binary, on a model that trains in
 * milliseconds. */
#include <locale.h>
#include <signal.h>

#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/view/trained_base.h"

/* Trains "base" for a step, whose configuration the forms begin with. */
static int train_base(void **state)
{
    (void)state;
    return trained_base("--train.total_steps=1");
}

/* The form of a new run like "base". */
static struct pty *open_form(int rows, int columns)
{
    struct pty *pty = trained_base_watch(rows, columns);
    pty_send(pty, "b");
    pty_wait_text(pty, "New run  from base");
    return pty;
}

/* Leaves the workbench, which ends the commands that it runs. */
static void leave(struct pty *pty)
{
    pty_send(pty, "\x03");
    assert_int_equal(pty_wait_exit(pty), 0);
    pty_close(pty);
}

TEST_CASE(the_suggested_rate_goes_into_the_form)
{
    struct pty *pty = open_form(24, 80);
    pty_send(pty, "\x06"); /* Ctrl-F */
    pty_wait_text(pty, "Search for a learning rate  done");
    pty_wait_text(pty, ", the lower of ");
    pty_wait_text(pty, "loss by learning rate");
    pty_wait_text(pty, " 1e-6        1e-5");
    pty_send(pty, "\r");
    pty_wait_text(pty, "was 0.0003");
    pty_wait_text(pty, "─ train.learning_rate ─");
    pty_send(pty, "\x15"
                  "0.5"); /* the field is typed into */
    pty_wait_text(pty, "*0.5");
    leave(pty);
    assert_true(store_fixture_number(trained_home, "select count(*) from runs") == 1);
}

TEST_CASE(a_rate_can_be_chosen_on_the_curve)
{
    struct pty *pty = open_form(40, 120);
    pty_send(pty, "\x06");
    pty_wait_text(pty, "Search for a learning rate  done");
    pty_send(pty, "\033[D"); /* Left */
    pty_wait_text(pty, ", at the cursor");
    pty_wait_text(pty, "loss by learning rate @");
    for (int i = 0; i < 100; i++) pty_send(pty, "h");
    pty_wait_text(pty, "learning rate 1e-06, at the cursor");
    for (int i = 0; i < 200; i++) pty_send(pty, "l"); /* beyond the last */
    pty_wait_text(pty, "learning rate 1, at the cursor");
    for (int i = 0; i < 200; i++) pty_send(pty, "h");
    pty_wait_text(pty, "learning rate 1e-06, at the cursor");
    pty_send(pty, "l\r"); /* the second of a hundred */
    pty_wait_text(pty, "*1.1e-06");
    pty_send(pty, "\x06");
    pty_wait_text(pty, "Search for a learning rate  done");
    pty_send(pty, "h");
    pty_wait_text(pty, ", at the cursor");
    pty_send(pty, "\033[F"); /* End */
    pty_wait_text(pty, ", the lower of ");
    pty_send(pty, "q");
    pty_wait_text(pty, "*1.1e-06"); /* as it was */
    leave(pty);
}

TEST_CASE(a_search_that_fails_says_why_and_one_that_is_stopped_keeps_its_curve)
{
    struct pty *pty = open_form(40, 120);
    terminal_fill(pty, "data", "\x15/no/such.txt");
    pty_send(pty, "\x06");
    pty_wait_text(pty, "Search for a learning rate  failed");
    pty_wait_text(pty, "/no/such.txt: no such file");
    pty_send(pty, "\r");
    pty_wait_text(pty, "there is no suggestion");
    pty_send(pty, "\033");
    pty_wait_text(pty, "New run  from base");
    leave(pty);
    pty = open_form(40, 120);
    terminal_fill(pty, "data", "\x15");
    pty_send(pty, getenv("ANNEAL_TEST_DIR"));
    pty_send(pty, "/corpus.txt");
    terminal_fill(pty, "batch size",
                  "\x15"
                  "2000"); /* seconds for a search */
    pty_send(pty, "\x06");
    pty_wait_text(pty, "searching: step 2"); /* at these rates the losses rise and fall by chance */
    pty_wait_text(pty, " of 100, at most ");
    pty_send(pty, "\x03"); /* Ctrl-C does not leave the workbench now */
    pty_wait_text(pty, "Search for a learning rate  stopped");
    pty_wait_text(pty, "there is no suggestion");
    pty_send(pty, "h\r"); /* its curve is still there */
    pty_wait_text(pty, "─ train.learning_rate ─");
    leave(pty);
}

TEST_CASE(a_fork_has_no_search)
{
    struct pty *pty = trained_base_watch(24, 80);
    pty_send(pty, "Cf");
    pty_wait_text(pty, "Fork  of base from step 1");
    assert_false(pty_has_text(pty, "find rate"));
    pty_send(pty, "\x06");
    pty_wait_text(pty, "a fork keeps its weights");
    leave(pty);
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    signal(SIGPIPE, SIG_IGN);
    return TEST_RUN(train_base, NULL);
}
