/* The real binary in a pseudo-terminal: the effects of its keys. */
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <unistd.h>

#include "core/base/file.h"
#include "runs/order.h"
#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/command/stage.h"
#include "tests/tui/view/terminal_fixture.h"

TEST_CASE(new_steps_appear_without_a_key)
{
    struct fixture *fixture = *state;
    const char *arguments[] = {"watch", "latest", NULL};
    struct pty *pty = terminal_open(fixture->environment, 24, 80, NULL, NULL, arguments);
    pty_wait_text(pty, "420 / 1,000 steps");
    fill_steps(&fixture->run, &terminal_live, 420, 441);
    pty_wait_text(pty, "441 / 1,000 steps");
    pty_close(pty);
}

TEST_CASE(time_between_a_stop_and_a_resume_does_not_count)
{
    const struct fill short_run = {
        .name = "resumed", .steps = 5, .total_steps = 5, .spike_step = -1, .status = RUN_FINISHED};
    const char *show[] = {"show", "resumed", NULL}, *watch[] = {"watch", "resumed", NULL};
    char home[1024], environment[1100];
    struct fill_run run;
    store_fixture_home("resumed", home, sizeof home);
    snprintf(environment, sizeof environment, "ANNEAL_HOME=%s", home);
    fill_run(home, &short_run, &run);
    /* 10 s, a night, 20 s of a trainer that died after its last step, an hour, 30 s */
    store_fixture_sql(home, "update runs set created_at = 1e9, ended_at = 1e9 + 40030, segment = 3;"
                            "delete from segments;"
                            "insert into segments(run_id, segment, first_step, started_at, ended_at, status)"
                            " select id, 1, 0, 1e9, 1e9 + 10, 'stopped' from runs union all"
                            " select id, 2, 2, 1e9 + 30000, null, 'running' from runs union all"
                            " select id, 3, 4, 1e9 + 40000, 1e9 + 40030, 'finished' from runs;"
                            "update steps set segment = 2, wall_time = 1e9 + 30000 + 10 * (step - 1)"
                            " where step in (2, 3);"
                            "update steps set segment = 3 where step = 4");
    struct pty *pty = terminal_open(environment, 60, 100, NULL, NULL, show);
    assert_int_equal(pty_wait_exit(pty), 0);
    assert_true(pty_has_text(pty, ", after 1m 00s"));
    pty_close(pty);
    pty = terminal_open(environment, 24, 80, NULL, NULL, watch);
    pty_wait_text(pty, "elapsed 1m 00s");
    pty_close(pty);
}

TEST_CASE(a_bad_value_shows_the_trainers_sentence_in_the_form)
{
    struct fixture *fixture = *state;
    struct pty *pty = terminal_open_list(fixture, 24, 100);
    pty_wait_text(pty, "3 runs");
    pty_send(pty, "n");
    pty_wait_text(pty, "New run");
    terminal_go_to(pty, "steps");
    pty_wait_text(pty, "optimizer steps until");
    pty_send(pty, "many\x12");
    pty_wait_text(pty, "not started");
    pty_wait_text(pty, "many"); /* what was typed is still there */
    pty_send(pty, "\033");
    pty_wait_text(pty, "3 runs, 1 training"); /* and no run was made */
    pty_close(pty);
}

TEST_CASE(data_that_are_not_there_are_said_to_be_so_at_their_field)
{
    struct fixture *fixture = *state;
    struct pty *pty = terminal_open_list(fixture, 24, 100);
    pty_wait_text(pty, "3 runs");
    pty_send(pty, "n");
    pty_wait_text(pty, "New run");
    terminal_fill(pty, "data", "no/such.txt");
    pty_wait_text(pty, "!no/such.txt");
    pty_wait_text(pty, " data.train: no/such.txt: no such file, folder or recipe");
    pty_send(pty, "\025kjv");
    pty_wait_no_text(pty, "no such file");
    pty_wait_text(pty, "steps of ");
    pty_close(pty);
}

/* The newest run of a store, once it is there and trains. */
static struct run_info wait_for_training(struct store *store, int64_t steps)
{
    struct run_info run;
    struct err err = {0};
    for (int i = 0; i < 60000; i++) {
        if (run_find(store, "latest", &run, &err) == STATUS_OK && run.steps >= steps) return run;
        usleep(1000);
    }
    fail_msg("no run came to step %ld: %s", (long)steps, err.text);
    return run;
}

/* The state of a live run after it is ordered to stop. */
static struct run_info end_training(struct store *store, const struct run_info *run)
{
    struct run_info ended;
    struct err err = {0};
    kill((pid_t)run->pid, SIGTERM);
    for (int i = 0; i < 60000 && run_is_alive(store, run->id); i++) usleep(1000);
    assert_int_equal(run_find(store, run->id, &ended, &err), STATUS_OK);
    return ended;
}

