/* Trouble in training, and what health.on_spike and health.on_nan do about it: a batch of garbage in the
 * data, numbers that are not finite, a rate that explodes; skipped, rolled back, given up; killed anywhere
 * and resumed. */
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/core/network/rig.h"
#include "tests/core/train/story.h"
#include "tests/long.h"

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

enum { GARBAGE = 70, STEPS = 90, ROWS = 2, WIDTH = 16 };

/* A run whose corpus is read in order, with a batch of garbage at step GARBAGE and, if asked for, one a few
 * steps later. Its checkpoints are of steps 20, 40, … */
static void open_spoilt(struct session *s, const char *name, const struct backend *backend,
                        const char *const *words, int later)
{
    const char *all[16] = {"data.shuffle=none", "train.total_steps=90", "checkpoint.every=20"};
    size_t n = 3;
    while (words && *words) all[n++] = *words++;
    assert_true(n < 16);
    session_open(s, name, backend, all, 4000);
    session_spoil(s, GARBAGE);
    if (later) session_spoil(s, GARBAGE + later);
}

static void run_spoilt(struct session *s, const char *name, const char *const *words, int later)
{
    open_spoilt(s, name, NULL, words, later);
    session_start(s, false);
    assert_int_equal(session_run(s), TRAIN_FINISHED);
}

/* ---- skipping ---- */

TEST_CASE(by_default_a_spike_is_reported_and_trained_on)
{
    struct session s;
    run_spoilt(&s, "warned", NULL, 0);
    assert_int_equal(s.story.step_count, STEPS);
    for (int i = 0; i < STEPS; i++) assert_true(s.story.steps[i].clip_scale > 0);
    assert_int_equal(s.story.event_count, 1);
    assert_int_equal(s.story.last_event_step, GARBAGE);
    assert_int_equal(s.story.rollback_count, 0);
    session_close(&s);
}

/* The step counts, its update does not: the next loss is that of the same weights on the next batch. */
TEST_CASE(a_skipped_spike_leaves_weights_and_moments_as_they_were)
{
    static const char *const ways[][2] = {{"train.async=true", "train.accumulation_steps=1"},
                                          {"train.async=false", "train.accumulation_steps=1"},
                                          {"train.async=true", "train.graph=on"}};
    struct session first;
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        struct session s;
        run_spoilt(&s, "skipped", WORDS("health.on_spike=skip", "eval.every=1", ways[w][0], ways[w][1]), 0);
        assert_int_equal(s.story.step_count, STEPS);
        for (int i = 0; i < STEPS; i++) assert_true((s.story.steps[i].clip_scale == 0) == (i == GARBAGE));
        assert_true(isfinite(s.story.steps[GARBAGE].grad_norm));
        assert_memory_equal(&s.story.evals[GARBAGE].val_loss, &s.story.evals[GARBAGE - 1].val_loss,
                            sizeof(double));
        assert_true(s.story.evals[GARBAGE + 1].val_loss != s.story.evals[GARBAGE].val_loss);
        assert_int_equal(s.story.event_count, 1);
        assert_int_equal(s.story.last_event_step, GARBAGE);
        assert_non_null(strstr(s.story.last_event, "the update was skipped"));
        if (w == 0)
            first = s;
        else
            story_expect_same(&first.story, &s.story, ways[w][0]);
        if (w) session_close(&s);
    }
    session_close(&first);
}

TEST_CASE(a_batch_in_parts_is_skipped_as_a_whole)
{
    struct session s;
    run_spoilt(&s, "parts", WORDS("health.on_spike=skip", "train.batch_size=1", "train.accumulation_steps=2"),
               0);
    for (int i = 0; i < STEPS; i++) assert_true((s.story.steps[i].clip_scale == 0) == (i == GARBAGE));
    session_close(&s);
}

/* Then what was garbage is the data. */
TEST_CASE(no_more_than_64_spikes_in_a_row_are_skipped)
{
    struct session s;
    int skipped = 0;
    open_spoilt(&s, "many", NULL, WORDS("health.on_spike=skip"), 0);
    s.config.train.total_steps = 120;
    for (int step = 40; step < 120; step++) session_spoil(&s, step);
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    for (int i = 0; i < 120; i++) skipped += s.story.steps[i].clip_scale == 0;
    assert_int_equal(skipped, 64);
    assert_true(s.story.steps[40].clip_scale == 0 && s.story.steps[40 + 64].clip_scale > 0);
    session_close(&s);
}

