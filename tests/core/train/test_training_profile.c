/* The profile of real training: its rows add up, no operation is missing, and training is unchanged. */
#include <math.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/core/train/story.h"

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void train(struct session *s, const char *name, const char *const *words)
{
    session_open(s, name, NULL, words, 900);
    session_start(s, false);
    assert_int_equal(session_run(s), TRAIN_FINISHED);
}

/* The row of `step`, or NULL. */
static const struct profile_record *find(const struct story *story, int64_t step, const char *phase,
                                         int layer, const char *op)
{
    for (int i = 0; i < story->profile_count; i++) {
        const struct profile_record *r = &story->profile[i];
        if (r->step == step && strcmp(r->phase, phase) == 0 && r->layer == layer && strcmp(r->op, op) == 0)
            return r;
    }
    return NULL;
}

static int64_t calls(const struct story *story, int64_t step, const char *phase, int layer, const char *op)
{
    const struct profile_record *row = find(story, step, phase, layer, op);
    return row ? row->calls : 0;
}

static bool profiled(const struct story *story, int64_t step)
{
    return find(story, step, "unattributed", -1, "unattributed") != NULL;
}

TEST_CASE(rows_add_up_to_the_time_of_the_step)
{
    struct session s;
    train(&s, "sum", WORDS("profile.every=1", "profile.warmup_steps=0", "train.accumulation_steps=2"));
    for (int64_t step = 0; step < 12; step++) {
        double sum = 0;
        for (int i = 0; i < s.story.profile_count; i++)
            if (s.story.profile[i].step == step) sum += s.story.profile[i].time_us;
        const struct profile_record *left = find(&s.story, step, "unattributed", -1, "unattributed");
        assert_non_null(left);
        assert_true(left->time_us >= 0); /* operations are within the step */
        double step_us = s.story.steps[step].step_ms * 1e3;
        if (fabs(sum - step_us) > 1e-6 * step_us) fail_msg("%.9g us of %.9g", sum, step_us);
    }
    session_close(&s);
}

TEST_CASE(warm_up_is_left_out_and_then_one_step_in_n_is_taken)
{
    struct session s;
    train(&s, "some", WORDS("profile.every=4", "profile.warmup_steps=2"));
    for (int64_t step = 0; step < 12; step++)
        assert_int_equal(profiled(&s.story, step), step == 2 || step == 6 || step == 10);
    session_close(&s);
    train(&s, "off", WORDS("profile.every=0", "profile.warmup_steps=0"));
    assert_int_equal(s.story.profile_count, 0);
    session_close(&s);
}

TEST_CASE(an_accumulated_step_calls_an_operation_once_a_micro_batch)
{
    struct session s;
    train(&s, "calls", WORDS("profile.every=7", "profile.warmup_steps=4", "train.accumulation_steps=3"));
    for (int layer = 0; layer < 2; layer++) {
        assert_int_equal(calls(&s.story, 4, "forward", layer, "attention"), 3);
        assert_int_equal(calls(&s.story, 4, "backward", layer, "attention"), 3);
        assert_int_equal(calls(&s.story, 4, "forward", layer, "add norm"), 6);
    }
    assert_int_equal(calls(&s.story, 4, "data", -1, "batch"), 3);
    assert_int_equal(calls(&s.story, 4, "backward", -1, "cross entropy"), 3);
    assert_int_equal(calls(&s.story, 4, "backward", -1, "gemm head dW"), 3);
    assert_int_equal(calls(&s.story, 4, "optimizer", -1, "adamw"), 1);
    const struct model_config *c = &s.config.model.sizes;
    int64_t N = 2 * 16, C = c->hidden_dim, F = c->intermediate_dim;
    const struct profile_record *down = find(&s.story, 4, "forward", 1, "gemm down");
    assert_int_equal(down->bytes, 3 * 4 * (N * F + C * F + N * C));
    assert_int_equal(down->flops, 3 * 2 * N * C * F);
    session_close(&s);
}

TEST_CASE(what_is_computed_again_is_a_phase_of_its_own)
{
    struct session s;
    train(&s, "again", WORDS("profile.every=1", "checkpoint.activation_interval=2"));
    assert_int_equal(calls(&s.story, 5, "recompute", 0, "attention"), 1);
    assert_int_equal(calls(&s.story, 5, "recompute", 0, "gemm gate_up"), 1);
    assert_int_equal(calls(&s.story, 5, "recompute", 1, "attention"), 0); /* that layer is kept */
    session_close(&s);
    train(&s, "kept", WORDS("profile.every=1"));
    assert_int_equal(calls(&s.story, 5, "forward", 0, "attention"), 1);
    for (int i = 0; i < s.story.profile_count; i++)
        assert_string_not_equal(s.story.profile[i].phase, "recompute");
    session_close(&s);
}

