/* Frozen weights in NF4: they compute to the bit what the same values in fp32 compute, in less memory. */
#include <math.h>

#include "tests/cmocka.h"
#include "tests/core/network/rig.h"

enum { B = 2, T = 5, N = B * T };

#define PROJECTIONS "*_proj.weight"

static const enum element types[] = {ELEMENT_NF4, ELEMENT_NF4_NESTED};

static void open_stored(struct rig *rig, const struct model_config *config, int interval,
                        enum element element)
{
    struct plan_input input = {
        .B = B, .T = T, .moments = 2, .cache_slots = 1, .cache_length = T, .activation_interval = interval};
    rig_open_stored(rig, NULL, config, input, PROJECTIONS, element);
}

/* The values of a parameter, in fp32; yours. */
static float *values_of(struct rig *rig, const struct param *p)
{
    float *values = malloc(p->count * sizeof *values);
    const void *stored = (const unsigned char *)rig->network.frozen + p->offset;
    if (element_is_nf4(p->element))
        rig->backend->nf4_dequantise(values, stored, p->count, p->element == ELEMENT_NF4_NESTED,
                                     rig->network.stream);
    else
        memcpy(values, p->frozen ? stored : rig->network.weights + p->offset, p->count * sizeof *values);
    return values;
}

/* Gives the second network the values of the first one, of which the projections are drawn here. */
static void draw(struct rig *quantised, struct rig *plain)
{
    for (size_t i = 0; i < quantised->model.param_count; i++) {
        const struct param *p = &quantised->model.params[i];
        float *values = malloc(p->count * sizeof *values);
        for (size_t k = 0; k < p->count; k++) values[k] = (float)rig_uniform(i, k) - 0.5f;
        if (p->frozen && network_write_parameter(&quantised->network, p, 0, values, p->count, NULL))
            fail_msg("%s", p->name);
        free(values);
        values = values_of(quantised, p);
        if (network_write_parameter(&plain->network, &plain->model.params[i], 0, values, p->count, NULL))
            fail_msg("%s", p->name);
        free(values);
    }
}

static double train(struct rig *rig)
{
    int32_t inputs[N], targets[N];
    struct step_result result;
    rig_tokens(7, rig->model.config.vocab_size, inputs, N);
    rig_tokens(9, rig->model.config.vocab_size, targets, N);
    network_clear(&rig->network);
    rig_train(&rig->network, inputs, targets, B, T, 0.125f, (struct rig_dropout){0});
    network_result(&rig->network, &result);
    return result.loss_sum;
}

/* ‖a − b‖ / ‖b‖ */
static double distance(const float *a, const float *b, size_t n)
{
    double apart = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        apart += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(apart / size);
}

/* Matrices in NF4 are multiplied one by one, others several at once, so that sums are rounded differently: by
 * 3e-6. */
static void expect_alike(const struct model_config *config, int interval, enum element element)
{
    struct rig quantised, plain;
    open_stored(&quantised, config, interval, element);
    open_stored(&plain, config, interval, ELEMENT_FP32);
    draw(&quantised, &plain);
    double loss = train(&quantised), wanted = train(&plain);
    assert_true(fabs(loss - wanted) < 1e-6 * wanted);
    assert_int_equal(quantised.model.elements, plain.model.elements);
    assert_true(distance(quantised.network.gradients, plain.network.gradients, plain.model.elements) < 1e-5);
    rig_close(&quantised);
    rig_close(&plain);
}

TEST_CASE(loss_and_gradients_are_those_of_the_dequantised_weights)
{
    struct model_config odd = rig_config(), even = rig_config();
    even.hidden_dim = 64;
    even.head_dim = 16;
    even.intermediate_dim = 192;
    for (int i = 0; i < 2; i++)
        for (int interval = 0; interval < 2; interval++) {
            expect_alike(&odd, interval, types[i]);
            expect_alike(&even, interval, types[i]);
        }
}

/* More elements than are copied at a time. */
TEST_CASE(a_weight_that_is_written_in_pieces_is_quantised_as_a_whole)
{
    enum { C = 192, F = 3000, COUNT = C * F, PIECE = 1 << 18 };
    struct model_config config = rig_config();
    config.hidden_dim = C;
    config.intermediate_dim = F;
    float *values = malloc(COUNT * sizeof *values), *scales = malloc(nf4_blocks(COUNT) * sizeof *scales);
    uint8_t *whole = malloc(nf4_bytes(COUNT, true) + nf4_bytes(COUNT, false));
    for (int i = 0; i < 2; i++) {
        bool nested = types[i] == ELEMENT_NF4_NESTED;
        struct rig rig;
        open_stored(&rig, &config, 0, types[i]);
        const struct param *p = model_find(&rig.model, "model.layers.1.mlp.down_proj.weight");
        for (int k = 0; k < COUNT; k++) values[k] = (float)rig_uniform(3, (uint64_t)k) - 0.5f;
        nf4_quantise(whole, scales, values, COUNT);
        memcpy(whole + nf4_code_bytes(COUNT), scales, nf4_blocks(COUNT) * sizeof *scales);
        if (nested) nf4_nest(whole + nf4_code_bytes(COUNT), scales, nf4_mean(scales, COUNT), COUNT);
        for (size_t at = 0, n; at < COUNT; at += n) {
            n = COUNT - at < PIECE ? COUNT - at : PIECE;
            assert_int_equal(network_write_parameter(&rig.network, p, at, values + at, n, NULL), STATUS_OK);
        }
        assert_memory_equal((unsigned char *)rig.network.frozen + p->offset, whole, nf4_bytes(COUNT, nested));
        rig_close(&rig);
    }
    free(values), free(scales), free(whole);
}

TEST_CASE(weights_take_four_bits_and_one_buffer_serves_all_products)
{
    struct model_config config = rig_config();
    config.hidden_dim = 256;
    config.head_dim = 64;
    config.intermediate_dim = 512;
    static const double most[] = {4.6, 4.3}; /* bits a weight; the mapping of nested scales is 1 KiB each */
    for (int i = 0; i < 2; i++) {
        struct rig rig;
        open_stored(&rig, &config, 1, types[i]);
        double bits = 8.0 * (double)rig.model.frozen_bytes / (double)rig.model.frozen_parameters;
        if (bits < 4.125 || bits > most[i]) fail_msg("%g bits a weight", bits);
        assert_int_equal(rig.plan.bytes[BUFFER_DEQUANTISED], 512 * 256 * sizeof(float)); /* of one matrix */
        int places = 0;
        for (size_t k = 0; k < rig.plan.buffer_count; k++)
            places += rig.plan.buffers[k].buffer == BUFFER_DEQUANTISED;
        assert_int_equal(places, 1);
        rig_close(&rig);
    }
}

TEST_MAIN()
