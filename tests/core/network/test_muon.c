/* Muon: singular values of its updates, memory of its moments, and the matrices that it takes. That its steps
 * are those of PyTorch is in test_network.c. */
#include <math.h>

#include "core/network/muon.h"
#include "core/train/optimizer.h"
#include "tests/cmocka.h"
#include "tests/core/network/rig.h"

struct trial {
    struct config config;
    struct device *device;
    struct model model;
    struct plan plan;
    struct network network;
};

static void trial_open(struct trial *t, int rank, int ranks, const char *const words[])
{
    struct err err = {0};
    struct model_config sizes = rig_config();
    const struct storage storage = {.computed = ELEMENT_FP32};
    *t = (struct trial){0};
    config_init(&t->config);
    t->config.train.optimizer = OPTIMIZER_MUON;
    for (; *words; words++)
        if (config_read_word(&t->config, *words, &err)) fail_msg("%s", err.text);
    if (model_init(&t->model, &sizes, &err) ||
        param_groups_freeze(&t->config.groups, OPTIMIZER_MUON, &t->model, &storage, &err))
        fail_msg("%s", err.text);
    struct plan_input input = {
        .model = &t->model, .B = 2, .T = 4, .moments = 2, .rank = rank, .ranks = ranks, .shard = ranks > 1};
    assert_int_equal(cpu_backend()->device_open(DEVICE_FIRST, 1, &t->device, &err), STATUS_OK);
    if (plan_init(&t->plan, &input, &err) ||
        network_open(&t->network, cpu_backend(), t->device, &t->model, &t->plan, &err))
        fail_msg("%s", err.text);
    rig_weights(&t->model, 1, network_at(&t->network, BUFFER_WEIGHTS, 0));
}

static void trial_close(struct trial *t)
{
    network_close(&t->network);
    plan_release(&t->plan);
    model_release(&t->model);
    cpu_backend()->device_close(t->device);
}

#define OPEN(trial, ...) trial_open(trial, 0, 1, (const char *const[]){__VA_ARGS__, NULL})

/* One update at the rate 1 from the gradients of the arena. */
static void step(struct trial *t)
{
    struct optimizer optimizer = optimizer_of(&t->config);
    struct err err = {0};
    optimizer.max_grad_norm = 0;
    if (optimizer_lay_ranges(&optimizer, &t->network, NULL, &err)) fail_msg("%s", err.text);
    network_control(&t->network, (struct step_control){.lr = 1});
    optimizer_step(&optimizer, &t->network);
}

/* The same; `before` (elements) gets the weights before it. */
static void update(struct trial *t, float *before)
{
    memcpy(before, t->network.weights, t->model.elements * sizeof *before);
    step(t);
}

/* How far the singular values of the changes of all orthogonal matrices, divided by their scale, are from 1:
 * the largest element of x xᵀ − I, or of xᵀ x − I where that is the smaller product. */
static double distance_from_orthogonal(const struct trial *t, const float *before)
{
    double most = 0;
    for (size_t i = 0; i < t->model.param_count; i++) {
        const struct param *p = &t->model.params[i];
        if (!p->orthogonal) continue;
        bool tall = p->rows > p->cols;
        int side = tall ? p->cols : p->rows, other = tall ? p->rows : p->cols;
        double scale = 0.2 * sqrt(p->rows > p->cols ? p->rows : p->cols);
        for (int a = 0; a < side; a++)
            for (int b = 0; b < side; b++) {
                double sum = a == b ? -1 : 0;
                for (int k = 0; k < other; k++) {
                    size_t x = p->offset + (size_t)(tall ? k * p->cols + a : a * p->cols + k),
                           y = p->offset + (size_t)(tall ? k * p->cols + b : b * p->cols + k);
                    sum += (double)(t->network.weights[x] - before[x]) *
                           (double)(t->network.weights[y] - before[y]) / (scale * scale);
                }
                if (fabs(sum) > most) most = fabs(sum);
            }
    }
    return most;
}

