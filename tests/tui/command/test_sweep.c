/* `anneal sweep`: every combination is trained, the hopeless are left at a rung, and nothing is lost or done
 * twice when it is interrupted. */
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

#define RATES      "--train.learning_rate=1e-5,1e-3,3e-3"
#define OPTIMIZERS "--train.optimizer=adamw,lion"

/* The printed results, without the ids, which hold the time. */
static char *results(const char *name)
{
    json_t *json = stage_json(process_output("sweep", "show", name, "--json", NULL)), *run;
    size_t i;
    json_array_foreach(json_object_get(json, "runs"), i, run) json_object_del(run, "id");
    json_object_del(json, "sweep");
    return kept(json_dumps(json, JSON_SORT_KEYS), free);
}

static struct process *sweep(const struct stage *s, const char *name, const char *steps)
{
    return process_start("sweep", s->config, "--name", name, RATES, OPTIMIZERS, steps, "--eval.every=10",
                         "--jobs=2", NULL);
}

STAGE_CASE(the_hopeless_are_left_and_the_best_trains_to_its_end, struct stage *s)
{
    struct process *p = process_expect(0, sweep(s, "lr", "--train.total_steps=80"));
    assert_non_null(strstr(process_stderr(p), "6 runs, 2 side by side; rungs at 10, 20, 40, 80 steps"));
    stage_expect(s,
                 "select group_concat(n) from (select steps || 'x' || count(*) n from runs group by steps)",
                 "10x3,20x1,40x1,80x1");
    stage_expect(s, "select count(*) from tags where tag = 'sweep:lr'", "6");
    stage_expect(s,
                 "select count(distinct a.value || b.value) from params a, params b where a.run_id = b.run_id"
                 " and a.name = 'train.learning_rate' and b.name = 'train.optimizer'",
                 "6");
    stage_expect(s, "select count(*) from runs where status = 'stopped' and message = 'stopped by --until'",
                 "5");
    /* of the runs that came to a rung, none that was left there had a lower loss than one that went on */
    stage_expect(
        s,
        "select count(*) from evals a, evals b, runs x, runs y where a.step = b.step and a.run_id = x.id"
        " and b.run_id = y.id and a.step = x.steps and y.steps > x.steps and a.val_loss < b.val_loss",
        "0");
    /* four segments, and the losses of a run that was never stopped */
    char *best = stage_query(s, "select id from runs where status = 'finished'"),
         *rate = stage_query(s, "select '--train.learning_rate=' || value from params, runs where run_id = id"
                                " and status = 'finished' and params.name = 'train.learning_rate'"),
         *optimizer =
             stage_query(s, "select '--train.optimizer=' || value from params, runs where run_id = id"
                            " and status = 'finished' and params.name = 'train.optimizer'");
    stage_expect(s, "select segment from runs where status = 'finished'", "4");
    process_run(0, "train", s->config, "--name=whole", rate, optimizer, "--eval.every=10",
                "--train.total_steps=80", "--progress=none", NULL);
    history_expect_same("whole", best);
}

/* Each row has the run's newest loss, whether or not all runs of the sweep are still there. */
STAGE_CASE(the_results_of_a_sweep_with_a_missing_run_have_their_newest_losses, struct stage *s)
{
    process_run(0, "sweep", s->config, "--name=lr", "--train.learning_rate=1e-3,3e-3",
                "--train.total_steps=40", "--eval.every=10", NULL);
    char *left = stage_query(s, "select id from runs where steps < 40"),
         *loss = stage_query(
             s, "select val_loss from evals, runs where run_id = id and step = 40 and steps = 40");
    process_run(0, "tag", left, "-sweep:lr", NULL);
    const json_t *runs =
        json_object_get(stage_json(process_output("sweep", "show", "lr", "--json", NULL)), "runs");
    for (size_t i = 0; i < 2; i++) {
        const json_t *run = json_array_get(runs, i);
        bool whole = stage_int(run, "steps") == 40;
        assert_string_equal(stage_text(run, "outcome"), whole ? "finished" : "missing");
        if (whole) assert_true(fabs(stage_real(run, "val_loss") - strtod(loss, NULL)) < 1e-9);
    }
    struct process *p = process_run(0, "sweep", "--resume", "lr", NULL);
    assert_non_null(strstr(process_stderr(p), "of the sweep is missing"));
}

