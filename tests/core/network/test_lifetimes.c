/* When the plan says a buffer's content is needed: before each stage of a step, everything in the workspace
 * that does not count in it is made NaN. The gradients must be those of an undisturbed step, to the bit.
 *
 * The stages are told from the operations that begin them: a copy of the CPU's table whose functions spoil
 * the workspace first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include "core/train/optimizer.h"
#include "tests/core/network/rig.h"

enum { B = 3, T = 7, N = B * T, LAYERS = 3, BLOCK = 256 };

/* The table's functions have no context of their own. */
static struct {
    const struct rig *rig; /* NULL: nothing is spoilt */
    bool backward;         /* the loss is behind us */
    bool joined;           /* of a layer, attention has joined the stream */
    bool gate_is_back;     /* of a layer, the feed-forward half is behind us */
    unsigned seen;         /* stages before which something was spoilt */
    size_t blocks;
} spoiler;

static void spoil_all_but(unsigned stage)
{
    const struct rig *rig = spoiler.rig;
    if (!rig) return;
    size_t blocks = rig->plan.category_bytes[PLAN_WORKSPACE] / BLOCK;
    unsigned char *memory = rig->network.memory[PLAN_WORKSPACE], *kept = calloc(blocks, 1);
    assert_non_null(kept);
    for (size_t i = 0; i < rig->plan.buffer_count; i++) {
        const struct plan_buffer *b = &rig->plan.buffers[i];
        if (b->category == PLAN_WORKSPACE && (b->stages & stage))
            memset(kept + b->offset / BLOCK, 1, (b->bytes + BLOCK - 1) / BLOCK);
    }
    for (size_t i = 0; i < blocks; i++) {
        if (kept[i]) continue;
        memset(memory + i * BLOCK, 0xFF, BLOCK);
        spoiler.blocks++;
    }
    spoiler.seen |= stage;
    free(kept);
}

static void attention_forward(void *out, float *lse, const void *qkv, void *workspace, int b, int t, int NH,
                              int NKV, int HS, struct stream *stream)
{
    spoil_all_but(STAGE_ATTENTION);
    spoiler.joined = false;
    cpu_backend()->attention_forward(out, lse, qkv, workspace, b, t, NH, NKV, HS, stream);
}

static void rmsnorm_residual_forward(void *sum, void *out, float *rstd, const void *x, const void *delta,
                                     const void *weight, int n, int C, float eps, struct stream *stream)
{
    spoil_all_but(spoiler.joined ? STAGE_NEXT : STAGE_JOIN);
    cpu_backend()->rmsnorm_residual_forward(sum, out, rstd, x, delta, weight, n, C, eps, stream);
    spoil_all_but(spoiler.joined ? STAGE_NEXT : STAGE_GATE);
    spoiler.joined = true;
}

static void swiglu_forward(void *out, const void *gate_up, int n, int F, struct stream *stream)
{
    spoil_all_but(spoiler.backward ? STAGE_BACK_DOWN : STAGE_ACTIVATE);
    spoiler.gate_is_back = false;
    cpu_backend()->swiglu_forward(out, gate_up, n, F, stream);
    if (!spoiler.backward) spoil_all_but(STAGE_DOWN);
}

static void cross_entropy_fused(float *losses, void *logits, const int32_t *targets,
                                const struct step_control *control, int n, int V, struct stream *stream)
{
    spoil_all_but(STAGE_LOSS);
    spoiler.backward = true;
    cpu_backend()->cross_entropy_fused(losses, logits, targets, control, n, V, stream);
}

static void sum(double *out, const float *x, size_t n, bool accumulate, void *workspace,
                struct stream *stream)
{
    spoil_all_but(STAGE_FINAL);
    cpu_backend()->sum(out, x, n, accumulate, workspace, stream);
}

static void rmsnorm_recompute(void *out, const void *x, const void *weight, const float *rstd, int n, int C,
                              struct stream *stream)
{
    spoil_all_but(spoiler.gate_is_back ? STAGE_BACK_QKV : STAGE_BACK_GATE);
    cpu_backend()->rmsnorm_recompute(out, x, weight, rstd, n, C, stream);
}

/* The first one of a backward pass is the last norm's. */
static void rmsnorm_backward(void *dx, float *dweight, const void *dout, const void *x, const void *weight,
                             const float *rstd, void *workspace, int n, int C, struct stream *stream)
{
    bool last_norm = spoiler.rig && x == (const void *)(spoiler.rig->network.memory[PLAN_ACTIVATIONS] +
                                                        spoiler.rig->plan.x_final);
    spoil_all_but(last_norm ? STAGE_FINAL : STAGE_BACK_NORM);
    cpu_backend()->rmsnorm_backward(dx, dweight, dout, x, weight, rstd, workspace, n, C, stream);
    if (!last_norm && !spoiler.gate_is_back) spoil_all_but(STAGE_BACK_JOIN);
    spoiler.gate_is_back = !last_norm;
}

static void attention_backward(void *dqkv, const void *dout, const void *out, const float *lse,
                               const void *qkv, void *workspace, int b, int t, int NH, int NKV, int HS,
                               struct stream *stream)
{
    spoil_all_but(STAGE_BACK_ATTENTION);
    cpu_backend()->attention_backward(dqkv, dout, out, lse, qkv, workspace, b, t, NH, NKV, HS, stream);
}

