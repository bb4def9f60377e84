/* The inputs and results of a step: masks, labels, and the order of events while a step still runs on an
 * asynchronous device. */
#include <math.h>

#include "tests/cmocka.h"
#include "tests/core/train/story.h"

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* ---- dropout ---- */

/* All tokens alike: without dropout every micro-batch of every step has the same loss. */
TEST_CASE(every_micro_batch_of_every_step_has_a_dropout_mask_of_its_own)
{
    struct session s[2];
    for (int i = 0; i < 2; i++) {
        session_open(&s[i], "masks", NULL,
                     WORDS("train.learning_rate=0", "train.dropout=0.3", "train.total_steps=3",
                           i ? "train.accumulation_steps=2" : "train.accumulation_steps=1"),
                     900);
        for (int k = 0; k < 900; k++) s[i].tokens[k] = 'a';
        session_start(&s[i], false);
        session_run(&s[i]);
    }
    assert_true(s[0].story.steps[0].loss != s[0].story.steps[1].loss);
    for (int k = 0; k < 3; k++) assert_true(s[0].story.steps[k].loss != s[1].story.steps[k].loss);
    for (int i = 0; i < 2; i++) session_close(&s[i]);
}

/* ---- a batch that grows ---- */

TEST_CASE(a_batch_that_grows_takes_the_sequences_in_order)
{
    static const int sizes[] = {1, 1, 1, 2, 2, 4, 4, 4};
    struct session plain, growing;
    session_open(&plain, "plain", NULL, WORDS("train.learning_rate=0", "train.total_steps=19"), 900);
    session_start(&plain, false);
    session_run(&plain);
    session_open(&growing, "growing", NULL,
                 WORDS("train.learning_rate=0", "train.total_steps=8", "train.accumulation_plan=0:1,3:2,5:4"),
                 900);
    session_start(&growing, false);
    session_run(&growing);
    for (int i = 0, at = 0; i < 8; i++) {
        double sum = 0;
        for (int k = 0; k < sizes[i]; k++) sum += plain.story.steps[at++].loss;
        assert_true(fabs(growing.story.steps[i].loss - sum / sizes[i]) < 1e-6);
        assert_int_equal(growing.story.steps[i].tokens, at * 2 * 16);
        assert_true(growing.story.steps[i].epoch == plain.story.steps[at - 1].epoch);
    }
    session_close(&plain);
    session_close(&growing);
}

/* ---- labels ---- */

static struct {
    double share;        /* of the step, by the scale of its gradients: 1 when all labels have been seen */
    int64_t labels;      /* of an evaluation or a step */
    double shares[1024]; /* by step */
} counted;

/* Every label that counts has a loss of 1. */
static int64_t count_ones(float *losses, const int32_t *targets, int N)
{
    int64_t count = 0;
    for (int i = 0; i < N; i++) {
        losses[i] = targets[i] != -100;
        count += targets[i] != -100;
    }
    return count;
}

static void counting_fused(float *losses, struct matrix logits, const int32_t *targets,
                           const struct step_control *control, int N, int V, struct stream *stream)
{
    cpu_backend()->cross_entropy_fused(losses, logits, targets, control, N, V, stream);
    counted.shares[control->step] += (double)count_ones(losses, targets, N) * (double)control->loss_scale;
}

static void counting_forward(float *losses, struct matrix logits, const int32_t *targets, int N, int V,
                             struct stream *stream)
{
    cpu_backend()->cross_entropy_forward(losses, logits, targets, N, V, stream);
    count_ones(losses, targets, N);
}

TEST_CASE(losses_are_means_over_the_labels_that_count)
{
    struct session s;
    struct backend counting = *cpu_backend();
    counting.cross_entropy_fused = counting_fused;
    counting.cross_entropy_forward = counting_forward;
    memset(&counted, 0, sizeof counted);
    session_open(&s, "labels", &counting,
                 WORDS("data.padding=32", "train.accumulation_steps=3", "eval.every=5", "eval.batches=2",
                       "train.total_steps=30", "train.learning_rate=0"),
                 900);
    session_start(&s, false);
    session_run(&s);
    assert_int_equal(s.story.step_count, 30);
    for (int i = 0; i < 30; i++) {
        assert_true(s.story.steps[i].loss == 1);
        assert_true(fabs(counted.shares[i] - 1) < 1e-6);
    }
    assert_int_equal(s.story.eval_count, 6);
    for (int i = 0; i < 6; i++) assert_true(s.story.evals[i].val_loss == 1);
    session_close(&s);
}

