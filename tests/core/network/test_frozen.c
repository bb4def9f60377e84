/* Frozen parameters: the trained ones have the same gradients as without freezing, and the frozen ones have
 * no gradients, no moments and no products for them. */
#include <math.h>

#include "core/train/optimizer.h"
#include "tests/cmocka.h"
#include "tests/core/network/rig.h"

enum { B = 2, T = 5, N = B * T };

/* fp32 sums in another order, where a packed product is cut into two. */
#define TOLERANCE 1e-5

/* ---- what a backward pass calls ---- */

static struct {
    int weight_products, attention, norms, embeddings;
} calls;

static void counting_gemm(struct matrix out, struct matrix a, struct matrix b, int M, int n, int K, bool ta,
                          bool tb, bool accumulate, float factor, struct stream *stream)
{
    calls.weight_products += ta; /* doutᵀ x */
    cpu_backend()->gemm(out, a, b, M, n, K, ta, tb, accumulate, factor, stream);
}

static void counting_attention(void *dqkv, const void *dout, const void *out, const float *lse,
                               const void *qkv, const int32_t *positions, const float *cos_sin,
                               void *workspace, int b, int t, int NH, int NKV, int HS, int window,
                               struct stream *stream)
{
    calls.attention++;
    cpu_backend()->attention_backward(dqkv, dout, out, lse, qkv, positions, cos_sin, workspace, b, t, NH, NKV,
                                      HS, window, stream);
}

static void counting_norm(void *dx, float *dweight, void *norm, const void *dout, const void *x,
                          const void *weight, const float *rstd, void *workspace, int rows, int C,
                          struct stream *stream)
{
    calls.norms++;
    cpu_backend()->rmsnorm_backward(dx, dweight, norm, dout, x, weight, rstd, workspace, rows, C, stream);
}

static void counting_embedding(float *dweight, const void *dout, const int32_t *tokens, void *workspace,
                               int rows, int V, int C, struct stream *stream)
{
    calls.embeddings++;
    cpu_backend()->embedding_backward(dweight, dout, tokens, workspace, rows, V, C, stream);
}

static struct backend counting_backend(void)
{
    struct backend backend = *cpu_backend();
    backend.gemm = counting_gemm;
    backend.attention_backward = counting_attention;
    backend.rmsnorm_backward = counting_norm;
    backend.embedding_backward = counting_embedding;
    return backend;
}

/* ---- one network with everything trainable, and the same with something frozen ---- */

struct pair {
    struct backend backend;
    struct rig whole, part;
};

static void open_pair(struct pair *pair, const struct model_config *config, int interval, const char *frozen)
{
    pair->backend = counting_backend();
    rig_open_interval(&pair->whole, NULL, config, B, T, 2, interval);
    rig_open_frozen(&pair->part, &pair->backend, config, B, T, 2, interval, frozen);
    for (size_t i = 0; i < pair->whole.model.param_count; i++) {
        const struct param *p = &pair->whole.model.params[i];
        float *values = malloc(p->count * sizeof *values);
        assert_non_null(values);
        memcpy(values, pair->whole.network.weights + p->offset, p->count * sizeof *values);
        assert_int_equal(network_write_parameter(&pair->part.network, &pair->part.model.params[i], 0, values,
                                                 p->count, NULL),
                         STATUS_OK);
        free(values);
    }
}

static void close_pair(struct pair *pair)
{
    rig_close(&pair->whole);
    rig_close(&pair->part);
}

static struct step_result run(struct rig *rig, struct rig_dropout dropout)
{
    int32_t inputs[N], targets[N];
    struct step_result result;
    network_clear(&rig->network);
    for (uint32_t micro = 0; micro < 2; micro++) {
        rig_tokens(7 + micro, rig->model.config.vocab_size, inputs, N);
        rig_tokens(9 + micro, rig->model.config.vocab_size, targets, N);
        dropout.micro_batch = micro;
        rig_train(&rig->network, inputs, targets, B, T, 0.125f, dropout);
    }
    network_result(&rig->network, &result);
    return result;
}

static void expect_close(const char *name, const float *got, const float *want, size_t n)
{
    double apart = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        apart += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
        size += (double)want[i] * want[i];
    }
    if (!(sqrt(apart) <= TOLERANCE * sqrt(size)))
        fail_msg("%s: %g apart of %g", name, sqrt(apart), sqrt(size));
}