STAGE_CASE(without_one_of_the_runs_of_a_sweep_the_best_is_still_the_first, struct stage *s)
{
    process_run(0, "sweep", s->config, "--name=lr", "--train.learning_rate=1e-3,3e-3,1e-4,3e-4",
                "--train.total_steps=40", "--eval.every=10", NULL);
    char *best = stage_query(s, "select id from runs where steps = 40"),
         *left = stage_query(s, "select id from runs where steps = 10 limit 1");
    process_run(0, "tag", left, "-sweep:lr", NULL);
    store_fixture_sql(s->home, "update evals set val_loss = 0.1 where step = 10 and run_id ="
                               " (select id from runs where steps = 20)"); /* it was the best there */
    const json_t *runs =
        json_object_get(stage_json(process_output("sweep", "show", "lr", "--json", NULL)), "runs");
    assert_string_equal(stage_text(json_array_get(runs, 0), "id"), best);
    assert_string_equal(stage_text(json_array_get(runs, 3), "outcome"), "missing");
}

STAGE_CASE(a_killed_sweep_goes_on_where_it_was, struct stage *s)
{
    static const char *const moments[] = {"rung 1 of", "rung 2 of", "rung 4 of"};
    process_expect(0, sweep(s, "whole", "--train.total_steps=200"));
    char *expected = results("whole");
    for (int i = 0; i < 3; i++) {
        char *name = kept_format("cut-%d", i);
        struct process *p = sweep(s, name, "--train.total_steps=200");
        process_wait_text(p, moments[i]);
        process_signal(p, SIGHUP); /* a closed terminal stops nothing */
        process_signal(p, i == 1 ? SIGINT : SIGKILL);
        process_expect(i == 1 ? 130 : 128 + SIGKILL, p);
        process_run(0, "sweep", "--resume", name, "--jobs=2", NULL);
        char *text = results(name);
        assert_string_equal(text, expected);
    }
    stage_expect(s, "select count(*) from runs", "24");
    process_run(0, "sweep", "--resume", "cut-0", NULL); /* nothing is left to do */
    stage_expect(s, "select count(*) from runs", "24");
}

/* A sweep of runs that do not end, one after the other, once the first one trains. */
static struct process *start_long(const struct stage *s, pid_t *trainer)
{
    const char *const words[] = {"sweep",      s->config,
                                 "--name=sw",  "--train.learning_rate=1e-3,1e-4",
                                 "--jobs=1",   "--train.total_steps=1000000",
                                 "--factor=1", NULL};
    struct process *p = process_open(&(struct process_options){.arguments = words});
    for (double end = clock_monotonic() + 60;; usleep(10000)) {
        assert_true(clock_monotonic() < end);
        if (stage_count_runs() && stage_int(json_array_get(stage_runs(), 0), "steps") > 0) break;
    }
    *trainer = (pid_t)strtol(stage_query(s, "select pid from runs"), NULL, 10);
    return p;
}

/* A service manager signals every process. */
STAGE_CASE(a_signal_to_sweep_and_trainers_loses_no_step, struct stage *s)
{
    pid_t trainer;
    struct process *p = start_long(s, &trainer);
    assert_int_equal(kill(trainer, SIGTERM), 0);
    process_signal(p, SIGTERM);
    process_expect(0, p);
    assert_non_null(strstr(process_stderr(p), "the runs are saved; continue with: "));
    stage_expect(s, "select status from runs", "stopped");
}

