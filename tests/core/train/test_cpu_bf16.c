/* Training and decoding on the CPU in bf16. */
#include <math.h>

#include "kernels/device/cpu.h"
#include "tests/cmocka.h"
#include "tests/core/network/cached.h"
#include "tests/core/train/story.h"

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void train(struct session *s, const char *name, const char *const *words, const char *precision,
                  bool resume)
{
    const char *all[16];
    int count = 0;
    while (words[count]) all[count] = words[count], count++;
    all[count++] = precision;
    all[count] = NULL;
    session_open(s, name, NULL, all, 900);
    session_start(s, resume);
    assert_int_equal(session_run(s), TRAIN_FINISHED);
}

static const char FP32[] = "train.precision=fp32", BF16[] = "train.precision=bf16";

/* Elements have 8 bits of mantissa, sums and master weights are fp32: the error of a loss, a mean over many,
 * is far below the rounding of an element, 2^-9. */
static void expect_almost_the_same_curve(const char *const *words)
{
    struct session wide, less;
    double largest = 0;
    train(&wide, "wide", words, FP32, false);
    train(&less, "narrow", words, BF16, false);
    assert_int_equal(less.story.step_count, 10);
    for (int i = 0; i < 10; i++) {
        double got = less.story.steps[i].loss, want = wide.story.steps[i].loss,
               error = fabs(got - want) / want;
        if (!(error <= 3e-3)) fail_msg("step %d: %.9g in bf16, %.9g in fp32", i, got, want);
        largest = fmax(largest, error);
    }
    assert_true(largest > 1e-6); /* or it was fp32 */
    assert_true(less.story.steps[9].loss < less.story.steps[0].loss);
    session_close(&wide), session_close(&less);
}

TEST_CASE(a_llama_learns_almost_as_in_fp32)
{
    expect_almost_the_same_curve(WORDS("train.total_steps=10", "train.threads=2", "eval.every=5"));
}

TEST_CASE(a_qwen_with_everything_does_too)
{
    expect_almost_the_same_curve(WORDS(
        "train.total_steps=10", "train.optimizer=lion", "train.learning_rate=0.003", "model.qk_norm=true",
        "model.qkv_bias=true", "model.tie_weights=true", "train.accumulation_steps=2", "train.seq_len=17"));
}

TEST_CASE(muon_does_too)
{
    expect_almost_the_same_curve(WORDS("train.total_steps=10", "train.optimizer=muon", "model.qk_norm=true"));
}

TEST_CASE(adapters_do_too)
{
    static const char *const stored[] = {"lora.base=auto", "lora.base=nf4"};
    struct session base;
    char from[4200];
    train(&base, "base", WORDS("train.total_steps=10"), FP32, false);
    snprintf(from, sizeof from, "model.from=%s/step-10", base.folder);
    for (int i = 0; i < 2; i++)
        expect_almost_the_same_curve(WORDS(from, "lora.rank=4", "lora.targets=all", "lora.train_norms=true",
                                           stored[i], "train.total_steps=10", "train.warmup_steps=0"));
    session_close(&base);
}

/* Activations that are computed again, and a stop with a resume in between, change no bit. */
TEST_CASE(recomputing_and_resuming_change_no_bit)
{
    static const char *const optimizers[] = {"train.optimizer=adamw", "train.optimizer=muon"};
    for (int i = 0; i < 2; i++) {
        struct session whole, again, parts;
#define ALL                                                                                                  \
    optimizers[i], "train.total_steps=8", "train.threads=2", "train.dropout=0.2", "checkpoint.every=4",      \
        "eval.every=4"
        train(&whole, "whole", WORDS(ALL), BF16, false);
        train(&again, "again", WORDS(ALL, "checkpoint.activation_interval=1"), BF16, false);
        story_expect_same(&whole.story, &again.story, "recomputed");
        session_open(&parts, "parts", NULL, WORDS(ALL, BF16), 900);
        parts.story.leave_at = 4;
        session_start(&parts, false);
        session_run(&parts);
        parts.story.leave_at = 0;
        session_start(&parts, true);
        assert_int_equal(session_run(&parts), TRAIN_FINISHED);
        story_expect_same(&whole.story, &parts.story, "resumed");
        session_close(&whole), session_close(&again), session_close(&parts);
    }
}

/* The averages that are evaluated lie in the buffer of the gradients, whose gaps (model.h) are added to the
 * gradients' norm: after 50 values of a norm come 14 of a gap. */
TEST_CASE(evaluating_averages_changes_no_bit)
{
    struct session plain, evaluated;
#define ODD                                                                                                  \
    "model.hidden_dim=50", "model.num_heads=5", "model.num_kv_heads=5", "model.head_dim=10",                 \
        "model.intermediate_dim=100", "model.num_layers=8", "train.total_steps=8", "train.ema_decay=0.9",    \
        "train.learning_rate=0.01", "train.max_grad_norm=0.5"
    train(&plain, "plain", WORDS(ODD, "eval.every=8"), BF16, false);
    train(&evaluated, "evaluated", WORDS(ODD, "eval.every=2"), BF16, false);
    for (int i = 0; i < 8; i++) {
        const struct step_record *a = &plain.story.steps[i], *b = &evaluated.story.steps[i];
        if (a->grad_norm != b->grad_norm || a->loss != b->loss)
            fail_msg("step %d: norm %.9g instead of %.9g", i, b->grad_norm, a->grad_norm);
    }
    session_close(&plain), session_close(&evaluated);
}

TEST_CASE(cached_logits_agree)
{
    for (int kind = 0; kind < CACHED_KINDS; kind++)
        cached_mixture_agrees(cpu_backend(), PRECISION_BF16, kind);
    cached_long_sequence_agrees(cpu_backend(), PRECISION_BF16);
    cached_decoding_agrees(cpu_backend(), PRECISION_BF16);
}

TEST_MAIN()