static void embedding_backward(float *dweight, const void *dout, const int32_t *tokens, void *workspace,
                               int n, int V, int C, struct stream *stream)
{
    spoil_all_but(STAGE_UPDATE);
    spoiler.backward = false;
    cpu_backend()->embedding_backward(dweight, dout, tokens, workspace, n, V, C, stream);
}

static struct backend spoiling_backend(void)
{
    struct backend backend = *cpu_backend();
    backend.attention_forward = attention_forward;
    backend.rmsnorm_residual_forward = rmsnorm_residual_forward;
    backend.swiglu_forward = swiglu_forward;
    backend.cross_entropy_fused = cross_entropy_fused;
    backend.sum = sum;
    backend.rmsnorm_recompute = rmsnorm_recompute;
    backend.rmsnorm_backward = rmsnorm_backward;
    backend.attention_backward = attention_backward;
    backend.embedding_backward = embedding_backward;
    memset(&spoiler, 0, sizeof spoiler);
    return backend;
}

/* Two micro-batches: the second begins on what the first has left. */
static double two_passes(struct rig *rig, struct network_dropout dropout)
{
    int32_t tokens[N + 1];
    struct step_result result;
    network_clear(&rig->network);
    for (int pass = 0; pass < 2; pass++) {
        rig_tokens(7 + (uint64_t)pass, rig->model.config.vocab_size, tokens, N + 1);
        network_forward(&rig->network, tokens, B, T, dropout);
        network_backward(&rig->network, tokens + 1, B, T, 1.0f / N, dropout);
    }
    network_result(&rig->network, &result);
    return result.loss_sum;
}

static void expect_the_same_gradients(const struct model_config *config, int interval, float probability)
{
    struct backend backend = spoiling_backend();
    struct network_dropout dropout = {.probability = probability, .seed = 5};
    struct rig plain, spoilt;
    rig_open_interval(&plain, NULL, config, B, T, 2, interval);
    rig_open_interval(&spoilt, &backend, config, B, T, 2, interval);
    double loss = two_passes(&plain, dropout);
    spoiler.rig = &spoilt;
    assert_true(two_passes(&spoilt, dropout) == loss);
    assert_memory_equal(spoilt.network.gradients, plain.network.gradients,
                        plain.model.elements * sizeof(float));
    assert_true(spoiler.blocks > 0);
    assert_int_equal(spoiler.seen, STAGE_ALWAYS & ~(unsigned)STAGE_QKV);
    rig_close(&plain);
    rig_close(&spoilt);
}

static void what_the_plan_says_is_not_needed_may_be_spoilt_in_every_stage_of_a_step(void **state)
{
    (void)state;
    for (int variant = 0; variant < 4; variant++)
        for (int interval = 0; interval <= 2; interval++) {
            struct model_config config = rig_config();
            config.num_layers = LAYERS;
            config.qk_norm = variant & 1;
            config.qkv_bias = variant & 2;
            expect_the_same_gradients(&config, interval, variant ? 0.2f : 0.0f);
        }
}

/* The spoiling itself works: a step that loses what it needs is not the same. */
static void spoiling_what_is_needed_is_noticed(void **state)
{
    (void)state;
    struct backend backend = spoiling_backend();
    struct model_config config = rig_config();
    struct rig rig;
    rig_open_interval(&rig, &backend, &config, B, T, 2, 0);
    for (size_t i = 0; i < rig.plan.buffer_count; i++)
        if (rig.plan.buffers[i].category == PLAN_WORKSPACE && rig.plan.buffers[i].offset == rig.plan.dx)
            rig.plan.buffers[i].stages = 0;
    spoiler.rig = &rig;
    two_passes(&rig, (struct network_dropout){0});
    double norm = 0;
    for (size_t i = 0; i < rig.model.elements; i++) norm += (double)rig.network.gradients[i];
    assert_true(norm != norm);
    rig_close(&rig);
}

/* Generation: the loss and the logits of every length, with the workspace spoilt before each stage. */
static void a_forward_pass_alone_gives_the_same_loss_and_logits(void **state)
{
    (void)state;
    struct backend backend = spoiling_backend();
    struct model_config config = rig_config();
    struct rig plain, spoilt;
    float logits[2][13];
    int32_t tokens[N + 1];
    config.num_layers = LAYERS;
    config.qk_norm = true;
    rig_open(&plain, NULL, &config, B, T, 0);
    rig_open(&spoilt, &backend, &config, B, T, 0);
    spoiler.rig = &spoilt;
    rig_tokens(7, config.vocab_size, tokens, N + 1);
    for (int b = 1; b <= B; b++) {
        network_forward(&plain.network, tokens, b, T, (struct network_dropout){0});
        network_forward(&spoilt.network, tokens, b, T, (struct network_dropout){0});
        network_logits(&plain.network, b * T - 1, logits[0]);
        network_logits(&spoilt.network, b * T - 1, logits[1]);
        assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
        double loss = network_loss(&plain.network, tokens + 1, b, T);
        assert_true(network_loss(&spoilt.network, tokens + 1, b, T) == loss && loss > 0);
    }
    assert_true(spoiler.blocks > 0);
    rig_close(&plain);
    rig_close(&spoilt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_plan_says_is_not_needed_may_be_spoilt_in_every_stage_of_a_step),
        cmocka_unit_test(spoiling_what_is_needed_is_noticed),
        cmocka_unit_test(a_forward_pass_alone_gives_the_same_loss_and_logits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