static int forward_passes;
static int32_t first_label; /* of the newest */

static void counted_forward(float *losses, struct matrix logits, const int32_t *targets, int N, int V,
                            struct stream *stream)
{
    cpu_backend()->cross_entropy_forward(losses, logits, targets, N, V, stream);
    forward_passes++;
    first_label = targets[0];
}

/* 1,500 tokens hold out 150: nine sequences, four full batches of two and one of one. */
TEST_CASE(eval_batches_is_how_many_are_evaluated_and_zero_is_all)
{
    static const char *const words[] = {"eval.batches=0", "eval.batches=3", "eval.batches=40"};
    static const int passes[] = {5, 3, 5};
    double losses[3];
    for (int i = 0; i < 3; i++) {
        struct session s;
        struct backend counting = *cpu_backend();
        counting.cross_entropy_forward = counted_forward;
        session_open(&s, "batches", &counting, WORDS(words[i], "train.total_steps=1"), 1500);
        session_start(&s, false);
        assert_int_equal(trainer_sequences(s.trainer, TASK_VALIDATION), 9);
        forward_passes = 0;
        session_run(&s);
        assert_int_equal(s.story.eval_count, 1);
        assert_int_equal(forward_passes, passes[i]);
        losses[i] = s.story.evals[0].val_loss;
        assert_int_equal(s.story.measures.count, 2); /* what language modelling has */
        assert_string_equal(s.story.measures.of[0].name, "val_loss");
        assert_true(s.story.measures.of[0].value == losses[i]);
        assert_string_equal(s.story.measures.of[1].name, "val_perplexity");
        assert_true(s.story.measures.of[1].value == exp(losses[i]));
        assert_int_equal(first_label, s.tokens[1350 + (passes[i] - 1) * 2 * 16 + 1]);
        session_close(&s);
    }
    assert_true(losses[0] == losses[2] && losses[0] != losses[1]);
}

/* ---- an asynchronous device: the newest step is always still running ---- */

static bool never_done(struct event *event)
{
    (void)event;
    return false;
}

static struct backend lazy_backend(void)
{
    struct backend lazy = *cpu_backend();
    lazy.event_done = never_done;
    return lazy;
}

TEST_CASE(a_step_under_way_changes_no_evaluation_sample_or_checkpoint)
{
    struct session s[2];
    struct backend lazy = lazy_backend();
    for (int i = 0; i < 2; i++) {
        session_open(&s[i], i ? "lazy" : "prompt", i ? &lazy : NULL,
                     WORDS("train.total_steps=56", "train.batch_size=4", "eval.every=10",
                           "eval.at_epoch_end=true", "sample.every=6", "checkpoint.every=9"),
                     900);
        session_start(&s[i], false);
        assert_int_equal(session_run(&s[i]), TRAIN_FINISHED);
    }
    story_expect_same(&s[0].story, &s[1].story, "with a step under way");
    static const int64_t steps[] = {10, 13, 20, 25, 30, 38, 40, 50, 56};
    assert_int_equal(s[1].story.eval_count, 9);
    for (int i = 0; i < 9; i++) assert_int_equal(s[1].story.evals[i].step, steps[i]);
    assert_int_equal(s[1].story.sample_count, s[0].story.sample_count);
    assert_int_equal(s[1].story.checkpoint_count, s[0].story.checkpoint_count);
    for (int i = 0; i < s[0].story.checkpoint_count; i++)
        assert_int_equal(s[1].story.checkpoints[i].step, s[0].story.checkpoints[i].step);
    for (int i = 0; i < 2; i++) session_close(&s[i]);
}