/* The losses before are in the checkpoint, so that the limit is the same. */
TEST_CASE(a_run_resumed_just_before_the_spike_skips_it_too)
{
    for (int64_t at = GARBAGE - 3; at <= GARBAGE + 2; at++) {
        struct session whole, s;
        run_spoilt(&whole, "whole", WORDS("health.on_spike=skip"), 3);
        open_spoilt(&s, "resumed", NULL, WORDS("health.on_spike=skip"), 3);
        s.story.leave_at = at;
        session_start(&s, false);
        assert_int_equal(session_run(&s), TRAIN_STOPPED);
        s.story.leave_at = 0;
        session_start(&s, true);
        assert_int_equal(s.story.done, at);
        assert_int_equal(session_run(&s), TRAIN_FINISHED);
        assert_true(whole.story.steps[GARBAGE + 3].clip_scale == 0);
        for (int i = (int)at; i < STEPS; i++)
            assert_memory_equal(&s.story.steps[i].loss, &whole.story.steps[i].loss, sizeof(double));
        session_close(&whole), session_close(&s);
    }
}

/* The last checkpoint but one, and the last. */
TEST_CASE(a_skipped_spike_costs_no_checkpoint)
{
    static const struct {
        const char *words[2];
        int64_t leave_at, steps[2];
    } cases[] = {
        {{"train.total_steps=71", "data.val_fraction=0"}, 0, {60, 71}}, /* it is the last step */
        {{"checkpoint.every=71"}, 0, {71, STEPS}},                      /* one is due after it */
        {{"checkpoint.every=70"}, GARBAGE + 1, {70, 71}},               /* a snapshot waits, the run stops */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct session s;
        open_spoilt(&s, "saved", NULL, WORDS("health.on_spike=skip", cases[i].words[0], cases[i].words[1]),
                    0);
        s.story.leave_at = cases[i].leave_at;
        session_start(&s, false);
        assert_int_equal(session_run(&s), cases[i].leave_at ? TRAIN_STOPPED : TRAIN_FINISHED);
        assert_true(s.story.steps[GARBAGE].clip_scale == 0);
        assert_true(s.story.checkpoint_count >= 2);
        for (int k = 0; k < 2; k++)
            assert_int_equal(s.story.checkpoints[s.story.checkpoint_count - 2 + k].step, cases[i].steps[k]);
        assert_int_equal(s.story.event_count, 1); /* the spike */
        session_close(&s);
    }
}

/* ---- going back ---- */

/* The steps that count: of each step the last row. */
static void last_rows(const struct story *story, struct step_record out[STEPS])
{
    for (int i = 0; i < STEPS; i++) out[i].step = -1;
    for (int i = 0; i < story->step_count; i++) out[story->steps[i].step] = story->steps[i];
    for (int i = 0; i < STEPS; i++) assert_int_equal(out[i].step, i);
}

/* Of the last checkpoints. */
static void expect_same_file(const struct session *a, const struct session *b, const char *name)
{
    struct file_map x, y;
    char path[4200];
    struct err err = {0};
    snprintf(path, sizeof path, "%s/step-%d/%s", a->folder, STEPS, name);
    if (file_map_open(path, &x, &err)) fail_msg("%s", err.text);
    snprintf(path, sizeof path, "%s/step-%d/%s", b->folder, STEPS, name);
    if (file_map_open(path, &y, &err)) fail_msg("%s", err.text);
    assert_int_equal(x.size, y.size);
    assert_memory_equal(x.data, y.data, x.size);
    file_map_close(&x), file_map_close(&y);
}

