/* The demo: what it announces, what a second start offers, and what it does where nobody is asked. */
#include <signal.h>
#include <unistd.h>

#include "runs/run.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"
#include "tests/tui/view/pty.h"

enum { WORDS_MAX = 20 };

/* A demo of a model that is small enough for a test. */
struct small {
    struct stage stage;
    char environment[1100], data[1200];
    const char *words[WORDS_MAX];
};

static void small_open(struct small *s, const char *name, const char *steps)
{
    stage_open(&s->stage, name);
    snprintf(s->environment, sizeof s->environment, "ANNEAL_HOME=%s", s->stage.home);
    snprintf(s->data, sizeof s->data, "--data.train=%s", s->stage.corpus);
    const char *const words[] = {"demo",
                                 s->data,
                                 steps,
                                 "--data.tokenizer=bytes",
                                 "--model.hidden_dim=32",
                                 "--model.num_layers=1",
                                 "--model.num_heads=2",
                                 "--model.intermediate_dim=48",
                                 "--train.seq_len=32",
                                 "--train.batch_size=4",
                                 "--train.threads=1",
                                 "--eval.every=0",
                                 "--checkpoint.every=0",
                                 NULL};
    memcpy(s->words, words, sizeof words);
}

static struct pty *open_demo(const struct small *s, const char *locale)
{
    const char *environment[] = {s->environment, locale, NULL};
    return pty_open(
        &(struct pty_options){.rows = 30, .columns = 100, .environment = environment, .arguments = s->words});
}

static void leave(struct pty *pty, const char *keys)
{
    pty_send(pty, keys);
    assert_int_equal(pty_wait_exit(pty), 0);
    pty_wait_text(pty, "1 run continues training in the background");
    pty_close(pty);
}

/* Ends the newest run's trainer, whose process has this program's name, and waits until it has. */
static void stop_newest(const struct small *s)
{
    struct store *store;
    struct run_info run;
    char path[64], process[32] = "";
    struct err err = {0};
    assert_int_equal(store_open(s->stage.home, STORE_WRITE, &store, &err), STATUS_OK);
    assert_int_equal(run_find(store, "latest", &run, &err), STATUS_OK);
    snprintf(path, sizeof path, "/proc/%d/comm", (int)run.pid);
    FILE *file = fopen(path, "r");
    (void)!fgets(process, sizeof process, file);
    fclose(file);
    kill((pid_t)run.pid, SIGTERM);
    for (int i = 0; i < 60000 && run_is_alive(store, run.id); i++) usleep(1000);
    assert_string_equal(process, "anneal\n");
    store_close(store);
    assert_string_equal(stage_status(), "stopped");
}

static void expect_runs(const struct small *s, const char *names_and_segments)
{
    char *text = stage_query(&s->stage, "select group_concat(name || ' ' || segment, ', ') from "
                                        "(select name, segment from runs order by created_at)");
    text[strcspn(text, "\n")] = '\0';
    assert_string_equal(text, names_and_segments);
}

TEST_CASE(a_second_demo_offers_to_watch_to_resume_or_to_start_anew)
{
    struct small s;
    small_open(&s, "demo", "--train.total_steps=1000000");
    struct pty *pty = open_demo(&s, NULL);
    pty_wait_text(pty, "● running");
    assert_non_null(strstr(pty_raw(pty), "then come 1,000,000 steps"));
    assert_non_null(strstr(pty_raw(pty), "four minutes on two cores"));
    assert_non_null(strstr(pty_raw(pty), "Leave with q or Ctrl-C"));
    assert_non_null(strstr(pty_raw(pty), "/anneal watch demo")); /* by the path it was called by */
    assert_null(strstr(pty_raw(pty), "UTF-8"));
    pty_wait_text(pty, "Leave with q or Ctrl-C: the training continues"); /* in the workbench, too */
    leave(pty, "\003");

    pty = open_demo(&s, NULL);
    pty_wait_text(pty, "it is running, after");
    pty_send(pty, "r\n"); /* not offered: it asks again */
    pty_send(pty, "\n");
    pty_wait_text(pty, "● running");
    pty_wait_text(pty, "tok/s"); /* its speed is known */
    leave(pty, "qq");
    expect_runs(&s, "demo 1");
    stop_newest(&s);

    pty = open_demo(&s, NULL);
    pty_wait_text(pty, "it is stopped, after");
    pty_send(pty, "q\n");
    assert_int_equal(pty_wait_exit(pty), 0);
    pty_close(pty);
    expect_runs(&s, "demo 1");

    pty = open_demo(&s, NULL);
    pty_wait_text(pty, "What now? [r]");
    pty_send(pty, "\n");
    pty_wait_text(pty, "● running");
    assert_non_null(strstr(pty_raw(pty), "at the speed of the previous demo"));
    leave(pty, "qq");
    expect_runs(&s, "demo 2");
    stop_newest(&s);

    pty = open_demo(&s, NULL);
    pty_wait_text(pty, "What now? [r]");
    pty_send(pty, "n\n");
    pty_wait_text(pty, "● running");
    leave(pty, "qq");
    expect_runs(&s, "demo 2, demo 1");
    stop_newest(&s);
    assert_int_equal(stage_count_leftovers(&s.stage), 0);
}