STAGE_CASE(a_sweep_does_not_call_a_killed_run_saved, struct stage *s)
{
    pid_t trainer;
    struct process *p = start_long(s, &trainer);
    assert_int_equal(kill(trainer, SIGSTOP), 0);
    process_signal(p, SIGTERM);
    usleep(500000); /* until it waits for its trainer */
    assert_int_equal(kill(trainer, SIGKILL), 0);
    process_expect(1, p);
    assert_non_null(strstr(process_stderr(p), "a run ended without saving"));
}

/* JSON has the stored word. */
STAGE_CASE(a_suspended_trainer_is_said_to_be_so_wherever_people_read_of_its_run, struct stage *s)
{
    pid_t trainer;
    struct process *p = start_long(s, &trainer);
    process_run(0, "train", s->config, "--name=short", "--progress=none", NULL);
    const char *where = kept_format("or kill -CONT %d", (int)trainer);
    assert_int_equal(kill(trainer, SIGSTOP), 0);
    while (!strstr(process_output("show", "sw-1", NULL), "suspended")) continue;
    assert_non_null(strstr(process_output("runs", NULL), "  suspended  "));
    assert_non_null(strstr(process_output("sweep", "show", "sw", NULL), "  suspended  "));
    assert_non_null(strstr(process_output("compare", "short", "sw-1", NULL), "  suspended"));
    assert_non_null(strstr(process_output("runs", "--filter=status=running", "--json", NULL), "\"running\""));
    assert_non_null(strstr(process_stderr(process_run(0, "order", "sw-1", "eval", NULL)), where));
    struct process *stop = process_start("order", "sw-1", "stop", "--wait", NULL);
    process_wait_text(stop, where);
    assert_int_equal(kill(trainer, SIGCONT), 0);
    process_expect(0, stop);
    assert_null(strstr(process_output("runs", NULL), "suspended"));
    process_signal(p, SIGTERM);
    process_wait_exit(p);
}

STAGE_CASE(runs_are_compared_by_the_metric_of_the_configuration, struct stage *s)
{
    char rows[4000] = "text,label\n", path[700], data[720];
    for (int i = 0; i < 100; i++)
        sprintf(rows + strlen(rows), "%s thing %d,%s\n", i % 3 ? "poor" : "nice", i, i % 3 ? "bad" : "good");
    snprintf(path, sizeof path, "%s/rows.csv", s->folder);
    snprintf(data, sizeof data, "--data.train=%s", path);
    stage_write(path, rows, strlen(rows));
    process_run(0, "sweep", s->config, "--name=m", data, "--data.format=labels", "--data.val_fraction=0.3",
                "--train.learning_rate=1e-2,1e-7", "--eval.metric=accuracy", "--eval.every=10", NULL);
    /* the losses are not what is printed, and the highest value is the best */
    stage_expect(s, "select group_concat(steps) from (select steps from runs order by id)", "40,20");
    char *text = process_output("sweep", "show", "m", "--json", NULL);
    json_t *json = stage_json(text), *list = json_object_get(json, "runs");
    assert_true(stage_real(json_array_get(list, 0), "accuracy") >
                stage_real(json_array_get(list, 1), "accuracy"));
    assert_null(json_object_get(json_array_get(list, 0), "val_loss"));
}

STAGE_CASE(a_run_that_diverges_does_not_stop_the_others, struct stage *s)
{
    struct process *p =
        process_run(0, "sweep", s->config, "--name=d", "--train.learning_rate=1000,1e-3",
                    "--health.on_nan=stop", "--train.schedule=constant", "--train.weight_decay=100",
                    "--train.warmup_steps=0", "--train.max_grad_norm=0", NULL);
    assert_non_null(strstr(process_stderr(p), "failed: step "));
    stage_expect(s, "select group_concat(status) from (select status from runs order by name)",
                 "failed,finished");
    char *text = process_output("sweep", "show", "d", NULL);
    assert_true(strstr(text, "1e-3") < strstr(text, "1000"));
}