TEST_CASE(a_rollback_leaves_the_batches_since_the_checkpoint_out)
{
    struct session s, clean;
    const int from = 60 * ROWS * WIDTH, to = 71 * ROWS * WIDTH;
    open_spoilt(&s, "back", NULL, WORDS("health.on_spike=rollback", "train.ema_decay=0.9"), 0);
    s.tokens[from] = s.tokens[to]; /* the label of the last token before */
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    assert_int_equal(s.story.rollback_count, 1);
    assert_int_equal(s.story.event_count, 2);
    assert_non_null(strstr(s.story.events[0], "step 70: the loss rose"));
    assert_string_equal(s.story.events[1],
                        "rollback 1 of at most 3 in a row, for the trouble at step 70: training goes on from "
                        "the checkpoint of step 60, without the batches of steps 60 to 70");
    assert_int_equal(s.story.step_count, 71 + 30);
    for (int i = 0; i < 71; i++) assert_int_equal(s.story.steps[i].step, i);
    for (int i = 0; i < 30; i++) {
        const struct step_record *step = &s.story.steps[71 + i];
        assert_int_equal(step->step, 60 + i);
        assert_true(step->loss < s.story.steps[GARBAGE].loss / 2);
        /* rows 0 to 141 are used up */
        double rows = step->epoch * (double)(s.corpus.tokens / WIDTH);
        assert_true(rows > (71 + i) * ROWS);
        assert_int_equal(step->tokens, (61 + i) * ROWS * WIDTH);
    }
    assert_int_equal(s.story.checkpoints[s.story.checkpoint_count - 1].step, STEPS);
    /* as a run whose data never had those rows */
    open_spoilt(&clean, "clean", NULL, WORDS("train.ema_decay=0.9"), 0);
    memmove(clean.tokens + from, clean.tokens + to, (size_t)(4000 - to) * sizeof *clean.tokens);
    session_start(&clean, false);
    assert_int_equal(session_run(&clean), TRAIN_FINISHED);
    for (int i = 0; i < 30; i++)
        assert_memory_equal(&clean.story.steps[60 + i].loss, &s.story.steps[71 + i].loss, sizeof(double));
    expect_same_file(&s, &clean, "ema.safetensors");
    session_close(&s), session_close(&clean);
}

/* The first evaluation after it is the first again, although that of the course that was left was better or
 * not. */
TEST_CASE(a_rollback_behind_all_evaluations_leaves_no_history)
{
    struct session s;
    open_spoilt(&s, "history", NULL,
                WORDS("health.on_spike=rollback", "eval.every=70", "eval.early=false",
                      "eval.early_stopping_patience=1", "eval.early_stopping_min_delta=100"),
                0);
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    assert_int_equal(s.story.rollback_count, 1);
    session_close(&s);
}

#define LR_TWICE "health.on_spike=rollback", "health.rollback_lr=0.5", "eval.every=10", "sample.every=30"

TEST_CASE(each_rollback_cuts_the_rate_and_equal_runs_give_equal_rows)
{
    static const char *const ways[] = {"train.async=true", "train.async=false"};
    struct session s[2];
    for (int k = 0; k < 2; k++) {
        run_spoilt(&s[k], k ? "second" : "first", WORDS(LR_TWICE, "train.schedule=constant", ways[k]), 15);
        assert_int_equal(s[k].story.rollback_count, 2);
    }
    story_expect_same(&s[0].story, &s[1].story, "again");
    assert_int_equal(s[0].story.event_count, 4);
    for (int i = 0; i < 4; i++) assert_string_equal(s[0].story.events[i], s[1].story.events[i]);
    assert_true(s[0].story.steps[70].lr == 0.01 && s[0].story.steps[71].lr == 0.005);
    assert_true(s[0].story.steps[s[0].story.step_count - 1].lr == 0.0025);
    assert_non_null(strstr(s[0].story.last_event, "rollback 2 of at most 3"));
    assert_non_null(strstr(s[0].story.last_event, "with learning rate × 0.25"));
    session_close(&s[0]), session_close(&s[1]);
}

/* ---- killed ---- */

static int calls_left;

static void die(struct story *story)
{
    (void)story;
    if (--calls_left == 0) _exit(0);
}

static void begin_anew(const char *folder)
{
    assert_int_equal(file_remove_tree(folder, NULL), STATUS_OK);
}

/* Returns whether the run was killed: at the call of that number, an event or a step. */
static bool run_killed(struct session *s, int call)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        calls_left = call;
        s->story.on_step = s->story.on_event = die;
        session_start(s, false);
        session_run(s);
        _exit(1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status) == 0;
}

static void expect_same_numbers(const struct session *a, const struct session *b)
{
    static const char *const names[] = {"model.safetensors", "optimizer.safetensors", "ema.safetensors",
                                        "trainer.json"};
    for (int i = 0; i < 4; i++) expect_same_file(a, b, names[i]);
}

