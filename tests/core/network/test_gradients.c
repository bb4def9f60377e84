/* The gradients of the whole network: every element of every parameter against central differences, in double
 * precision, of a second implementation (reference_network.h). */
#include <math.h>

#include "tests/cmocka.h"
#include "tests/core/network/reference_network.h"
#include "tests/core/network/rig.h"

enum { B = 2, T = 5, N = B * T };

/* fp32 rounding of some twenty operations in a row; central differences themselves are good to 1e-9. */
#define GRADIENT_TOLERANCE 1e-5
#define LOSS_TOLERANCE     1e-6

struct batch {
    int32_t inputs[N], targets[N];
    int valid;
};

/* Every token occurs as input or target; two labels, one of them at a sequence's end, are ignored. */
static struct batch make_batch(int V)
{
    struct batch batch = {.valid = N - 2};
    rig_tokens(7, V, batch.inputs, N);
    rig_tokens(8, V, batch.targets, N);
    batch.inputs[3] = batch.inputs[7]; /* the same token in both sequences: embedding gradients add up */
    batch.targets[2] = batch.targets[N - 1] = -100;
    return batch;
}

static double *as_double(const float *values, size_t n)
{
    double *copy = malloc(n * sizeof *copy);
    assert_non_null(copy);
    for (size_t i = 0; i < n; i++) copy[i] = values[i];
    return copy;
}

/* ‖got − d loss/d w‖ ≤ tolerance · ‖d loss/d w‖ for each tensor by itself. */
static void expect_central_differences(const struct rig *rig, const struct batch *batch,
                                       struct rig_dropout dropout)
{
    const struct model *model = &rig->model;
    double *w = as_double(rig->network.weights, model->elements), h = 1e-5;
    for (size_t i = 0; i < model->param_count; i++) {
        const struct param *p = &model->params[i];
        double apart = 0, size = 0;
        for (size_t j = p->offset; j < p->offset + p->count; j++) {
            double at = w[j], got = rig->network.gradients[j];
            w[j] = at + h;
            double above = reference_loss(model, w, batch->inputs, batch->targets, B, T, dropout, NULL);
            w[j] = at - h;
            double below = reference_loss(model, w, batch->inputs, batch->targets, B, T, dropout, NULL);
            w[j] = at;
            double want = (above - below) / (2 * h) / batch->valid;
            apart += (got - want) * (got - want);
            size += want * want;
        }
        assert_true(size > 1e-12); /* a gradient that vanishes would prove nothing */
        if (!(sqrt(apart) <= GRADIENT_TOLERANCE * sqrt(size)))
            fail_msg("%s: gradient is %.3g of its size %.3g away from the central differences", p->name,
                     sqrt(apart / size), sqrt(size));
    }
    free(w);
}

static void expect_zero_gaps(const struct rig *rig)
{
    size_t used = 0;
    for (size_t i = 0; i < rig->model.param_count; i++) {
        for (size_t j = used; j < rig->model.params[i].offset; j++)
            assert_true(rig->network.gradients[j] == 0);
        used = rig->model.params[i].offset + rig->model.params[i].count;
    }
}

static double loss_sum(struct network *network)
{
    struct step_result result;
    network_result(network, &result);
    return result.loss_sum;
}

static void expect_gradients(const struct model_config *config, struct rig_dropout dropout)
{
    struct rig rig;
    rig_open(&rig, NULL, config, B, T, 2);
    struct batch batch = make_batch(config->vocab_size);
    double *w = as_double(rig.network.weights, rig.model.elements);
    rig_train(&rig.network, batch.inputs, batch.targets, B, T, 1.0f / (float)batch.valid, dropout);
    double want = reference_loss(&rig.model, w, batch.inputs, batch.targets, B, T, dropout, NULL);
    double got = loss_sum(&rig.network);
    if (!(fabs(got - want) <= LOSS_TOLERANCE * want)) fail_msg("loss %.9g, reference %.9g", got, want);
    expect_central_differences(&rig, &batch, dropout);
    expect_zero_gaps(&rig);
    free(w);
    rig_close(&rig);
}

static const struct rig_dropout none = {0}, some = {.probability = 0.3f, .seed = 0x123456789, .step = 3};

TEST_CASE(llama_with_grouped_heads)
{
    struct model_config config = rig_config();
    expect_gradients(&config, none);
}