STAGE_CASE(a_dry_run_lists_the_runs_and_makes_none, struct stage *s)
{
    process_run(0, "train", s->config, "--progress=none", NULL);
    char *text =
        process_output("sweep", s->config, "--train.learning_rate=1e-5..1e-2", "--train.warmup_steps=1..9",
                       OPTIMIZERS, "--samples=7", "--dry-run", "--json", NULL);
    json_t *json = stage_json(text), *run;
    size_t i;
    assert_int_equal(json_array_size(json_object_get(json, "runs")), 7);
    json_array_foreach(json_object_get(json, "runs"), i, run) {
        double rate = stage_real(run, "train.learning_rate");
        int64_t warmup = stage_int(run, "train.warmup_steps");
        assert_true(rate >= 1e-5 && rate <= 1e-2 && warmup >= 1 && warmup <= 9);
    }
    assert_true(stage_real(json, "estimated_seconds") > 0);
    assert_int_equal(stage_int(json, "side_by_side"), 2); /* the tests have two processors, a run takes one */
    text = process_output("sweep", s->config, OPTIMIZERS, "--train.threads=2", "--dry-run", "--json", NULL);
    assert_non_null(strstr(text, "\"side_by_side\": 1,"));
    text = process_output("sweep", s->config, OPTIMIZERS, "--train.threads=64", "--dry-run", "--json", NULL);
    assert_non_null(strstr(text, "\"side_by_side\": 1,")); /* more than there are processors */
    text = process_output("sweep", s->config, OPTIMIZERS, "--eval.every=0", "--dry-run", NULL);
    assert_non_null(
        strstr(text, "none: every run trains to its end")); /* no run is evaluated before its end */
    assert_non_null(strstr(text, "\nrun  optimizer  "));
    assert_int_equal(stage_count_runs(), 1);
    text = process_output("sweep", "show", NULL);
    assert_string_equal(text, "");
}

STAGE_CASE(what_is_said_about_the_texts_of_all_runs_is_said_once, struct stage *s)
{
    static const char doubt[] = "latin1.txt: is not all UTF-8";
    char text[8000], *path = stage_path(s, "latin1.txt");
    memset(text, 'a', sizeof text);
    text[100] = '\xe9';
    stage_write(path, text, sizeof text);
    char *data = kept_format("--data.train=%s", path);
    struct process *p = process_run(0, "sweep", s->config, OPTIMIZERS, data, "--dry-run", NULL);
    char *once = strstr(process_stderr(p), doubt);
    assert_non_null(once);
    assert_null(strstr(once + 1, doubt));
}