TEST_CASE(an_order_waits_for_the_steps_that_were_queued_before_it)
{
    struct session s, every;
    struct backend lazy = lazy_backend();
    struct story_order script[] = {{.at = 3, .order = {.id = 1, .verb = ORDER_EVAL}},
                                   {.at = 6, .order = {.id = 2, .verb = ORDER_CHECKPOINT}},
                                   {.at = 9, .order = {.id = 3, .verb = ORDER_LR_FACTOR, .argument = 0.5}},
                                   {0}};
    session_open(&every, "each", NULL, WORDS("eval.every=1"), 900);
    session_start(&every, false);
    session_run(&every);
    session_open(&s, "ordered", &lazy, NULL, 900);
    s.story.orders = script;
    session_start(&s, false);
    session_run(&s);
    assert_int_equal(s.story.applied[1], 4); /* the fourth was queued when the third was reported */
    assert_int_equal(s.story.evals[0].step, 4);
    assert_true(s.story.evals[0].val_loss == every.story.evals[3].val_loss);
    assert_int_equal(s.story.applied[2], 7);
    assert_non_null(strstr(s.story.results[2], "checkpoints/step-7"));
    assert_int_equal(s.story.applied[3], 10);
    for (int i = 0; i < 12; i++)
        assert_true(s.story.steps[i].lr == every.story.steps[i].lr * (i < 10 ? 1 : 0.5));
    session_close(&s);
    session_close(&every);
}

/* ---- health ---- */

static void constant_sum(double *out, const float *x, size_t n, bool add, void *scratch,
                         struct stream *stream)
{
    double before = *out;
    cpu_backend()->sum(out, x, n, add, scratch, stream);
    *out = (add ? before : 0) + (counted.labels++ == 63 ? 5.0 : 4.0) * (double)n;
}

/* After 63 steps at 4 the 64th is a spike, and completes a plateau. */
TEST_CASE(a_step_may_have_two_events)
{
    struct session s;
    struct backend constant = *cpu_backend();
    constant.sum = constant_sum;
    counted.labels = 0;
    session_open(&s, "two", &constant,
                 WORDS("train.total_steps=70", "data.val_fraction=0", "health.plateau_steps=64",
                       "health.loss_spike=6"),
                 900);
    session_start(&s, false);
    session_run(&s);
    assert_true(s.story.steps[62].loss == 4 && s.story.steps[63].loss == 5);
    assert_int_equal(s.story.event_count, 2);
    assert_non_null(strstr(s.story.events[0], "step 63: the loss rose to 5"));
    assert_non_null(strstr(s.story.events[1], "the loss has not fallen since step 0"));
    session_close(&s);
}

static char samples[3][8192];

static void keep_sample(struct story *story)
{
    if (story->sample_count > 0 && story->sample_count <= 3)
        snprintf(samples[story->sample_count - 1], sizeof *samples, "%s", story->last_sample);
}

static void sample(const char *const *words)
{
    struct session s;
    session_open(&s, "samples", NULL, words, 900);
    s.story.on_step = keep_sample;
    memset(samples, 0, sizeof samples);
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    session_close(&s);
}

/* The weights stay as they are, so the step alone makes the difference. */
TEST_CASE(samples_are_drawn_anew_at_every_step_but_for_the_likeliest_tokens)
{
    char first[2][256];
    sample(WORDS("sample.every=4", "train.learning_rate=0", "sample.max_tokens=20", "train.total_steps=13"));
    assert_true(*samples[0] && *samples[1] && *samples[2]);
    assert_string_not_equal(samples[0], samples[1]);
    assert_string_not_equal(samples[1], samples[2]);
    for (int cold = 0; cold < 2;
         cold++) { /* the same one always, by its temperature or by the width of choice */
        sample(WORDS("sample.every=4", "train.learning_rate=0", "sample.max_tokens=20",
                     "train.total_steps=13", cold ? "sample.temperature=0" : "sample.top_k=1"));
        assert_string_equal(samples[0], samples[1]);
        assert_string_equal(samples[1], samples[2]);
        strcpy(first[cold], samples[0]);
    }
    assert_string_equal(first[0], first[1]);
}

/* A byte a token, of a text that is ASCII. */
TEST_CASE(a_sample_has_as_many_tokens_as_asked_for)
{
    sample(WORDS("train.total_steps=201", "sample.every=200", "train.learning_rate=0.03",
                 "sample.temperature=0", "sample.max_tokens=40"));
    assert_int_equal(strlen(samples[0]), 40);
    sample(WORDS("train.total_steps=201", "sample.every=200", "train.learning_rate=0.03",
                 "sample.temperature=0", "sample.max_tokens=5000"));
    assert_int_equal(strlen(samples[0]), 5000);
}

TEST_MAIN()