/* One that fails would fail again, but on a terminal somebody can look at it first. */
TEST_CASE(what_a_second_demo_offers_first_loses_nothing)
{
    static const struct {
        const char *status, *offer;
    } cases[] = {{"finished", "What now? [w]"}, {"early_stopped", "What now? [w]"},
                 {"stopped", "What now? [r]"},  {"failed", "What now? [r]"},
                 {"running", "What now? [r]"}, /* its trainer is gone */
                 {"paused", "What now? [w]"}};
    struct small s;
    struct run_lock lock = {-1};
    char id[RUN_ID_MAX];
    small_open(&s, "offers", "--train.total_steps=10");
    store_fixture_run(s.stage.home, "demo", id);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stage_query(&s.stage, kept_format("update runs set status = '%s' returning name", cases[i].status));
        struct store *store = store_fixture_open(s.stage.home);
        if (i == 5) assert_int_equal(run_lock_acquire(store, id, &lock, NULL), STATUS_OK);
        store_close(store);
        struct pty *pty = open_demo(&s, NULL);
        pty_wait_text(pty, cases[i].offer);
        pty_send(pty, i % 2 ? "\004" : "nn\nq\n"); /* the end of the input; nn is no answer */
        assert_int_equal(pty_wait_exit(pty), 0);
        pty_close(pty);
    }
    run_lock_release(&lock);
    expect_runs(&s, "demo 0");
}

TEST_CASE(without_utf8_it_says_how_the_charts_can_be_seen)
{
    struct small s;
    small_open(&s, "ascii", "--train.total_steps=1000000");
    struct pty *pty = open_demo(&s, "LC_ALL=C");
    pty_wait_text(pty, "* running");
    assert_non_null(strstr(pty_raw(pty), "LC_ALL=C.UTF-8")); /* LANG would not count here */
    assert_non_null(strstr(pty_raw(pty), "anneal demo"));
    pty_wait_text(pty, "This locale has no UTF-8"); /* in the workbench, too */
    pty_wait_text(pty, "Leave with q or Ctrl-C: the training continues");
    pty_send(pty, "?");
    pty_wait_no_text(pty, "This locale has no UTF-8");
    pty_send(pty, "?");
    leave(pty, "qq");
    stop_newest(&s);
}

TEST_CASE(without_a_terminal_it_resumes_what_was_stopped_else_starts_anew)
{
    struct small s;
    small_open(&s, "plain", "--train.total_steps=1000000");
    struct process *p = process_open(&(struct process_options){.arguments = s.words});
    process_wait_text(p, "sample at step 200");
    process_signal(p, SIGINT);
    p = process_expect(130, p);
    assert_non_null(strstr(process_stderr(p), "Ctrl-C stops it"));
    expect_runs(&s, "demo 1");
    s.words[2] = "--train.total_steps=200000000";
    p = process_open(&(struct process_options){.arguments = s.words});
    process_wait_text(p, "continues after step");
    process_signal(p, SIGINT);
    process_expect(130, p);
    expect_runs(&s, "demo 2");
    stage_query(&s.stage, "update runs set status = 'running' returning name"); /* crashed */
    p = process_open(&(struct process_options){.arguments = s.words});
    process_wait_text(p, "continues after step");
    process_signal(p, SIGINT);
    process_expect(130, p);
    expect_runs(&s, "demo 3");
    stage_query(&s.stage, "update runs set status = 'finished' returning name");
    s.words[2] = "--train.total_steps=3";
    process_expect(0, process_open(&(struct process_options){.arguments = s.words}));
    expect_runs(&s, "demo 3, demo 1");
    char *shown = process_output("show", "latest", "--json", NULL);
    assert_non_null(strstr(shown, "\"recipe\": \"quick\""));
}

int main(void)
{
    unsetenv("MAKELEVEL"); /* make runs the tests; the demo would name make in its hints */
    return TEST_RUN(NULL, NULL);
}
