/* The length of the run in the forms that begin with a run of train.epochs: which of steps and epochs counts,
 * and what of the schedule is known before the data are counted. */
#include <locale.h>
#include <signal.h>

#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/view/trained_base.h"

static char base_steps[32]; /* that its epochs came to */

/* Trains "base" for a quarter of an epoch. data.end_token is without effect, of which the forms warn. */
static int train_base(void **state)
{
    (void)state;
    if (trained_base("--train.epochs=0.25 --train.warmup_steps=4 --data.end_token=3 "
                     "--checkpoint.every=20 --checkpoint.keep=3"))
        return 1;
    snprintf(base_steps, sizeof base_steps, "%.0f",
             store_fixture_number(trained_home, "select total_steps from runs where name = 'base'"));
    return 0;
}

static double steps_of(const char *run)
{
    char sql[200];
    snprintf(sql, sizeof sql, "select total_steps from runs where name = '%s'", run);
    return store_fixture_number(trained_home, sql);
}

static struct pty *open_form(const char *keys, const char *title)
{
    struct pty *pty = trained_base_watch(50, 120);
    pty_send(pty, keys);
    pty_wait_text(pty, title);
    pty_wait_text(pty, "F5 start"); /* the last row: the screen is drawn as a whole */
    return pty;
}

/* Waits for `format` with the steps of the base. */
static void wait_steps(struct pty *pty, const char *format)
{
    char text[200];
    snprintf(text, sizeof text, format, base_steps);
    pty_wait_text(pty, text);
}

/* Types `text` in place of what is in a field. */
static void set(struct pty *pty, const char *field, const char *text)
{
    terminal_fill(pty, field, "\x15"); /* Ctrl-U */
    pty_send(pty, text);
}

/* Waits until the form shows the schedule of the base's steps, with warnings. */
static void wait_schedule_of_base(struct pty *pty)
{
    wait_steps(pty, "%s (from epochs)");
    wait_steps(pty, "; %s steps of 32 tokens");
    pty_wait_text(pty, "learning rate: peak 3.00e-4, end 3");
    pty_wait_text(pty, "data.end_token = 3 has no effect");
}

/* Waits until the form says that the schedule depends on the data; it still warns. */
static void wait_schedule_unknown(struct pty *pty)
{
    pty_wait_text(pty, "*- (from epochs) was ");
    pty_wait_text(pty, "The curve of the learning rate is known once the trainer has counted");
    pty_wait_text(pty, "data.end_token = 3 has no effect");
    assert_false(pty_has_text(pty, "learning rate: peak"));
    assert_false(pty_has_text(pty, "waiting for the first value"));
    assert_false(pty_has_text(pty, "is not shorter than the run"));
}

TEST_CASE(edited_steps_take_the_place_of_the_epochs)
{
    struct pty *pty = open_form("b", "New run  from base");
    wait_schedule_of_base(pty);
    assert_false(pty_has_text(pty, "was "));
    set(pty, "steps", "3");
    pty_wait_text(pty, "*3");
    wait_steps(pty, "was %s");
    pty_wait_text(pty, "*0 (default) was 0.25");
    pty_wait_text(pty, "; 3 steps of 32 tokens");
    pty_send(pty, "\177"); /* cleared: the epochs count again */
    wait_schedule_of_base(pty);
    pty_wait_no_text(pty, "*0");
    pty_send(pty, "7\x12"); /* Ctrl-R: start */
    pty_wait_text(pty, "7 / 7 steps");
    pty_close(pty);
    assert_true(steps_of("base-2") == 7);
}

TEST_CASE(edited_epochs_take_the_place_of_the_steps)
{
    struct pty *pty = open_form("b", "New run  from base");
    set(pty, "name", "longer");
    set(pty, "steps", "7");
    pty_wait_text(pty, "7 steps of 32 tokens");
    set(pty, "train.epochs", "0.5");
    pty_wait_text(pty, "was 0.25");
    wait_schedule_unknown(pty);
    pty_wait_text(pty, "; 0.5 epochs in steps of 32 tokens");
    pty_send(pty, "\x12");
    pty_wait_text(pty, "✓ finished");
    pty_close(pty);
    assert_true(steps_of("longer") >= 2 * steps_of("base"));
}

TEST_CASE(the_steps_of_epochs_are_unknown_while_what_decides_them_is_edited)
{
    struct pty *pty = open_form("b", "New run  from base");
    wait_schedule_of_base(pty);
    set(pty, "batch size", "3");
    wait_schedule_unknown(pty);
    set(pty, "batch size", "2");
    wait_schedule_of_base(pty);
    set(pty, "train.epochs", ""); /* neither: the default */
    pty_wait_text(pty, "*2000 (default) was ");
    pty_wait_text(pty, "; 2000 steps of 32 tokens");
    pty_close(pty);
}

TEST_CASE(a_fork_takes_edited_steps_and_otherwise_the_epochs_of_its_run)
{
    char steps[64];
    struct pty *pty = open_form("Cjf", "Fork  of base from step ");
    wait_schedule_of_base(pty);
    pty_wait_text(pty, "0.25 (as it was)");
    set(pty, "batch size", "1");
    wait_schedule_unknown(pty);
    set(pty, "batch size", "");
    wait_schedule_of_base(pty);
    set(pty, "train.epochs", "0"); /* the steps stay */
    wait_steps(pty, "; %s steps of 32 tokens");
    wait_steps(pty, "%s (as it was)");
    set(pty, "train.epochs", "");
    snprintf(steps, sizeof steps, "%d", atoi(base_steps) + 3);
    set(pty, "steps", steps);
    pty_wait_text(pty, "*0 was 0.25");
    wait_steps(pty, "was %s");
    pty_send(pty, "\x12");
    pty_wait_text(pty, "✓ finished");
    pty_wait_text(pty, "base-fork");
    pty_close(pty);
    assert_true(steps_of("base-fork") == steps_of("base") + 3);
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    signal(SIGPIPE, SIG_IGN);
    return TEST_RUN(train_base, NULL);
}
