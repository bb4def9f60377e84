/* Activation checkpointing: layers that save only their inputs give the same gradients, to the bit, and use
 * as much less memory as planned. */
#include "tests/cmocka.h"
#include "tests/core/network/rig.h"

enum { B = 2, T = 7, N = B * T, LAYERS = 5 };

struct trial {
    struct model model;
    struct plan plan;
    struct device *device;
    struct network network;
    double loss;
};

/* One forward and backward pass of the same weights and tokens. */
static void trial_run(struct trial *t, const struct model_config *config, int interval, float dropout)
{
    struct err err = {0};
    int32_t inputs[N], targets[N];
    const struct backend *backend = cpu_backend();
    struct plan_input input = {
        .model = &t->model, .B = B, .T = T, .moments = 1, .activation_interval = interval};
    assert_int_equal(model_init(&t->model, config, &err), STATUS_OK);
    assert_int_equal(backend->device_open(DEVICE_FIRST, 2, &t->device, &err), STATUS_OK);
    assert_int_equal(plan_init(&t->plan, &input, &err), STATUS_OK);
    assert_int_equal(network_open(&t->network, backend, t->device, &t->model, &t->plan, &err), STATUS_OK);
    rig_weights(&t->model, 3, t->network.weights);
    rig_tokens(1, config->vocab_size, inputs, N);
    rig_tokens(2, config->vocab_size, targets, N);
    struct rig_dropout masks = {dropout, 9, 4, 1};
    rig_train(&t->network, inputs, targets, B, T, 1.0f / N, masks);
    struct step_result result;
    network_result(&t->network, &result);
    t->loss = result.loss_sum;
}

static void trial_end(struct trial *t)
{
    network_close(&t->network);
    cpu_backend()->device_close(t->device);
    plan_release(&t->plan);
    model_release(&t->model);
}

TEST_CASE(gradients_are_the_same_to_the_bit)
{
    for (int variant = 0; variant < 4; variant++) {
        struct model_config config = rig_config();
        struct trial plain, again;
        config.num_layers = LAYERS;
        config.qk_norm = variant & 1;
        config.qkv_bias = variant & 2;
        trial_run(&plain, &config, 0, variant ? 0.2f : 0.0f);
        for (int interval = 1; interval <= LAYERS + 1; interval++) {
            trial_run(&again, &config, interval, variant ? 0.2f : 0.0f);
            assert_true(again.loss == plain.loss);
            assert_memory_equal(again.network.gradients, plain.network.gradients,
                                plain.model.elements * sizeof(float));
            trial_end(&again);
        }
        trial_end(&plain);
    }
}

/* Bytes of activations that belong to one layer, of all layers. */
static size_t layer_bytes(const struct plan *plan)
{
    size_t bytes = 0;
    for (size_t i = 0; i < plan->buffer_count; i++)
        if (plan->buffers[i].category == PLAN_ACTIVATIONS && plan->buffers[i].layer >= 0)
            bytes += plan->buffers[i].bytes;
    return bytes;
}

TEST_CASE(a_layer_that_saves_its_input_alone_saves_ten_times_less)
{
    for (int i = 0; i < PRESETS; i++) {
        struct model_config config = model_preset((enum preset)i);
        struct model model;
        struct plan plain, half, all;
        assert_int_equal(model_init(&model, &config, NULL), STATUS_OK);
        struct plan_input input = {.model = &model, .B = 8, .T = 256, .moments = 2};
        assert_int_equal(plan_init(&plain, &input, NULL), STATUS_OK);
        input.activation_interval = 2;
        assert_int_equal(plan_init(&half, &input, NULL), STATUS_OK);
        input.activation_interval = 1;
        assert_int_equal(plan_init(&all, &input, NULL), STATUS_OK);
        assert_true(layer_bytes(&plain) >= 10 * layer_bytes(&all));
        assert_int_equal(layer_bytes(&plain) + layer_bytes(&all), 2 * layer_bytes(&half));
        assert_true(all.total_bytes < half.total_bytes && half.total_bytes < plain.total_bytes);
        plan_release(&plain);
        plan_release(&half);
        plan_release(&all);
        model_release(&model);
    }
}

TEST_MAIN()
