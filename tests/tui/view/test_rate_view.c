/* The search for a learning rate from the form of a new run: its curve, the rate that goes into the form, and
 * how it fails or is stopped. The searches are those of the real binary, on a model that trains in
 * milliseconds. */
#include <locale.h>
#include <signal.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/view/terminal_fixture.h"

static char home[1024], environment[1100];

/* Trains "base" for a step, whose configuration the forms begin with. */
static int train_base(void **state)
{
    (void)state;
    char corpus[1200], command[4096], text[4000];
    struct err err = {0};
    const char verse[] = "In the beginning God created the heaven and the earth. ";
    for (size_t i = 0; i < sizeof text; i++) text[i] = verse[i % (sizeof verse - 1)];
    snprintf(home, sizeof home, "%s/rates", getenv("ANNEAL_TEST_DIR"));
    snprintf(environment, sizeof environment, "ANNEAL_HOME=%s", home);
    snprintf(corpus, sizeof corpus, "%s/corpus.txt", getenv("ANNEAL_TEST_DIR"));
    if (file_make_folders(home, &err) || file_write_atomic(corpus, text, sizeof text, &err)) return 1;
    snprintf(command, sizeof command,
             "ANNEAL_HOME=%s %s train --device cpu --progress none --name base --data.train=%s "
             "--data.tokenizer=bytes --model.num_layers=1 --model.hidden_dim=16 --model.num_heads=2 "
             "--train.seq_len=16 --train.batch_size=2 --train.total_steps=1",
             home, getenv("ANNEAL_BINARY"), corpus);
    return system(command) != 0;
}

static struct pty *open_base(int rows, int columns)
{
    static const char *const watch[] = {"watch", "base", NULL};
    struct pty *pty = terminal_open(environment, rows, columns, NULL, "OMP_NUM_THREADS=1", watch);
    pty_wait_text(pty, "finished");
    return pty;
}

/* The form of a new run like "base". */
static struct pty *open_form(int rows, int columns)
{
    struct pty *pty = open_base(rows, columns);
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
    assert_true(store_fixture_number(home, "select count(*) from runs") == 1);
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
    pty_send(pty, "\x03");                   /* Ctrl-C does not leave the workbench now */
    pty_wait_text(pty, "Search for a learning rate  stopped");
    pty_wait_text(pty, "there is no suggestion");
    pty_send(pty, "h\r"); /* its curve is still there */
    pty_wait_text(pty, "─ train.learning_rate ─");
    leave(pty);
}

TEST_CASE(a_fork_has_no_search)
{
    struct pty *pty = open_base(24, 80);
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