TEST_CASE(train_with_watch_arrives_at_its_run)
{
    struct stage stage;
    struct err err = {0};
    struct store *store;
    char environment[700];
    stage_open(&stage, "watch");
    snprintf(environment, sizeof environment, "ANNEAL_HOME=%s", stage.home);
    const char *arguments[] = {"train",
                               "--watch",
                               stage.config,
                               "--name",
                               "watched",
                               "--train.total_steps=100000",
                               "--eval.every=0",
                               "--checkpoint.every=0",
                               NULL};
    struct pty *pty = terminal_open(environment, 24, 80, NULL, NULL, arguments);
    pty_wait_text(pty, "● running");
    pty_wait_text(pty, "/ 100,000 steps");
    pty_wait_text(pty, "watched");
    assert_true(pty_on_alternate_screen(pty));
    pty_send(pty, "qq");
    assert_int_equal(pty_wait_exit(pty), 0);
    pty_wait_text(pty, "1 run continues training");
    pty_close(pty);
    assert_int_equal(store_open(stage.home, STORE_WRITE, &store, &err), STATUS_OK);
    struct run_info run = wait_for_training(store, 1);
    assert_int_equal(end_training(store, &run).status, RUN_STOPPED);
    store_close(store);
    assert_int_equal(stage_count_leftovers(&stage), 0);
    /* what the trainer has against its words is said here, and no workbench opens */
    const char *bad[] = {"train", stage.config, "--watch", "--data.train=nowhere.txt", NULL};
    pty = terminal_open(environment, 24, 120, NULL, NULL, bad);
    assert_int_equal(pty_wait_exit(pty), 1);
    pty_wait_text(pty, "nowhere.txt");
    assert_false(pty_on_alternate_screen(pty));
    assert_int_equal(stage_count_leftovers(&stage), 0); /* not while a checkpoint may be half written */
    pty_close(pty);
}

TEST_CASE(a_run_started_from_the_form_outlives_the_workbench)
{
    struct fixture *fixture = *state;
    struct err err = {0};
    struct store *store;
    struct run_info run;
    char corpus[1200], environment[1200], home[1100], text[4096 + 1];
    const char verse[] = "In the beginning God created the heaven and the earth. ";
    for (size_t i = 0; i < sizeof text - 1; i++) text[i] = verse[i % (sizeof verse - 1)];
    snprintf(home, sizeof home, "%s/form", getenv("ANNEAL_TEST_DIR"));
    snprintf(environment, sizeof environment, "ANNEAL_HOME=%s", home);
    snprintf(corpus, sizeof corpus, "%s/c.txt", getenv("ANNEAL_TEST_DIR"));
    assert_int_equal(file_make_folders(home, &err), STATUS_OK);
    assert_int_equal(file_write_atomic(corpus, text, sizeof text - 1, &err), STATUS_OK);
    struct pty *pty = terminal_open(environment, 40, 120, NULL, "OMP_NUM_THREADS=1", NULL);
    pty_wait_text(pty, "No runs yet.");
    pty_send(pty, "nfrom-form");
    pty_wait_text(pty, "New run");
    terminal_fill(pty, "data", corpus);
    terminal_fill(pty, "tokenizer", "bytes");
    terminal_fill(pty, "steps", "100000");
    terminal_fill(pty, "batch size", "1");
    terminal_fill(pty, "sequence length", "16\x12"); /* Ctrl-R: start */
    pty_wait_text(pty, "● running");
    pty_wait_text(pty, "/ 100,000 steps");
    pty_wait_text(pty, "from-form");
    pty_send(pty, "q");
    pty_wait_text(pty, "from-form continues training");
    pty_send(pty, "q");
    assert_int_equal(pty_wait_exit(pty), 0);
    pty_close(pty);
    assert_int_equal(store_open(home, STORE_WRITE, &store, &err), STATUS_OK);
    run = wait_for_training(store, 1);
    run = wait_for_training(store, run.steps + 2); /* it still trains, with nobody watching */
    assert_int_equal(run.status, RUN_RUNNING);
    run = end_training(store, &run);
    assert_int_equal(run.status, RUN_STOPPED);
    char folder[2048], log[2100];
    run_folder(store, run.id, folder, sizeof folder);
    snprintf(log, sizeof log, "%s/stderr.log", folder);
    assert_true(file_exists(log));
    store_close(store);
    (void)fixture;
}