STAGE_CASE(bad_sweeps_are_refused_before_anything_is_trained, struct stage *s)
{
    static const struct {
        const char *setting, *other, *sentence;
    } cases[] = {
        {"--train.learning_rate=1e-3", NULL, "needs a key with several values"},
        {"--train.learning_rate=1e-4..1e-3", NULL, "a range needs --samples"},
        {"--train.learning_rate=1e-3..1e-4", "--samples=2", "from the smaller number to the larger"},
        {"--train.optimizer=adamw,lion", "--samples=9", "there are not so many combinations (2 found"},
        {"--train.learning_rate=1e-3,1e-3", NULL, "\"1e-3\" is there twice"},
        {"--train.learning_rate=1e-3,0.001", NULL, "two runs would be the same"},
        {"--train.learning_rate=1e-3,fast", NULL, "run 2 (learning_rate fast)"},
        {"--train.learnin_rate=1e-3,1e-4", NULL, "train.learning_rate"},
        {"--train.total_steps=30,400", "--eval.every=30", "rungs, run 1 has 1"},
        {"--train.optimizer=adamw,lion", "--checkpoint.contents=weights", "checkpoint.contents must be full"},
        {"--train.optimizer=adamw,lion", "--name=a/b", "is no name of a sweep"},
        {"--train.optimizer=adamw,lion", "--name=..", "is no name of a sweep"},
        {"--train.optimizer=adamw,adamw", "--name=größe", "\"adamw\" is there twice"},
        {"--eval.metric=val_loss,val_perplexity", NULL, "eval.metric must be the same for all runs"},
        {"--data.train=/no/such,/file", NULL, "run 1 (train /no/such)"},
        {"--data.tokenizer=bytes,bpe:300", "--model.vocab_size=300",
         "run 2: data.tokenizer must be the same for all"},
        {"--data.val_fraction=0.1,0.2", NULL, "data.val_fraction must be the same for all runs"},
        {"--data.val_split=blocks,tail", NULL, "data.val_split must be the same for all runs"},
        {"--data.val_split=tail,blocks", NULL, "data.val_split must be the same for all runs"},
    };
    struct process *all = process_run(2, "sweep", s->config, "--train.learning_rate=1e-3,1e-4",
                                      "--train.total_steps=30,400", "--eval.every=30", "--dry-run", NULL);
    process_expect_sentence(all, "run 2 would have 3 rungs, run 1 has 1");
    all = process_run(0, "sweep", s->config, "--data.val_fraction=0.1,0.2", "--factor=1", "--dry-run", NULL);
    assert_non_null(
        strstr(process_stderr(all), "warning: data.val_fraction differs between run 1 and run 2"));
    static const char *const unused[] = {"--data.val_split=blocks,tail", "--data.val_fraction=0.1,0.2"};
    char *val = kept_format("--data.val=%s", s->corpus), *text = stage_read(s->corpus);
    for (int i = 0; i < 2; i++) /* nothing is held out of data.train where data.val names a text */
        process_run(0, "sweep", s->config, unused[i], val, "--dry-run", NULL);
    stage_write(stage_path(s, "half.txt"), text, strlen(text) / 2); /* another text, another tokenizer */
    char *texts = kept_format("--data.train=%s,%s", s->corpus, stage_path(s, "half.txt"));
    process_run(0, "sweep", s->config, texts, val, "--dry-run", NULL);
    all = process_run(2, "sweep", s->config, texts, val, "--data.tokenizer=bpe:300", "--model.vocab_size=300",
                      "--dry-run", NULL);
    assert_non_null(strstr(process_stderr(all), "run 2: data.train must be the same for all runs"));
    all = process_run(0, "sweep", s->config, "--data.tokenizer=bytes,bpe:300", "--model.vocab_size=300",
                      "--eval.every=0", "--dry-run", NULL); /* nothing is halved */
    assert_non_null(strstr(process_stderr(all), "warning: data.tokenizer differs between run 1 and run 2"));
    all = process_run(0, "sweep", s->config, "--train.batch_size=1,2", "--eval.batches=1", "--dry-run", NULL);
    assert_non_null(strstr(process_stderr(all), "warning: run 2 is evaluated on "));
    all = process_run(0, "sweep", s->config, "--train.batch_size=1,2", "--eval.batches=0", "--dry-run", NULL);
    assert_string_equal(process_stderr(all), "");
    all = process_run(0, "sweep", s->config, "--data.val_fraction=0.1,0.2", "--factor=1", "--dry-run", NULL);
    assert_non_null(strstr(process_stdout(all), "none: every run trains to its end\n"));
    assert_non_null(strstr(process_stdout(all), "\nrungs"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct process *p = process_start("sweep", s->config, cases[i].setting, cases[i].other, NULL);
        int status = process_wait_exit(p);
        if (!strstr(process_stderr(p), cases[i].sentence) || status == 0)
            fail_msg("%s: %d, %s", cases[i].setting, status, process_stderr(p));
    }
    assert_int_equal(stage_count_runs(), 0);
    process_expect_sentence(process_run(1, "sweep", "--resume", "none", NULL), "there is no such sweep");
    static const char *const stated[] = {"--device=cpu", "--factor=3", "--seed=2", "--samples=2",
                                         "--ranks=2",    "--dry-run",  "--name=x"};
    for (size_t i = 0; i < sizeof stated / sizeof *stated; i++) {
        process_expect_sentence(process_run(2, "sweep", "--resume", "none", stated[i], NULL),
                                "takes no settings");
        process_expect_sentence(process_run(2, "sweep", "show", "none", stated[i], NULL),
                                "takes no settings");
    }
    process_expect_sentence(process_run(2, "sweep", "show", "none", "--jobs=2", NULL), "it takes no --jobs");
    process_expect_sentence(process_run(2, "sweep", "show", "--resume=none", NULL), "it takes no --resume");
}

STAGE_CASE(a_run_until_a_step_is_tagged_and_resumed, struct stage *s)
{
    process_run(0, "train", s->config, "--until=7", "--tag=short,first", "--progress=none", NULL);
    stage_expect(s, "select steps || ' ' || status || ' ' || total_steps from runs", "7 stopped 40");
    stage_expect(s, "select group_concat(tag) from (select tag from tags order by tag)", "first,short");
    stage_expect(s, "select step from checkpoints order by step desc limit 1", "7");
    process_run(0, "resume", "latest", "--until=5", "--progress=none", NULL); /* it is farther */
    stage_expect(s, "select steps || ' ' || (select count(*) from segments) from runs", "7 1");
    process_expect_sentence(process_run(2, "fork", "latest", "--until=7", "--progress=none", NULL),
                            "its checkpoint has done 7 steps, and --until 7 leaves none to do");
    stage_expect(s, "select count(*) from runs", "1");
    store_fixture_sql(s->home, "update runs set status = 'failed'"); /* whose steps may be no longer there */
    process_expect_sentence(process_run(2, "resume", "latest", "--until=5", "--progress=none", NULL),
                            "its checkpoint has done 7 steps, and --until 5 leaves none to do");
    stage_expect(s, "select count(*) from segments", "1");
    process_run(0, "resume", "latest", "--progress=none", NULL);
    stage_expect(s, "select steps || ' ' || status from runs", "40 finished");
    assert_non_null(strstr(process_stderr(process_run(0, "resume", "latest", "--until=30", NULL)),
                           "nothing is left to do until step 30, the run has 40 steps"));
    stage_expect(s, "select steps || ' ' || status from runs", "40 finished");
    process_expect_sentence(process_run(2, "train", s->config, "--tag=a=b", "--progress=none", NULL),
                            "\"a=b\" is no tag");
    assert_int_equal(stage_count_runs(), 1);
}

/* Writes the sweep NAME of two runs of `factor` and the stage's configuration, the second with another key.
 */
static char *write_sweep(const struct stage *s, const char *name, int factor)
{
    char *folder = kept_format("%s/sweeps/%s", s->home, name);
    assert_int_equal(file_make_folders(folder, NULL), 0);
    for (int i = 0; i < 2; i++) {
        char *config = kept_format("%s%s", stage_read(s->config), i ? "[data]\ntrain = /no/such\n" : "");
        stage_write(kept_format("%s/run-%d.ini", folder, i + 1), config, strlen(config));
    }
    char *text = kept_format("[sweep]\nfactor = %d\ndevice = cpu\nkeys = data.train train.seed\n\n"
                             "[run 1]\nrungs = 40\ndata.train = text\ntrain.seed = 1\n\n"
                             "[run 2]\nrungs = 40\ndata.train = /no/such\ntrain.seed = 2\n",
                             factor);
    stage_write(kept_format("%s/sweep.ini", folder), text, strlen(text));
    return folder;
}

STAGE_CASE(sweeps_are_listed_with_their_keys_but_for_damaged_ones, struct stage *s)
{
    process_expect_sentence(process_run(1, "sweep", "show", "b", NULL), "b: there is no such sweep");
    write_sweep(s, "a", 1);
    char *damaged = write_sweep(s, "b", 0);
    write_sweep(s, "c", 1);
    char *text = process_output("sweep", "show", NULL);
    assert_non_null(strstr(text, "a         2  data.train, train.seed\n"));
    json_t *json = stage_json(process_output("sweep", "show", "--json", NULL)),
           *list = json_object_get(json, "sweeps"), *last = json_array_get(list, 1);
    assert_int_equal(json_array_size(list), 2);
    assert_string_equal(stage_text(last, "sweep"), "c");
    assert_int_equal(stage_int(last, "runs"), 2);
    assert_string_equal(stage_text(last, "keys"), "data.train, train.seed");
    process_expect_sentence(process_run(1, "sweep", "show", "b", NULL),
                            kept_format("%s/sweep.ini:2: factor, ranks", damaged));
    process_run(0, "train", s->config, "--progress=none", NULL); /* there is a database now */
    text = process_output("sweep", "show", "a", NULL);
    assert_non_null(strstr(text, "not begun"));
    assert_null(strstr(text, "rungs")); /* every run trains to its end */
}

STAGE_CASE(a_run_that_cannot_begin_is_told_with_its_reason, struct stage *s)
{
    write_sweep(s, "a", 1);
    struct process *p = process_run(0, "sweep", "--resume", "a", "--jobs=1", NULL);
    assert_non_null(strstr(process_stderr(p), "run 2 (train /no/such, seed 2): failed: "));
    assert_non_null(strstr(process_stderr(p), "/run-2.ini:28: data.train is set twice"));
    assert_non_null(strstr(process_stderr(p), "; the others go on without it\n"));
    stage_expect(s, "select count(*) || status from runs", "1finished");
}

STAGE_CASE(a_sweep_is_named_after_its_file, struct stage *s)
{
    static const struct {
        const char *file, *name;
    } cases[] = {
        {"my", "my"},
        {"my.v2.ini", "my-2"},
        {"my.ini", "my-2"},
        {"a--b.ini", "sweep-2"}, /* no name of a sweep */
        {"of a letter too many for a name.ini", "of_a_letter_too_many_for_a"},
    };
    assert_int_equal(file_make_folders(kept_format("%s/sweeps/sweep", s->home), NULL), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *path = stage_path(s, cases[i].file), *text = stage_read(s->config);
        stage_write(path, text, strlen(text));
        json_t *json = stage_json(process_output("sweep", path, OPTIMIZERS, "--dry-run", "--json", NULL));
        assert_string_equal(stage_text(json, "sweep"), cases[i].name);
        assert_int_equal(file_make_folders(kept_format("%s/sweeps/my", s->home), NULL), 0);
    }
}

/* Holds the lock of the sweep as one whose process is `pid` (0: none is named) does. */
static int hold_lock(const char *folder, pid_t pid)
{
    int fd = open(kept_format("%s/lock", folder), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    assert_true(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0);
    if (pid) assert_true(dprintf(fd, "%ld\n", (long)pid) > 0);
    return fd;
}

/* Whether the process has opened the file at `path`. */
static bool has_open(struct process *p, void *path)
{
    char link[64], *real = realpath(path, NULL);
    bool found = false;
    for (int fd = 0; fd < 64 && real && !found; fd++) {
        char target[PATH_MAX] = "";
        snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)process_pid(p), fd);
        found = readlink(link, target, sizeof target - 1) > 0 && strcmp(target, real) == 0;
    }
    free(real);
    return found;
}

