/* Rollbacks with the real binary: their place in a run's records, giving up, several ranks, and kill -9. */
#include <signal.h>

#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

/* Four rows of 32 bytes are a step of the stage's configuration. */
enum { STEP_BYTES = 128, GARBAGE = 85, STEPS_MOST = 4000 };

/* Writes a corpus for so many steps, read in order, that has garbage at step GARBAGE; returns the option that
 * names it. */
static char *spoil(const struct stage *s, size_t steps)
{
    static const char text[] = "the quick brown fox jumps over the lazy dog. ";
    static char bytes[STEP_BYTES * STEPS_MOST];
    for (size_t i = 0; i < STEP_BYTES * steps; i++)
        bytes[i] =
            i / STEP_BYTES == GARBAGE ? (char)(33 + (i * 53 + i / 7) % 60) : text[i % (sizeof text - 1)];
    char *path = stage_path(s, kept_format("spoilt-%zu.txt", steps));
    stage_write(path, bytes, STEP_BYTES * steps);
    return kept_format("--data.train=%s", path);
}

#define TRAIN(s, name)                                                                                       \
    "train", (s)->config, "--name=" name, spoil(s, 120), "--data.shuffle=none", "--data.val_split=tail",     \
        "--train.total_steps=100", "--health.loss_spike=3", "--progress=none", "--checkpoint.every=20"

STAGE_CASE(a_rollback_is_a_segment_and_an_event, struct stage *s)
{
    process_run(0, TRAIN(s, "back"), "--health.on_spike=rollback", "--health.rollback_lr=0.5", NULL);
    stage_expect(s, "select status || segment from runs", "finished2");
    stage_expect(s, "select count(*), min(step), max(step) from steps where segment = 1", "86|0|85");
    stage_expect(s, "select count(*), min(step), max(step) from steps where segment = 2", "20|80|99");
    stage_expect(s, "select group_concat(step || ' ' || segment) from events where text like '%rollback%'",
                 "80 2");
    stage_expect(s, "select count(*) > 0 from memory where segment = 2 and step = 80", "1");
    const char *shown = process_output("show", "back", NULL);
    assert_non_null(strstr(shown, "rollback 1 of at most 3 in a row, for the trouble at step 85"));
    struct history h = history_of("back");
    assert_int_equal(h.count, 100);
    assert_int_equal(h.steps[79].segment, 1);
    assert_int_equal(h.steps[80].segment, 2);
    process_run(0, TRAIN(s, "again"), "--health.on_spike=rollback", "--health.rollback_lr=0.5",
                "--train.async=false", NULL);
    assert_int_equal(history_expect_same("back", "again"), 100);
    process_run(0, "fork", "back", "--name=fork", "--train.total_steps=101", "--progress=none", NULL);
    assert_non_null(
        strstr(stage_query(s, "select text from events where text like 'forked from %'"),
               " after 100 steps, with learning rate × 0.5 by its rollbacks, with train.total_steps"));
}

static int count_lines(const char *text)
{
    int count = 0;
    while ((text = strchr(text, '\n'))) text++, count++;
    return count;
}

/* Steps 83 to 85 of the first segment were replaced, although the second one does not have them yet. */
STAGE_CASE(steps_that_a_rollback_has_left_behind_are_left_out_as_the_manual_says, struct stage *s)
{
    process_run(0, TRAIN(s, "back"), "--health.on_spike=rollback", "--health.rollback_lr=0.5", NULL);
    stage_query(s, "delete from steps where segment = 2 and step > 82");
    char *manual = stage_read("docs/store.md"), *sql = strstr(manual, "SELECT step, loss FROM steps s");
    *strstr(sql, "```") = '\0';
    assert_int_equal(count_lines(stage_query(s, sql)), 83 - 1 /* the last line has no end */);
    assert_int_equal(count_lines(process_output("export", "back", "--format=long", "--metric=loss", NULL)),
                     84);
}

STAGE_CASE(a_run_that_gives_up_has_failed_and_says_why, struct stage *s)
{
    struct process *p =
        process_run(1, TRAIN(s, "given-up"), "--health.on_nan=rollback", "--health.rollbacks=2",
                    "--train.learning_rate=1000", "--train.schedule=constant", "--train.weight_decay=100",
                    "--train.warmup_steps=0", NULL);
    process_expect_sentence(
        p, "training is in trouble again after 2 rollbacks in a row (look at the data; or resume "
           "with a larger health.rollbacks");
    stage_expect(s, "select status from runs", "failed");
    stage_expect(s, "select count(*) from events where text like 'rollback%'", "2");
}

STAGE_CASE(several_ranks_go_back_together, struct stage *s)
{
    static const char *const shards[] = {"--world.shard=off", "--world.shard=on"};
    stage_need_mpi();
    for (int i = 0; i < 2; i++) {
        struct stage own;
        stage_open(&own, shards[i] + 8);
        process_run(0, TRAIN(s, "one"), "--health.on_spike=rollback", "--health.rollback_lr=0.5", NULL);
        process_run(0, TRAIN(s, "two"), "--health.on_spike=rollback", "--health.rollback_lr=0.5", "--ranks=2",
                    shards[i], NULL);
        process_run(0, TRAIN(s, "too"), "--health.on_spike=rollback", "--health.rollback_lr=0.5", "--ranks=2",
                    shards[i], NULL);
        process_run(0, TRAIN(s, "skips"), "--health.on_spike=skip", "--ranks=2", shards[i], NULL);
        history_expect_same("two", "too");
        history_expect_alike("one", "two", 1e-3);
        stage_expect(&own, "select group_concat(segment) from runs where name like 't%'", "2,2");
        stage_expect(&own, "select group_concat(step) from steps where clip_scale = 0", "85");
    }
}

static bool goes_on(struct process *p, void *stage)
{
    process_poll(p);
    return *stage_query(stage,
                        "select count(*) > 5 from steps join runs on run_id = id where name = 'killed' and "
                        "steps.segment = 2") == '1';
}

/* Without a checkpoint: the resumed run meets the trouble once more. */
STAGE_CASE(a_run_killed_after_a_rollback_repeats_it, struct stage *s)
{
#define LONG(name)                                                                                           \
    TRAIN(s, name), spoil(s, STEPS_MOST), "--health.on_spike=rollback", "--health.rollback_lr=0.5",          \
        "--train.total_steps=3000", "--checkpoint.every=0", "--eval.every=0", "--sample.every=0",            \
        "--profile.every=0", NULL
    process_run(0, LONG("whole"));
    struct process *p = process_start(LONG("killed"));
    process_wait(p, goes_on, s);
    process_signal(p, SIGKILL);
    process_wait_exit(p);
    process_run(0, "resume", "killed", "--progress=none", NULL);
    stage_expect(s, "select name || segment from runs order by name", "killed4\nwhole2");
    history_expect_same("whole", "killed");
}

TEST_MAIN()