static double distance_after_an_update(const char *coefficients, const char *iterations, double size)
{
    struct trial t;
    OPEN(&t, "train.weight_decay=0", coefficients, iterations);
    float *before = malloc(t.model.elements * sizeof *before);
    for (size_t i = 0; i < t.model.elements; i++)
        t.network.gradients[i] = (float)(size * (rig_uniform(7, i) - 0.5));
    update(&t, before);
    double distance = distance_from_orthogonal(&t, before);
    free(before);
    trial_close(&t);
    return distance;
}

TEST_CASE(updates_have_singular_values_near_one_whatever_the_size_of_the_gradient)
{
    for (int i = 0; i < 3; i++) {
        const double size = (const double[]){1, 1e-4, 1e12}[i];
        double quintic = distance_after_an_update("muon.coefficients=quintic", "muon.iterations=5", size),
               polar = distance_after_an_update("muon.coefficients=polar_express", "muon.iterations=5", size),
               longest =
                   distance_after_an_update("muon.coefficients=polar_express", "muon.iterations=8", size);
        if (!(quintic < 0.7 && polar < 0.4 && longest < 1e-5))
            fail_msg("size %g: %.3g, %.3g, %.3g from orthogonal", size, quintic, polar, longest);
    }
}

/* The polynomials of algorithm 1 in Amsel et al., "The Polar Express", 2025, for five iterations. They change
 * the singular values alone, and those of a matrix that is zero beside its diagonal are the diagonal. */
TEST_CASE(polar_express_is_the_published_one)
{
    static const double published[5][3] = {{8.28721201814563, -23.595886519098837, 17.300387312530933},
                                           {4.107059111542203, -2.9478499167379106, 0.5448431082926601},
                                           {3.9486908534822946, -2.908902115962949, 0.5518191394370137},
                                           {3.3184196573706015, -2.488488024314874, 0.51004894012372},
                                           {2.300652019954817, -1.6689039845747493, 0.4188073119525673}};
    struct trial t;
    OPEN(&t, "train.weight_decay=0", "muon.coefficients=polar_express", "muon.iterations=5");
    const struct param *p = t.model.layers[0].o.parts; /* (10,16) */
    float *before = malloc(t.model.elements * sizeof *before);
    double norm = 0;
    memset(t.network.gradients, 0, t.model.elements * sizeof *before);
    for (int i = 0; i < p->rows; i++) {
        double value = pow(0.5, i);
        t.network.gradients[p->offset + (size_t)(i * p->cols + i)] = (float)value;
        norm += value * value;
    }
    update(&t, before);
    for (int i = 0; i < p->rows; i++) {
        double x = pow(0.5, i) / sqrt(norm);
        for (int k = 0; k < 5; k++) {
            double y = x / 1.01; /* the published safety factor */
            x = published[k][0] * y + published[k][1] * pow(y, 3) + published[k][2] * pow(y, 5);
        }
        for (int j = 0; j < p->cols; j++) {
            size_t at = p->offset + (size_t)(i * p->cols + j);
            double got = (double)(t.network.weights[at] - before[at]) / (-0.2 * sqrt(p->cols));
            if (!(fabs(got - (i == j ? x : 0)) < 1e-5))
                fail_msg("(%d, %d): %.9g instead of %.9g", i, j, got, i == j ? x : 0);
        }
    }
    free(before);
    trial_close(&t);
}

TEST_CASE(a_gradient_of_zero_changes_nothing)
{
    struct trial t;
    OPEN(&t, "train.weight_decay=0");
    float *before = malloc(t.model.elements * sizeof *before);
    memset(t.network.gradients, 0, t.model.elements * sizeof *before);
    update(&t, before);
    assert_memory_equal(before, t.network.weights, t.model.elements * sizeof *before);
    free(before);
    trial_close(&t);
}

TEST_CASE(a_gradient_that_is_not_finite_changes_neither_weights_nor_moments)
{
    struct trial t;
    OPEN(&t, "train.weight_decay=0.1");
    size_t n = t.model.elements;
    float *before = malloc(n * sizeof *before), *m = network_moment(&t.network, 0);
    for (size_t i = 0; i < n; i++) t.network.gradients[i] = 1;
    t.network.gradients[t.model.elementwise + 3] = NAN;
    update(&t, before);
    assert_memory_equal(before, t.network.weights, n * sizeof *before);
    for (size_t i = 0; i < n; i++) assert_true(m[i] == 0);
    free(before);
    trial_close(&t);
}