STAGE_CASE(a_sweep_is_trained_by_one_process_at_a_time, struct stage *s)
{
    static const char waits[] = "waits for trainers of this sweep, which save their work and stop\n";
    char *folder = write_sweep(s, "a", 1);
    int fd = hold_lock(folder, getpid());
    process_expect_sentence(process_run(1, "sweep", "--resume", "a", NULL),
                            kept_format("sweep a: process %ld is training it", (long)getpid()));
    close(fd);
    fd = hold_lock(folder, 0);
    struct process *second = process_start("sweep", "--resume", "a", NULL);
    process_wait(second, has_open, kept_format("%s/lock", folder));
    char *own = kept_format("%ld\n", (long)getpid()); /* as the first one does after it has taken the lock */
    assert_int_equal(pwrite(fd, own, strlen(own), 0), strlen(own));
    process_expect(1, second);
    process_expect_sentence(second, "is training it (wait, or stop it with kill -INT ");
    close(fd);
    fd = hold_lock(folder, 0x3FFFFFFF); /* which is none: its trainers still hold the lock */
    struct process *p = process_start("sweep", "--resume", "a", NULL);
    process_wait_text(p, waits);
    process_signal(p, SIGINT);
    process_expect(130, p);
    assert_string_equal(process_stderr(p), waits);
    assert_int_equal(stage_count_runs(), 0);
    close(fd);
    fd = hold_lock(folder, 0);
    p = process_start("sweep", "--resume", "a", NULL);
    process_wait_text(p, waits);
    close(fd);
    process_expect(0, p);
    stage_expect(s, "select count(*) || status from runs", "1finished");
    assert_int_equal(unlink(kept_format("%s/lock", folder)), 0);
    assert_int_equal(file_make_folders(kept_format("%s/lock", folder), NULL), 0);
    process_expect_sentence(process_run(1, "sweep", "--resume", "a", NULL),
                            kept_format("%s/lock: cannot open: Is a directory", folder));
}