/* Also between the trouble and the end of the rollback, and in what follows it. */
TEST_CASE(a_run_killed_anywhere_around_a_rollback_ends_with_the_same_bits)
{
    static const char *const backgrounds[] = {"checkpoint.background=true", "checkpoint.background=false"};
    for (int b = 0; b < 2; b++) {
        const char *const *words =
            WORDS(LR_TWICE, "checkpoint.every=10", "train.ema_decay=0.9", backgrounds[b]);
        struct session whole, s;
        struct step_record want[STEPS];
        run_spoilt(&whole, "unkilled", words, 15);
        assert_int_equal(whole.story.rollback_count, 2);
        last_rows(&whole.story, want);
        int call = 1;
        for (bool killed = true; killed; call += long_or(1, call > 66 && call < 82 ? 1 : 11)) {
            char path[4096];
            open_spoilt(&s, "killed", NULL, words, 15);
            begin_anew(s.folder);
            killed = run_killed(&s, call);
            bool resume = !checkpoint_find(s.folder, -1, path, sizeof path, NULL);
            session_start(&s, resume);
            if (killed) assert_int_equal(session_run(&s), TRAIN_FINISHED);
            for (int i = 0; i < s.story.step_count; i++) {
                int step = (int)s.story.steps[i].step, last = i;
                for (int k = i; k < s.story.step_count; k++)
                    if (s.story.steps[k].step == step) last = k;
                assert_memory_equal(&s.story.steps[last].loss, &want[step].loss, sizeof(double));
            }
            expect_same_numbers(&whole, &s);
            session_close(&s);
        }
        assert_true(call > STEPS + 15);
        session_close(&whole);
    }
}

/* ---- the choice of the checkpoint ---- */

/* In the foreground the checkpoint of the step in trouble is written before the step: it may be ruined. */
TEST_CASE(the_checkpoint_of_the_step_in_trouble_is_set_aside)
{
    struct session s;
    char path[4200];
    struct err err;
    open_spoilt(&s, "aside", NULL,
                WORDS("health.on_spike=rollback", "checkpoint.every=35", "checkpoint.background=false"), 0);
    snprintf(path, sizeof path, "%s/step-70.suspect/old", s.folder); /* an earlier one makes room */
    assert_int_equal(file_make_folders(path, &err), STATUS_OK);
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    assert_false(file_exists(path));
    assert_non_null(
        strstr(s.story.events[1], "the checkpoint of step 35, without the batches of steps 35 to 70"));
    snprintf(path, sizeof path, "%s/step-70.suspect/trainer.json", s.folder);
    assert_true(file_exists(path) && checkpoint_aside("step-70.suspect"));
    snprintf(path, sizeof path, "%s/step-70/trainer.json", s.folder); /* of the new course */
    assert_true(file_exists(path));
    session_close(&s);
}

TEST_CASE(without_a_checkpoint_training_begins_again_behind_the_trouble)
{
    struct session s, fresh;
    const size_t passed = (GARBAGE + 1) * ROWS * WIDTH;
    run_spoilt(&s, "none", WORDS("health.on_spike=rollback", "health.rollback_lr=1", "checkpoint.every=0"),
               0);
    assert_int_equal(s.story.step_count, 71 + STEPS);
    assert_non_null(strstr(s.story.events[1], "from the beginning, without the batches of steps 0 to 70"));
    assert_int_equal(s.story.steps[71].step, 0);
    open_spoilt(&fresh, "fresh", NULL, WORDS("checkpoint.every=0"), 0);
    memmove(fresh.tokens, fresh.tokens + passed, (4000 - passed) * sizeof *fresh.tokens);
    session_start(&fresh, false);
    session_run(&fresh);
    for (int i = 0; i < 20; i++) assert_true(s.story.steps[71 + i].loss == fresh.story.steps[i].loss);
    session_close(&s), session_close(&fresh);
}

static const char *damaged_folder;

static void damage_all(struct story *story)
{
    for (int step = 10; story->event_count == 1 && step < GARBAGE; step += 10) {
        char path[4200];
        snprintf(path, sizeof path, "%s/step-%d/model.safetensors", damaged_folder, step);
        if (file_exists(path)) rig_write(path, "damaged", 7);
    }
}