/* Gradients, and after an update without clipping the weights, of what is trained. */
static void expect_like_the_whole(struct pair *pair, struct rig_dropout dropout)
{
    struct model *model = &pair->part.model;
    struct rig *both[] = {&pair->whole, &pair->part};
    struct step_result result[2];
    double squares = 0;
    size_t frozen_bytes = model->frozen_bytes;
    float *before = malloc(frozen_bytes + 1);
    assert_non_null(before);
    memcpy(before, pair->part.network.frozen ? pair->part.network.frozen : "", frozen_bytes);
    memset(&calls, 0, sizeof calls);
    for (int i = 0; i < 2; i++) result[i] = run(both[i], dropout);
    assert_true(fabs(result[0].loss_sum - result[1].loss_sum) <= 1e-6 * result[0].loss_sum);
    for (size_t i = 0; i < model->param_count; i++) {
        const struct param *p = &model->params[i], *q = &pair->whole.model.params[i];
        assert_string_equal(p->name, q->name);
        if (p->frozen) continue;
        expect_close(p->name, pair->part.network.gradients + p->offset,
                     pair->whole.network.gradients + q->offset, p->count);
        for (size_t k = 0; k < p->count; k++)
            squares += pow((double)pair->part.network.gradients[p->offset + k], 2);
    }
    for (int i = 0; i < 2; i++) {
        struct optimizer lion = {
            .kind = OPTIMIZER_LION, .beta1 = 0.9, .beta2 = 0.99, .defaults.weight_decay = 0.1};
        assert_int_equal(optimizer_lay_ranges(&lion, &both[i]->network, NULL, NULL), STATUS_OK);
        network_control(&both[i]->network, (struct step_control){.lr = 0.01f});
        optimizer_step(&lion, &both[i]->network);
        network_result(&both[i]->network, &result[i]);
    }
    assert_true(fabs((double)result[1].clip.norm - sqrt(squares)) <= 1e-5 * sqrt(squares));
    for (size_t i = 0; i < model->param_count; i++) {
        const struct param *p = &model->params[i], *q = &pair->whole.model.params[i];
        if (!p->frozen)
            expect_close(p->name, pair->part.network.weights + p->offset,
                         pair->whole.network.weights + q->offset, p->count);
    }
    if (frozen_bytes) assert_memory_equal(before, pair->part.network.frozen, frozen_bytes);
    free(before);
}

/* Every projection, in part and whole, alone and with its neighbours; norms, biases, first and last tensors;
 * only the top left trainable. */
static const char *const patterns[] = {
    "",
    "*embed*",
    "*layers.0.*",
    "*embed* *layers.0.*",
    "*q_proj*",
    "*k_proj*",
    "*v_proj*",
    "*[kv]_proj*",
    "*[qkv]_proj.weight",
    "*q_proj.bias *v_proj.weight",
    "*o_proj*",
    "*o_proj.bias *up_proj.weight",
    "*gate_proj.bias *down_proj.weight",
    "*embed* *layers.*.weight",
    "*gate_proj*",
    "*up_proj*",
    "*gate_proj* *up_proj*",
    "*down_proj*",
    "*norm*",
    "*q_norm*",
    "*k_norm* *input_layernorm*",
    "*bias",
    "*_proj.*",
    "*embed* *layers.0.* *layers.1.*norm*",
    "*embed* *layers.0.* *layers.1.self_attn* *layers.1.input*",
    "*embed* *layers.0.* *layers.1.*[qkv]_proj* *layers.1.input*",
    "*embed* *layers.0.* *layers.1.self_attn* *layers.1.*norm* *gate* *up_*",
    "*embed* *layers.*",
    "*embed* *lm_head* *layers.0.*",
    "*embed* *norm* *layers.*"};

TEST_CASE(whatever_is_frozen_the_rest_is_trained_as_ever)
{
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        for (int form = 0; form < 6; form++) { /* the last two: a Llama with all biases */
            struct model_config config = rig_config();
            struct rig_dropout dropout = {.probability = form & 1 ? 0.3f : 0, .seed = 5, .step = 3};
            struct pair pair;
            config.qkv_bias = config.o_bias = true;
            config.qk_norm = form < 4;
            config.mlp_bias = form >= 4;
            config.tie_weights = form & 1 && !strstr(patterns[i], "*norm* *layers");
            open_pair(&pair, &config, form / 2 % 2, patterns[i]);
            expect_like_the_whole(&pair, dropout);
            close_pair(&pair);
        }
}

/* ---- what it costs ---- */