TEST_CASE(llama_with_tied_weights)
{
    struct model_config config = rig_config();
    config.tie_weights = true;
    expect_gradients(&config, none);
}

TEST_CASE(llama_with_as_many_kv_heads)
{
    struct model_config config = rig_config();
    config.num_kv_heads = 4;
    expect_gradients(&config, none);
}

TEST_CASE(llama_with_one_kv_head_and_one_layer)
{
    struct model_config config = rig_config();
    config.num_kv_heads = 1;
    config.num_layers = 1;
    expect_gradients(&config, none);
}

TEST_CASE(qwen2_with_biases)
{
    struct model_config config = rig_config();
    config.qkv_bias = true;
    expect_gradients(&config, none);
}

TEST_CASE(qwen3_with_normed_heads)
{
    struct model_config config = rig_config();
    config.qk_norm = true;
    config.head_dim = 6;
    expect_gradients(&config, none);
}

TEST_CASE(llama_with_biases_of_attention)
{
    struct model_config config = rig_config();
    config.qkv_bias = config.o_bias = true;
    expect_gradients(&config, none);
}

TEST_CASE(llama_with_all_biases)
{
    struct model_config config = rig_config();
    config.qkv_bias = config.o_bias = config.mlp_bias = true;
    expect_gradients(&config, none);
    expect_gradients(&config, some);
}

TEST_CASE(mistral_with_a_window)
{
    struct model_config config = rig_config();
    config.sliding_window = 3;
    expect_gradients(&config, none);
}

TEST_CASE(qwen3_with_a_window_in_one_layer_and_biases)
{
    struct model_config config = rig_config();
    config.qk_norm = config.qkv_bias = config.o_bias = true;
    config.sliding_window = 2;
    strcpy(config.full_attention_layers, "0");
    expect_gradients(&config, some);
}

TEST_CASE(everything_at_once_with_dropout)
{
    struct model_config config = rig_config();
    config.qk_norm = config.qkv_bias = config.tie_weights = true;
    expect_gradients(&config, some);
}

TEST_CASE(dropout_at_every_site)
{
    struct model_config config = rig_config();
    expect_gradients(&config, some);
}

TEST_CASE(dropout_differs_between_steps_and_micro_batches)
{
    struct model_config config = rig_config();
    struct rig rig;
    struct rig_dropout step = some, micro_batch = some;
    step.step++;
    micro_batch.micro_batch++;
    rig_open(&rig, NULL, &config, B, T, 2);
    struct batch batch = make_batch(config.vocab_size);
    double losses[3];
    const struct rig_dropout *cases[3] = {&some, &step, &micro_batch};
    for (int i = 0; i < 3; i++) {
        network_clear(&rig.network);
        rig_train(&rig.network, batch.inputs, batch.targets, B, T, 1, *cases[i]);
        losses[i] = loss_sum(&rig.network);
        double *w = as_double(rig.network.weights, rig.model.elements);
        double want = reference_loss(&rig.model, w, batch.inputs, batch.targets, B, T, *cases[i], NULL);
        assert_true(fabs(losses[i] - want) <= LOSS_TOLERANCE * want);
        free(w);
    }
    assert_true(losses[0] != losses[1] && losses[0] != losses[2] && losses[1] != losses[2]);
    rig_close(&rig);
}

/* The mean is over all valid tokens of the step, never a mean of means: the two halves have different counts
 * of valid labels. */
TEST_CASE(two_micro_batches_add_up_to_the_large_one)
{
    struct model_config config = rig_config();
    struct rig rig;
    rig_open(&rig, NULL, &config, B, T, 2);
    struct batch batch = make_batch(config.vocab_size);
    size_t n = rig.model.elements;
    float *g = rig.network.gradients, scale = 1.0f / (float)batch.valid;
    batch.targets[0] = -100;
    rig_train(&rig.network, batch.inputs, batch.targets, B, T, scale, none);
    double loss = loss_sum(&rig.network), *whole = as_double(g, n), apart = 0, size = 0;
    network_clear(&rig.network);
    for (int i = 0; i < B; i++) {
        rig_train(&rig.network, batch.inputs + i * T, batch.targets + i * T, 1, T, scale, none);
    }
    for (size_t i = 0; i < n; i++) {
        apart += (g[i] - whole[i]) * (g[i] - whole[i]);
        size += whole[i] * whole[i];
    }
    assert_true(sqrt(apart) <= 1e-6 * sqrt(size));
    assert_true(fabs(loss - loss_sum(&rig.network)) <= 1e-6 * loss);
    free(whole);
    rig_close(&rig);
}