TEST_CASE(the_table_of_runs_fits_the_terminal)
{
    const struct fill lengthy = {.name = "a-name-that-goes-on-and-on-and-on-and-on-for-ever-v7",
                                 .steps = 5,
                                 .total_steps = 5,
                                 .spike_step = -1,
                                 .status = RUN_FINISHED},
                      brief = {.name = "brief",
                               .steps = 5,
                               .total_steps = 5,
                               .spike_step = 4,
                               .spike = -NAN,
                               .status = RUN_FAILED};
    static const int widths[] = {10, 30, 80, 200};
    const char *arguments[] = {"runs", NULL};
    char home[1024], environment[1100];
    struct fill_run run;
    store_fixture_home("long-name", home, sizeof home);
    snprintf(environment, sizeof environment, "ANNEAL_HOME=%s", home);
    fill_run(home, &lengthy, &run);
    fill_run(home, &brief, &run);
    for (int i = 0; i < 4; i++) {
        struct pty *pty = terminal_open(environment, 24, widths[i], NULL, "COLUMNS", arguments);
        assert_int_equal(pty_wait_exit(pty), 0);
        if (strlen(pty_row(pty, 3))) fail_msg("at %d columns three lines wrap", widths[i]);
        assert_int_equal(strncmp(pty_row(pty, 0), "RUN", 3), 0);
        assert_int_equal(pty_has_text(pty, "~"), i < 3);
        if (widths[i] == 80) assert_true(pty_has_text(pty, "-v7  finished"));
        if (widths[i] == 80) assert_true(pty_has_text(pty, "BEST VAL"));
        if (widths[i] == 80) assert_true(pty_has_text(pty, " nan "));
        assert_false(pty_has_text(pty, "-nan"));
        if (widths[i] == 200) assert_true(pty_has_text(pty, "for-ever-v7  finished"));
        if (widths[i] == 200) assert_true(pty_has_text(pty, "STARTED"));
        pty_close(pty);
    }
}

/* --- working with it --- */

TEST_CASE(keys_change_charts_cursor_and_zoom)
{
    struct fixture *fixture = *state;
    const char *arguments[] = {"watch", "lion-first", NULL};
    struct pty *pty = terminal_open(fixture->environment, 40, 120, NULL, NULL, arguments);
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

TEST_CASE(an_unknown_escape_sequence_is_no_command)
{
    struct fixture *fixture = *state;
    const char *arguments[] = {"watch", "lion-first", NULL};
    struct pty *pty = terminal_open(fixture->environment, 24, 80, NULL, NULL, arguments);
    pty_wait_text(pty, "▸loss");
    pty_send(pty, "\033[1;5s\033[<0;3;4q\033Os\033[250~\t");
    pty_wait_text(pty, "▸learning rate"); /* only the Tab counted: still in the run, no question asked */
    assert_false(pty_has_text(pty, "Stop"));
    pty_close(pty);
}

TEST_CASE(a_key_with_alt_is_not_that_key)
{
    struct fixture *fixture = *state;
    const char *arguments[] = {"watch", "lion-first", NULL};
    struct pty *pty = terminal_open(fixture->environment, 24, 80, NULL, NULL, arguments);
    pty_wait_text(pty, "▸loss");
    pty_send(pty, "\033q\033D\033\303\251\033\177\t");
    pty_wait_text(pty, "▸learning rate"); /* only the Tab counted */
    pty_send(pty, "\033");
    pty_wait_text(pty, "3 runs"); /* Escape alone */
    pty_send(pty, "/lion");
    pty_wait_text(pty, "/lion  1 match");
    pty_send(pty, "\033x\025kjv");
    pty_wait_text(pty, "/kjv  1 match"); /* typed on */
    pty_close(pty);
}

TEST_CASE(stopping_asks_first_and_sends_an_order)
{
    struct fixture *fixture = *state;
    struct pty *pty = terminal_open_list(fixture, 24, 80);
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

TEST_CASE(the_form_starts_a_run_that_trains_adapters)
{
    struct err err = {0};
    struct {
        uint64_t count;
        uint32_t tokens[2000];
    } file = {.count = 2000};
    char tokens[1200], environment[1200], home[1100];
    for (uint32_t i = 0; i < 2000; i++) file.tokens[i] = i % 47; /* the vocabulary of the model */
    snprintf(home, sizeof home, "%s/tune", getenv("ANNEAL_TEST_DIR"));
    snprintf(environment, sizeof environment, "ANNEAL_HOME=%s", home);
    snprintf(tokens, sizeof tokens, "%s/t.tok", getenv("ANNEAL_TEST_DIR"));
    assert_int_equal(file_make_folders(home, &err), STATUS_OK);
    assert_int_equal(file_write_atomic(tokens, &file, sizeof file, &err), STATUS_OK);
    struct pty *pty = terminal_open(environment, 40, 120, NULL, "OMP_NUM_THREADS=1", NULL);
    pty_wait_text(pty, "No runs yet.");
    pty_send(pty, "ntuned");
    pty_wait_text(pty, "New run");
    terminal_fill(pty, "fine-tune", "tests/fixtures/peft/llama");
    terminal_fill(pty, "LoRA rank", "2");
    terminal_fill(pty, "data", tokens);
    terminal_fill(pty, "steps", "3");
    terminal_fill(pty, "batch size", "1");
    terminal_fill(pty, "sequence length", "16");
    pty_wait_text(pty, "parameters trained; 3 steps of 16 tokens");
    pty_send(pty, "\x12"); /* Ctrl-R: start */
    pty_wait_text(pty, "finished");
    pty_wait_text(pty, "576 of 14.8k parameters trained");
    pty_send(pty, "qq");
    assert_int_equal(pty_wait_exit(pty), 0);
    pty_close(pty);
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    signal(SIGPIPE, SIG_IGN);
    return TEST_RUN(terminal_make_store, terminal_drop_store);
}