STAGE_CASE(a_trainer_without_a_log_ends_the_sweep, struct stage *s)
{
    char *folder = write_sweep(s, "a", 1);
    assert_int_equal(file_make_folders(kept_format("%s/run-1.log", folder), NULL), 0);
    struct process *p = process_run(1, "sweep", "--resume", "a", NULL);
    assert_non_null(
        strstr(process_stderr(p), kept_format("%s/run-1.log: cannot write: Is a directory", folder)));
    assert_int_equal(stage_count_runs(), 0);
}

static int remove_preload(void **state)
{
    unsetenv("LD_PRELOAD");
    unsetenv("TEST_FORKS");
    unsetenv("TEST_NO_LOCKS");
    return kept_teardown(state);
}

/* Preloads what takes the place of system calls. */
static void preload(void)
{
    const char *binary = getenv("ANNEAL_BINARY");
    char *path =
        kept_format("%.*s/tests/runs/stand_in/processes.so", (int)(strrchr(binary, '/') - binary), binary);
#ifdef __SANITIZE_ADDRESS__
    skip(); /* its runtime must come before all other libraries */
#endif
    assert_int_equal(access(path, R_OK), 0);
    setenv("LD_PRELOAD", path, 1);
}

STAGE_CASE_TEARDOWN(a_trainer_that_cannot_be_started_ends_the_sweep, remove_preload, struct stage *s)
{
    preload();
    setenv("TEST_FORKS", "3", 1); /* two runs are tried, and one is trained */
    struct process *p = process_run(1, "sweep", s->config, "--name=one", OPTIMIZERS, "--jobs=2", NULL);
    assert_non_null(strstr(process_stderr(p), "cannot start a trainer: Resource temporarily unavailable"));
    assert_null(strstr(process_stderr(p), "a signal for all processes"));
}

/* As on a network without a lock service: nobody is waited for. */
STAGE_CASE_TEARDOWN(a_file_system_without_locks_is_named, remove_preload, struct stage *s)
{
    char *folder = write_sweep(s, "a", 1);
    preload();
    setenv("TEST_NO_LOCKS", "1", 1);
    process_expect_sentence(process_run(1, "sweep", "--resume", "a", NULL),
                            kept_format("%s/lock: cannot lock: No locks available", folder));
}

TEST_MAIN()