/* Every operation that there is, those of the other optimizer and of the plain rotation apart. */
TEST_CASE(with_everything_on_there_is_room_for_every_operation)
{
    struct session s;
    train(&s, "all",
          WORDS("profile.every=1", "train.dropout=0.2", "model.qk_norm=true", "model.qkv_bias=true",
                "checkpoint.activation_interval=1", "train.accumulation_steps=2", "train.optimizer=lion"));
    static const char *const layer[] = {"add norm",     "gemm qkv",     "bias qkv",        "qk norm rope",
                                        "attention",    "gemm o",       "gemm gate_up",    "swiglu",
                                        "gemm down",    "dropout",      "copy dx",         "norm",
                                        "gemm down dW", "gemm down dx", "gemm gate_up dW", "gemm o dW",
                                        "gemm o dx",    "gemm qkv dW",  "gemm qkv dx",     "gemm gate_up dx"};
    static const char *const beside[][2] = {{"data", "batch"},
                                            {"forward", "embedding"},
                                            {"forward", "dropout"},
                                            {"backward", "gemm head"},
                                            {"backward", "cross entropy"},
                                            {"backward", "gemm head dx"},
                                            {"backward", "gemm head dW"},
                                            {"backward", "loss sum"},
                                            {"backward", "zero dx"},
                                            {"backward", "norm"},
                                            {"backward", "dropout"},
                                            {"backward", "embedding"},
                                            {"optimizer", "zero gradients"},
                                            {"optimizer", "gradient norm"},
                                            {"optimizer", "clip"},
                                            {"optimizer", "lion"},
                                            {"optimizer", "read result"}};
    for (size_t i = 0; i < sizeof layer / sizeof *layer; i++)
        for (int l = 0; l < 2; l++)
            if (!calls(&s.story, 5, "forward", l, layer[i]) && !calls(&s.story, 5, "backward", l, layer[i]))
                fail_msg("layer %d has no %s", l, layer[i]);
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++)
        if (!calls(&s.story, 5, beside[i][0], -1, beside[i][1]))
            fail_msg("%s has no %s", beside[i][0], beside[i][1]);
    for (int i = 0; i < s.story.profile_count; i++) assert_string_not_equal(s.story.profile[i].op, "rope");
    assert_int_equal(calls(&s.story, 5, "optimizer", -1, "read result"), 1); /* the last one */
    session_close(&s);
}

TEST_CASE(training_is_the_same_to_the_bit_with_and_without)
{
    struct session with, without;
    struct file_map a, b;
    char path[4096];
    struct err err = {0};
    train(&with, "with", WORDS("profile.every=1", "profile.warmup_steps=0", "train.dropout=0.1"));
    train(&without, "without", WORDS("profile.every=0", "train.dropout=0.1"));
    assert_true(with.story.profile_count > 0 && without.story.profile_count == 0);
    for (int i = 0; i < 12; i++) {
        assert_memory_equal(&with.story.steps[i].loss, &without.story.steps[i].loss, sizeof(double));
        assert_memory_equal(&with.story.steps[i].grad_norm, &without.story.steps[i].grad_norm,
                            sizeof(double));
    }
    snprintf(path, sizeof path, "%s/step-12/model.safetensors", with.folder);
    if (file_map_open(path, &a, &err)) fail_msg("%s", err.text);
    snprintf(path, sizeof path, "%s/step-12/model.safetensors", without.folder);
    if (file_map_open(path, &b, &err)) fail_msg("%s", err.text);
    assert_int_equal(a.size, b.size);
    assert_memory_equal(a.data, b.data, a.size);
    file_map_close(&a);
    file_map_close(&b);
    session_close(&with);
    session_close(&without);
}

/* They run the same network, and are no part of a step. */
TEST_CASE(evaluations_and_samples_are_not_in_the_profile)
{
    struct session s;
    train(&s, "beside", WORDS("profile.every=1", "profile.warmup_steps=0", "eval.every=1", "sample.every=1"));
    assert_true(s.story.eval_count >= 12 && s.story.sample_count >= 12);
    for (int64_t step = 0; step < 12; step++) {
        assert_int_equal(calls(&s.story, step, "forward", 0, "attention"), 1);
    }
    session_close(&s);
}

TEST_MAIN()