TEST_CASE(with_damaged_checkpoints_alone_it_does_too)
{
    struct session s;
    open_spoilt(&s, "damaged", NULL, WORDS("health.on_spike=rollback", "checkpoint.background=false"), 0);
    damaged_folder = s.folder;
    s.story.on_event = damage_all;
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    assert_non_null(strstr(s.story.events[1], "step-60: the checkpoint is damaged"));
    assert_non_null(strstr(s.story.events[2], "from the beginning, without the batches of steps 0 to 70"));
    session_close(&s);
}

TEST_CASE(a_resumed_fine_tuning_begins_again_with_the_weights_of_its_base)
{
    struct session base, s;
    open_spoilt(&base, "base", NULL, NULL, 0);
    session_start(&base, false);
    session_run(&base);
    open_spoilt(&s, "tuned", NULL, WORDS("health.on_spike=rollback", "checkpoint.background=false"), 0);
    s.story.leave_at = 30;
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_STOPPED);
    s.story.leave_at = 0;
    snprintf(s.config.model.from, sizeof s.config.model.from, "%s/step-60", base.folder);
    damaged_folder = s.folder;
    s.story.on_event = damage_all;
    session_start(&s, true);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    assert_true(s.story.steps[GARBAGE + 1].step == 0 && s.story.steps[GARBAGE + 1].loss < 3);
    session_close(&base), session_close(&s);
}

/* ---- numbers that are not finite ---- */

static struct {
    int64_t calls, from, until, each; /* each: of so many calls the 21st and the last, too; 0: none */
} poison;

static void poisoned_cross_entropy(float *losses, struct matrix logits, const int32_t *targets,
                                   const struct step_control *control, int N, int V, struct stream *stream)
{
    cpu_backend()->cross_entropy_fused(losses, logits, targets, control, N, V, stream);
    int64_t in = poison.each ? poison.calls % poison.each : -1;
    bool again = in == 20 || (in >= 0 && in == poison.each - 1);
    if (again || (poison.calls >= poison.from && poison.calls < poison.until)) *(float *)logits.at = NAN;
    poison.calls++;
}

static struct backend poisoned_backend(int64_t from, int64_t until)
{
    struct backend backend = *cpu_backend();
    backend.cross_entropy_fused = poisoned_cross_entropy;
    poison.calls = poison.each = 0;
    poison.from = from;
    poison.until = until;
    return backend;
}

/* Its snapshot still waits for a finite gradient, because the first step from it had none, which was skipped;
 * then comes the garbage. Less of the training is lost than with the checkpoint before. */
TEST_CASE(a_checkpoint_that_has_just_been_taken_is_gone_back_to)
{
    struct backend backend = poisoned_backend(GARBAGE - 1, GARBAGE);
    struct session s;
    open_spoilt(&s, "taken", &backend, WORDS("health.on_spike=rollback", "checkpoint.every=69"), 0);
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    assert_int_equal(s.story.event_count, 3);
    assert_non_null(strstr(s.story.events[2], "for the trouble at step 70: training goes on from the "
                                              "checkpoint of step 69,"));
    session_close(&s);
}

TEST_CASE(a_number_that_is_not_finite_is_rolled_back)
{
    struct backend backend = poisoned_backend(50, 51);
    struct session s;
    open_spoilt(&s, "nan", &backend, WORDS("health.on_nan=rollback"), 0);
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    assert_int_equal(s.story.rollback_count, 1);
    assert_true(s.story.steps[50].clip_scale == 0);
    assert_int_equal(s.story.steps[51].step, 40);
    session_close(&s);
}

static int evaluated;

static void first_sum_not_finite(double *out, const float *x, size_t n, bool accumulate, void *scratch,
                                 struct stream *stream)
{
    cpu_backend()->sum(out, x, n, accumulate, scratch, stream);
    if (!accumulate && evaluated++ == 0) *out = NAN;
}

TEST_CASE(an_evaluation_that_is_not_finite_leaves_out_the_batches_before_it)
{
    struct backend backend = *cpu_backend();
    struct session s;
    evaluated = 0;
    backend.sum = first_sum_not_finite;
    open_spoilt(&s, "evaluated", &backend, WORDS("health.on_nan=rollback", "eval.every=50"), 0);
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    assert_non_null(strstr(s.story.events[1],
                           "for the trouble at step 50: training goes on from the "
                           "checkpoint of step 40, without the batches of steps 40 to 49"));
    assert_int_equal(s.story.steps[50].step, 40);
    session_close(&s);
}