static size_t cleared; /* bytes */

static void counting_zero(void *memory, size_t bytes, struct stream *stream)
{
    cleared += bytes;
    cpu_backend()->mem_zero(memory, bytes, stream);
}

/* Matrices are overwritten by the first micro-batch; only the rest is cleared. */
static void expect_replaced(const struct model_config *config)
{
    struct backend backend = *cpu_backend();
    struct rig rig;
    rig_open(&rig, NULL, config, B, T, 2);
    struct network *net = &rig.network;
    const struct model *model = &rig.model;
    struct batch batch = make_batch(config->vocab_size);
    size_t n = model->elements, others = 0;
    float *before = malloc(n * sizeof *before);
    network_clear(net);
    rig_train(net, batch.inputs, batch.targets, B, T, 1, none);
    memcpy(before, net->gradients, n * sizeof *before);
    for (size_t i = 0; i < n; i++) net->gradients[i] = NAN;
    backend.mem_zero = counting_zero;
    net->table = &backend;
    cleared = 0;
    network_clear(net);
    net->table = net->backend;
    rig_train(net, batch.inputs, batch.targets, B, T, 1, none);
    for (size_t i = 0; i < model->param_count; i++) {
        const struct param *p = &model->params[i];
        assert_memory_equal(net->gradients + p->offset, before + p->offset, p->count * sizeof *before);
        if (p->cols == 0 || (p == model->embed && !config->tie_weights)) others += p->count;
    }
    assert_in_range(cleared, others * sizeof *before, (others + 64 * model->param_count) * sizeof *before);
    free(before);
    rig_close(&rig);
}

TEST_CASE(a_step_replaces_the_gradients_of_the_last_one)
{
    struct model_config config = rig_config();
    config.qk_norm = config.qkv_bias = true;
    expect_replaced(&config);
    config.tie_weights = true;
    expect_replaced(&config);
}

TEST_CASE(logits_match_the_reference_at_every_position)
{
    struct model_config config = rig_config();
    struct rig rig;
    rig_open(&rig, NULL, &config, B, T, 2);
    struct batch batch = make_batch(config.vocab_size);
    int V = config.vocab_size;
    double *w = as_double(rig.network.weights, rig.model.elements), apart = 0, size = 0;
    double *want = malloc((size_t)(N * V) * sizeof *want);
    float *got = malloc((size_t)V * sizeof *got);
    reference_loss(&rig.model, w, batch.inputs, batch.targets, B, T, none, want);
    network_forward(&rig.network, (struct batch_view){.inputs = batch.inputs, .B = B, .T = T});
    for (int row = 0; row < N; row++) {
        network_logits(&rig.network, row, 1, got);
        for (int v = 0; v < V; v++) {
            apart += pow(got[v] - want[row * V + v], 2);
            size += pow(want[row * V + v], 2);
        }
    }
    assert_true(sqrt(apart) <= 2e-6 * sqrt(size));
    free(got);
    free(want);
    free(w);
    rig_close(&rig);
}

/* Nothing of a larger batch may leak into a smaller one that follows it in the same buffers. */
TEST_CASE(a_short_sequence_after_a_long_one_is_as_if_alone)
{
    struct model_config config = rig_config();
    struct rig rig;
    rig_open(&rig, NULL, &config, B, T, 2);
    struct batch batch = make_batch(config.vocab_size);
    double *w = as_double(rig.network.weights, rig.model.elements);
    network_forward(&rig.network, (struct batch_view){.inputs = batch.inputs, .B = B, .T = T});
    network_loss(&rig.network, (struct batch_view){.labels = batch.targets, .B = B, .T = T});
    for (int t = 1; t < T; t++) {
        network_forward(&rig.network, (struct batch_view){.inputs = batch.inputs, .B = 1, .T = t});
        double got = network_loss(&rig.network, (struct batch_view){.labels = batch.targets, .B = 1, .T = t});
        double want = reference_loss(&rig.model, w, batch.inputs, batch.targets, 1, t, none, NULL);
        assert_true(fabs(got - want) <= LOSS_TOLERANCE * want);
    }
    free(w);
    rig_close(&rig);
}

TEST_MAIN()
