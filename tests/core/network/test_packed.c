/* Sequences that are packed into rows: loss and gradients are those of the sequences one by one. */
#include <math.h>

#include "tests/cmocka.h"
#include "tests/core/network/rig.h"

enum { B = 2, T = 12, N = B * T };

/* Two rows: sequences of 5, 1 and 4 tokens and a rest of 2 without labels, and one of 3 and one of 9. */
static const int lengths[] = {5, 1, 4, 2, 3, 9};
static const bool counts[] = {true, true, true, false, true, true};
enum { SEQUENCES = sizeof lengths / sizeof *lengths };

struct rows {
    int32_t inputs[N], labels[N], positions[N];
};

static struct rows make_rows(int V)
{
    struct rows r;
    rig_tokens(7, V, r.inputs, N);
    rig_tokens(8, V, r.labels, N);
    r.labels[3] = -100; /* within a sequence */
    for (int i = 0, at = 0; i < SEQUENCES; i++)
        for (int t = 0; t < lengths[i]; t++, at++) {
            r.positions[at] = t;
            if (!counts[i]) r.labels[at] = -100;
        }
    return r;
}

static void open_rig(struct rig *rig, const struct model_config *config, int interval)
{
    struct plan_input input = {.B = B, .T = T, .packed = true, .moments = 2, .activation_interval = interval};
    rig_open_input(rig, NULL, config, input, "");
}

static double loss_sum(struct network *network)
{
    struct step_result result;
    network_result(network, &result);
    return result.loss_sum;
}

static void train(struct rig *rig, struct batch_view batch)
{
    network_train(&rig->network, batch, 0, (struct step_control){.loss_scale = 0.125f});
}

/* ‖a − b‖ ≤ 1e-5 ‖b‖ of every parameter's gradient. */
static void expect_same_gradients(const struct model *model, const float *a, const float *b)
{
    for (size_t i = 0; i < model->param_count; i++) {
        const struct param *p = &model->params[i];
        double apart = 0, size = 0;
        for (size_t j = p->offset; j < p->offset + p->count; j++) {
            apart += pow((double)a[j] - (double)b[j], 2);
            size += pow((double)b[j], 2);
        }
        assert_true(size > 1e-12);
        if (!(sqrt(apart) <= 1e-5 * sqrt(size)))
            fail_msg("%s: packed is %.3g of its size away from one by one", p->name, sqrt(apart / size));
    }
}

static void expect_packed_is_one_by_one(const struct model_config *config, int interval)
{
    struct rig packed, single;
    open_rig(&packed, config, interval);
    open_rig(&single, config, interval);
    struct rows r = make_rows(config->vocab_size);
    struct batch_view all = {r.inputs, r.labels, r.positions, B, T};
    network_clear(&packed.network);
    train(&packed, all);
    network_clear(&single.network);
    for (int i = 0, at = 0; i < SEQUENCES; at += lengths[i++])
        train(&single, (struct batch_view){r.inputs + at, r.labels + at, NULL, 1, lengths[i]});
    double want = loss_sum(&single.network), got = loss_sum(&packed.network);
    if (!(fabs(got - want) <= 1e-6 * want)) fail_msg("loss %.9g packed, %.9g one by one", got, want);
    expect_same_gradients(&packed.model, packed.network.gradients, single.network.gradients);
    network_forward(&packed.network, all);
    double evaluated = network_loss(&packed.network, all);
    assert_true(fabs(evaluated - want) <= 1e-6 * want);
    network_forward(&packed.network, (struct batch_view){r.inputs, r.labels, NULL, B, T});
    assert_true(fabs(network_loss(&packed.network, all) - want) > 1e-3 * want);
    rig_close(&packed);
    rig_close(&single);
}

TEST_CASE(packed_sequences_train_as_one_by_one)
{
    struct model_config config = rig_config();
    expect_packed_is_one_by_one(&config, 0);
}

TEST_CASE(with_recomputed_activations_too)
{
    struct model_config config = rig_config();
    expect_packed_is_one_by_one(&config, 1);
}

TEST_CASE(with_normed_heads_too)
{
    struct model_config config = rig_config();
    config.qk_norm = true;
    expect_packed_is_one_by_one(&config, 0);
    expect_packed_is_one_by_one(&config, 2);
}

TEST_CASE(with_biases_and_tied_weights_too)
{
    struct model_config config = rig_config();
    config.qkv_bias = config.tie_weights = true;
    expect_packed_is_one_by_one(&config, 0);
}

TEST_CASE(with_a_window_too)
{
    struct model_config config = rig_config();
    config.sliding_window = 3;
    expect_packed_is_one_by_one(&config, 0);
}

TEST_MAIN()