TEST_CASE(after_so_many_rollbacks_in_a_row_the_run_gives_up)
{
    struct backend backend = poisoned_backend(50, INT64_MAX);
    struct session s;
    struct err err = {0};
    enum train_outcome outcome;
    char path[4096];
    open_spoilt(&s, "given-up", &backend, WORDS("health.on_nan=rollback", "health.rollbacks=2"), 0);
    session_start(&s, false);
    assert_int_equal(trainer_run(s.trainer, &outcome, &err), STATUS_FAILED);
    assert_int_equal(outcome, TRAIN_FAILED);
    assert_non_null(strstr(err.text, "training is in trouble again after 2 rollbacks in a row"));
    assert_non_null(strstr(err.text, "with health.on_nan = skip")); /* it was no spike */
    assert_int_equal(s.story.rollback_count, 2);
    assert_int_equal(s.story.steps[s.story.step_count - 1].step, 20); /* 50, then 40, then 20 */
    assert_int_equal(checkpoint_find(s.folder, 20, path, sizeof path, NULL), STATUS_OK);
    session_close(&s);
}

/* The trouble is at step 20, then at step 100, and so on: each second time training has come far past the one
 * before, but no checkpoint has. */
TEST_CASE(rollbacks_to_the_same_weights_come_to_an_end)
{
    struct backend backend = poisoned_backend(0, 0);
    struct session s;
    struct err err = {0};
    enum train_outcome outcome;
    open_spoilt(
        &s, "in-a-circle", &backend,
        WORDS("health.on_nan=rollback", "health.rollbacks=3", "checkpoint.every=0", "train.total_steps=400"),
        0);
    poison.each = 122;
    session_start(&s, false);
    assert_int_equal(trainer_run(s.trainer, &outcome, &err), STATUS_FAILED);
    assert_int_equal(s.story.rollback_count, 3);
    session_close(&s);
}

TEST_CASE(a_rate_that_explodes_is_cut_until_training_goes_on)
{
    struct session s;
    session_open(&s, "explodes", NULL,
                 WORDS("train.learning_rate=1000", "train.schedule=constant", "train.weight_decay=100",
                       "train.warmup_steps=0", "train.total_steps=40", "health.loss_spike=0",
                       "health.on_nan=rollback", "health.rollbacks=60", "health.rollback_lr=0.1"),
                 4000);
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    assert_true(s.story.rollback_count > 0);
    assert_true(isfinite(s.story.steps[s.story.step_count - 1].loss));
    assert_true(s.story.steps[s.story.step_count - 1].lr < 100);
    session_close(&s);
}

/* ---- what goes with it ---- */

TEST_CASE(adapters_go_back_to_theirs)
{
    struct session base, s;
    char from[4200];
    run_spoilt(&base, "base", NULL, 0);
    snprintf(from, sizeof from, "model.from=%s/step-%d", base.folder, STEPS);
    for (int k = 0; k < 2; k++) {
        run_spoilt(&s, "adapters",
                   WORDS(from, "lora.rank=4", "lora.targets=all", "health.on_spike=rollback",
                         k ? "checkpoint.every=0" : "checkpoint.every=20"),
                   0);
        assert_int_equal(s.story.rollback_count, 1);
        int64_t again = k ? 0 : 60;
        assert_int_equal(s.story.steps[71].step, again);
        assert_true(s.story.steps[71].loss < 1.5 * s.story.steps[again].loss + 0.1);
        if (k) assert_true(s.story.steps[s.story.step_count - 1].step == STEPS - 1);
        session_close(&s);
    }
    session_close(&base);
}

TEST_CASE(a_rollback_needs_moments_and_an_action_on_spikes_a_limit)
{
    static const struct {
        const char *words[3];
        const char *sentence;
    } cases[] = {{{"health.on_spike=rollback", "checkpoint.contents=weights"},
                  "health.on_spike = rollback: goes back to a checkpoint"},
                 {{"health.on_nan=rollback", "checkpoint.contents=weights"},
                  "health.on_nan = rollback: goes back to a checkpoint"},
                 {{"health.on_spike=skip", "health.loss_spike=0"}, "set health.loss_spike above 0"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct session s;
        struct err err = {0};
        session_open(&s, "refused", NULL, cases[i].words, 900);
        assert_int_equal(session_try(&s, &err), STATUS_USAGE);
        assert_non_null(strstr(err.text, cases[i].sentence));
        session_close(&s);
    }
}

TEST_MAIN()