TEST_CASE(what_is_frozen_has_no_gradient_and_no_moments)
{
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        struct model_config config = rig_config();
        struct rig whole, rig;
        size_t trained = 0, frozen = 0;
        config.qk_norm = config.qkv_bias = config.o_bias = true;
        rig_open(&whole, NULL, &config, B, T, 2);
        rig_open_frozen(&rig, NULL, &config, B, T, 2, 0, patterns[i]);
        const struct model *model = &rig.model;
        const size_t *bytes = rig.plan.category_bytes;
        for (size_t k = 0; k < model->param_count; k++)
            *(model->params[k].frozen ? &frozen : &trained) += model->params[k].count;
        assert_int_equal(frozen, model->frozen_parameters);
        assert_int_equal(trained + frozen, model->parameters);
        assert_in_range(model->elements, trained, trained + 64 * model->param_count);
        assert_in_range(model->frozen_bytes, 4 * frozen, 4 * (frozen + 64 * model->param_count));
        assert_int_equal(bytes[PLAN_WEIGHTS], model->elements * 4);
        assert_int_equal(bytes[PLAN_GRADIENTS], model->elements * 4);
        assert_int_equal(bytes[PLAN_MOMENTS], model->elements * 8);
        assert_int_equal(bytes[PLAN_FROZEN], model->frozen_bytes);
        assert_int_equal(plan_has_category(&rig.plan, PLAN_FROZEN), *patterns[i] != '\0');
        if (frozen > 256) assert_true(rig.plan.total_bytes < whole.plan.total_bytes);
        rig_close(&whole), rig_close(&rig);
    }
}

TEST_CASE(in_bf16_what_is_frozen_has_no_master_copy)
{
    struct model_config config = rig_config();
    struct plan_input input = {.B = B, .T = T, .moments = 2, .precision = PRECISION_BF16, .snapshot = 3};
    struct model model = {0};
    struct rig rig;
    struct plan plan;
    rig_open_frozen(&rig, NULL, &config, B, T, 2, 0, "*layers.0.*");
    size_t wide = rig.model.frozen_bytes;
    rig_close(&rig);
    assert_int_equal(model_init(&model, &config, NULL), STATUS_OK);
    rig_freeze(&model, "*layers.0.*", ELEMENT_BF16);
    input.model = &model;
    assert_int_equal(plan_init(&plan, &input, NULL), STATUS_OK);
    size_t mine = model.elements, frozen = model.frozen_bytes;
    assert_in_range(frozen, wide / 2, wide * 3 / 4);
    assert_in_range(plan.category_bytes[PLAN_WEIGHTS], mine * 6, mine * 6 + 512);
    assert_int_equal(plan.category_bytes[PLAN_FROZEN], frozen);
    assert_in_range(plan.category_bytes[PLAN_SNAPSHOT], mine * 12 + frozen, mine * 12 + frozen + 1024);
    plan_release(&plan);
    model_release(&model);
}

static void expect_calls(const char *frozen, int weight_products, int attention, int norms, int embeddings)
{
    struct model_config config = rig_config();
    struct pair pair;
    open_pair(&pair, &config, 0, frozen);
    memset(&calls, 0, sizeof calls);
    run(&pair.part, (struct rig_dropout){0});
    /* two micro-batches, each with two layers of four projections, and the head */
    if (calls.weight_products != 2 * weight_products || calls.attention != 2 * attention ||
        calls.norms != 2 * norms || calls.embeddings != 2 * embeddings)
        fail_msg("%s: %d products with weights' gradients, %d attention, %d norms, %d embeddings", frozen,
                 calls.weight_products / 2, calls.attention / 2, calls.norms / 2, calls.embeddings / 2);
    close_pair(&pair);
}

TEST_CASE(nothing_is_computed_that_nobody_needs)
{
    expect_calls("", 9, 2, 5, 1);
    expect_calls("*embed*", 9, 2, 5, 0);
    expect_calls("*q_proj*", 9, 2, 5, 1);  /* k and v are one product */
    expect_calls("*k_proj*", 11, 2, 5, 1); /* q and v are two */
    expect_calls("*[qkv]_proj*", 7, 2, 5, 1);
    expect_calls("*layers.0.*", 5, 2, 5, 1);
    expect_calls("*embed* *layers.0.*", 5, 1, 3, 0);
    expect_calls("*embed* *layers.0.* *layers.1.input*", 5, 1, 2, 0);
    expect_calls("*embed* *layers.0.* *layers.1.input* *layers.1.*[qkv]_proj*", 4, 0, 2, 0);
    expect_calls("*embed* *layers.*", 1, 0, 1, 0);
    expect_calls("*embed* *layers.* *norm*", 1, 0, 0, 0);
    expect_calls("*embed* *layers.* lm_head*", 0, 0, 1, 0);
}

TEST_MAIN()
