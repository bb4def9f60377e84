/* The average of the weights (train.ema_decay): its formula over a run, its file, its evaluation, and where
 * it begins anew. */
#include <math.h>

#include "core/base/file.h"
#include "core/model/safetensors.h"
#include "tests/cmocka.h"
#include "tests/core/train/story.h"

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

enum { STEPS = 8, EMA_MEASURE = 2 }; /* val_loss, val_perplexity, and then the same of the average */
static const char probe[] = "model.layers.1.mlp.down_proj.weight";

/* A parameter in a file of the checkpoint of a step; the caller frees it. */
static float *read_parameter(const struct session *s, int step, const char *file, size_t *count)
{
    char path[4096];
    struct safetensors tensors;
    struct err err = {0};
    snprintf(path, sizeof path, "%s/step-%d/%s", s->folder, step, file);
    if (safetensors_open(path, &tensors, &err)) fail_msg("%s", err.text);
    const struct safetensor *t = safetensors_find(&tensors, probe);
    assert_non_null(t);
    *count = t->bytes / sizeof(float);
    float *values = malloc(t->bytes);
    memcpy(values, t->data, t->bytes);
    safetensors_close(&tensors);
    return values;
}

static void train(struct session *s, const char *name, const char *const *words)
{
    session_open(s, name, NULL, words, 900);
    session_start(s, false);
    assert_int_equal(session_run(s), TRAIN_FINISHED);
}

TEST_CASE(the_average_is_that_of_the_weights_after_each_update)
{
    struct session s;
    size_t n;
    double sum[16 * 24] = {0}, weights = 0;
    train(&s, "formula", WORDS("train.total_steps=8", "checkpoint.every=1", "train.ema_decay=0.9"));
    for (int step = 1; step <= STEPS; step++) {
        float *w = read_parameter(&s, step, "model.safetensors", &n),
              *average = read_parameter(&s, step, "ema.safetensors", &n);
        assert_int_equal(n, 16 * 24);
        weights = 0.9 * weights + 1;
        for (size_t i = 0; i < n; i++) {
            sum[i] = 0.9 * sum[i] + (double)w[i];
            assert_true(fabs((double)average[i] - sum[i] / weights) < 1e-7);
        }
        free(w), free(average);
    }
    session_close(&s);
}

/* The run's last checkpoint with the averages in place of the weights, evaluated by a trainer that goes on
 * from there and has no step left. */
TEST_CASE(the_average_is_evaluated_beside_the_weights)
{
    const char *const *words = WORDS("train.total_steps=8", "eval.every=4", "train.ema_decay=0.9");
    struct session s, plain;
    char average[4096], weights[4096];
    struct err err = {0};
    train(&plain, "plain", WORDS("train.total_steps=8", "eval.every=4"));
    train(&s, "evaluated", words);
    story_expect_same(&plain.story, &s.story, "with an average");
    assert_int_equal(plain.story.measures.count, 2);
    assert_int_equal(s.story.measures.count, 4);
    double measured = s.story.measures.of[EMA_MEASURE].value;
    assert_true(measured != s.story.measures.of[0].value);
    snprintf(average, sizeof average, "%s/step-8/ema.safetensors", s.folder);
    snprintf(weights, sizeof weights, "%s/step-8/model.safetensors", s.folder);
    assert_int_equal(file_copy(average, weights, &err), STATUS_OK);
    snprintf(weights, sizeof weights, "%s/step-8", s.folder);
    if (session_try(&s, &err) || trainer_resume(s.trainer, weights, &err)) fail_msg("%s", err.text);
    s.story.eval_count = 0;
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    assert_int_equal(s.story.eval_count, 1);
    assert_memory_equal(&s.story.evals[0].val_loss, &measured, sizeof measured);
    session_close(&s);
    session_close(&plain);
}

/* Switched on at step 4: from the weights that it finds. */
TEST_CASE(a_resumed_run_begins_to_average_with_its_weights)
{
    struct session s;
    size_t n;
    double share = (1 - 0.9) / (1 - pow(0.9, 5));
    train(&s, "later", WORDS("train.total_steps=4", "checkpoint.every=1"));
    s.config.train.total_steps = 5;
    s.config.train.ema_decay = 0.9;
    session_start(&s, true);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    float *before = read_parameter(&s, 4, "model.safetensors", &n),
          *after = read_parameter(&s, 5, "model.safetensors", &n),
          *average = read_parameter(&s, 5, "ema.safetensors", &n);
    for (size_t i = 0; i < n; i++)
        assert_true(fabs((double)before[i] + share * ((double)after[i] - (double)before[i]) -
                         (double)average[i]) < 1e-7);
    free(before), free(after), free(average);
    session_close(&s);
}

/* A checkpoint without moments has the averages all the same; a run that starts from it begins anew. */
TEST_CASE(a_fork_from_weights_alone_begins_a_new_average)
{
    struct session s;
    size_t n;
    char folder[4096];
    struct err err = {0};
    bool fresh = false;
    train(&s, "fork", WORDS("train.total_steps=4", "train.ema_decay=0.9", "checkpoint.contents=weights"));
    free(read_parameter(&s, 4, "ema.safetensors", &n));
    s.config.train.total_steps = 5;
    snprintf(folder, sizeof folder, "%s/step-4", s.folder);
    if (session_try(&s, &err) || trainer_fork(s.trainer, folder, &fresh, &err)) fail_msg("%s", err.text);
    assert_true(fresh);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    float *w = read_parameter(&s, 5, "model.safetensors", &n),
          *average = read_parameter(&s, 5, "ema.safetensors", &n);
    for (size_t i = 0; i < n; i++) assert_true(fabs((double)w[i] - (double)average[i]) < 1e-8);
    free(w), free(average);
    session_close(&s);
}

TEST_CASE(before_the_first_update_the_average_is_the_weights)
{
    struct session s;
    train(&s, "first",
          WORDS("train.total_steps=1", "train.learning_rate=0", "eval.every=20", "eval.early=true",
                "train.ema_decay=0.9"));
    assert_int_equal(s.story.eval_count, 2);
    assert_true(s.story.measures.of[EMA_MEASURE].value == s.story.evals[0].val_loss);
    session_close(&s);
}

TEST_MAIN()