/* q, k and v stay one operand; only what AdamW updates has a second moment. */
TEST_CASE(the_matrices_of_layers_are_last_and_have_one_moment)
{
    struct trial t;
    OPEN(&t, "param_group.keys.match=*.1.self_attn.k_proj*", "param_group.keys.optimizer=adamw");
    size_t second = 0;
    for (size_t i = 0; i < t.model.param_count; i++) {
        const struct param *p = &t.model.params[i];
        bool chosen = strstr(p->name, ".layers.") && p->cols && !strstr(p->name, ".1.self_attn.k_proj");
        assert_int_equal(p->orthogonal, chosen);
        assert_int_equal(p->offset >= t.model.elementwise, chosen);
        if (!chosen && p->offset + p->count > second) second = p->offset + p->count;
    }
    assert_true(param_is_followed(t.model.layers[0].qkv.parts) &&
                param_is_followed(t.model.layers[0].qkv.parts + 1) &&
                !param_is_followed(t.model.layers[1].qkv.parts));
    assert_true(second <= t.model.elementwise && t.model.elementwise < second + 64);
    assert_int_equal(t.plan.bytes[BUFFER_MOMENT1], t.model.elements * sizeof(float));
    assert_int_equal(t.plan.bytes[BUFFER_MOMENT2], t.model.elementwise * sizeof(float));
    trial_close(&t);
}

/* ---- several ranks ---- */

static void draw_gradients(struct trial *t)
{
    for (size_t i = 0; i < t->model.elements; i++) t->network.gradients[i] = (float)(rig_uniform(9, i) - 0.5);
}

/* Slices follow each other, cut no matrix that Muon updates, and none is longer than a share and a matrix. */
static void expect_whole_matrices(const struct trial *t, int ranks)
{
    size_t end = 0, n = t->model.elements;
    for (int r = 0; r < ranks; r++) {
        struct slice slice = plan_slice(&t->plan.input, r);
        assert_int_equal(slice.begin, end);
        assert_true(slice_count(slice) <= slice_elements(n, ranks) + t->model.orthogonal);
        assert_true(slice_count(slice) <= plan_slice_most(&t->plan.input));
        for (size_t i = 0; i < t->model.param_count; i++) {
            const struct param *p = &t->model.params[i];
            if (!p->orthogonal) continue;
            assert_true(slice.end <= p->offset || slice.end >= p->offset + p->count);
        }
        end = slice.end;
    }
    assert_int_equal(end, n);
}

TEST_CASE(ranks_that_own_whole_matrices_make_the_update_of_one)
{
    struct trial one, t;
    const char *const words[] = {"train.weight_decay=0.1", "param_group.keys.match=*.1.self_attn.k_proj*",
                                 "param_group.keys.optimizer=adamw", "param_group.keys.lr_scale=0.5", NULL};
    trial_open(&one, 0, 1, words);
    draw_gradients(&one);
    step(&one);
    for (int ranks = 2; ranks <= 40; ranks = ranks < 6 ? ranks + 1 : ranks * 3) {
        size_t bytes = 0;
        for (int r = 0; r < ranks; r++) {
            trial_open(&t, r, ranks, words);
            struct slice owned = t.network.owned, two = plan_with_moment(&t.plan.input, MOMENT_SECOND);
            expect_whole_matrices(&t, ranks);
            draw_gradients(&t);
            step(&t);
            const struct network *a = &t.network, *b = &one.network;
            assert_memory_equal(a->weights, b->weights + owned.begin, slice_count(owned) * sizeof(float));
            for (enum moment i = MOMENT_FIRST; i <= MOMENT_SECOND; i++)
                assert_memory_equal(network_moment(a, i), (float *)network_moment(b, i) + owned.begin,
                                    slice_count(i ? slice_common(owned, two) : owned) * sizeof(float));
            if (r) assert_int_equal(t.plan.total_bytes, bytes); /* alike, whatever they own */
            bytes = t.plan.total_bytes;
            trial_close(&t);
        }
    }
    trial_close(&one);
}

TEST_MAIN()
