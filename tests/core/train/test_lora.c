/* Adapters: against peft (fixtures made by tests/fixtures/peft/make_peft.py), and in training. The keys
 * lora.rank, lora.alpha, lora.rslora, lora.dropout, lora.targets, lora.layers, lora.train_norms,
 * lora.train_head and lora.train_embedding. */
#include <math.h>

#include "core/base/file.h"
#include "core/checkpoint/checkpoint.h"
#include "core/model/adapter.h"
#include "core/model/adapter_file.h"
#include "core/model/hugging_face.h"
#include "core/train/optimizer.h"
#include "tests/cmocka.h"
#include "tests/core/network/rig.h"
#include "tests/core/train/story.h"

#define FIXTURES   "tests/fixtures/peft/"
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

enum { BATCH = 2, LENGTH = 40, STEPS = 10, LABELS = BATCH * (LENGTH - 1) };

/* ---- a model of the fixtures with its adapters ---- */

static const struct fixture {
    const char *name;
    bool norms, head, embedding; /* trained beside the adapters */
    int parameters;
} fixtures[] = {{"llama", false, false, false, 12},       {"llama_rslora", false, false, false, 28},
                {"qwen2", true, true, false, 32},         {"qwen3", true, false, false, 37},
                {"llama_tokens", false, false, true, 13}, {"qwen2_tokens", false, true, true, 14}};
enum { FIXTURES_COUNT = sizeof fixtures / sizeof *fixtures };

struct adapted {
    struct rig rig;
    struct safetensors expected;
    int32_t tokens[BATCH * LENGTH], targets[BATCH * LENGTH];
};

static const char *path_of(const struct fixture *f, const char *file)
{
    static char paths[8][256];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], FIXTURES "%s%s%s", f->name, *file ? "/" : "", file);
    return path;
}

static const float *expected(const struct adapted *a, const char *kind, const char *name)
{
    char full[128];
    snprintf(full, sizeof full, "%s%s", kind, name);
    const struct safetensor *t = safetensors_find(&a->expected, full);
    if (!t) fail_msg("the fixture has no %s", full);
    return t->data;
}

/* For training with `moments`, or 0 for forward passes alone, from the adapters in `folder`. */
static void open_dropping(struct adapted *a, const struct fixture *f, const char *folder, int moments,
                          int interval, double dropout)
{
    struct err err = {0};
    struct model_config config;
    struct adapter_config adapters;
    struct adapter_base base;
    struct safetensors weights;
    struct rig *rig = &a->rig;
    *a = (struct adapted){.rig.backend = cpu_backend()};
    if (hugging_face_read_config(path_of(f, ""), &config, &err) ||
        adapter_file_read(folder, &adapters, &base, &err))
        fail_msg("%s", err.text);
    adapters.train_norms = f->norms, adapters.train_head = f->head;
    adapters.train_embedding = f->embedding;
    adapters.dropout = dropout;
    if (model_init(&rig->model, &config, &err) || adapter_attach(&rig->model, &adapters, &err))
        fail_msg("%s", err.text);
    assert_int_equal(safetensors_open_folder(path_of(f, ""), &weights, NULL), STATUS_OK);
    rig->model.base.hash = adapter_base_hash(&weights);
    safetensors_close(&weights);
    if (rig->backend->device_open(DEVICE_FIRST, 1, &rig->device, &err)) fail_msg("%s", err.text);
    struct plan_input input = {
        .model = &rig->model, .B = BATCH, .T = LENGTH, .moments = moments, .activation_interval = interval};
    if (plan_init(&rig->plan, &input, &err) ||
        network_open(&rig->network, rig->backend, rig->device, &rig->model, &rig->plan, &err) ||
        checkpoint_load_weights(path_of(f, ""), &rig->network, &err) ||
        checkpoint_load_weights(folder, &rig->network, &err))
        fail_msg("%s: %s", f->name, err.text);
    if (safetensors_open(path_of(f, "expected.safetensors"), &a->expected, &err)) fail_msg("%s", err.text);
    memcpy(a->tokens, expected(a, "", "tokens"), sizeof a->tokens);
    for (int i = 0; i < BATCH * LENGTH; i++)
        a->targets[i] = i % LENGTH == LENGTH - 1 ? -100 : a->tokens[i + 1];
}

static void open_adapted(struct adapted *a, const struct fixture *f, const char *folder, int moments,
                         int interval)
{
    open_dropping(a, f, folder, moments, interval, 0);
}

static void close_adapted(struct adapted *a)
{
    rig_close(&a->rig);
    safetensors_close(&a->expected);
}

/* Relative L2 distance of an arena from the fixture's numbers of this kind, over all trained parameters. */
static double distance(const struct adapted *a, const float *arena, const char *kind)
{
    double square = 0, norm = 0;
    for (size_t i = 0; i < a->rig.model.param_count; i++) {
        const struct param *p = &a->rig.model.params[i];
        if (p->frozen) continue;
        const float *want = expected(a, kind, p->name);
        for (size_t j = 0; j < p->count; j++) {
            double d = (double)arena[p->offset + j] - (double)want[j];
            square += d * d, norm += (double)want[j] * (double)want[j];
        }
    }
    return sqrt(square / norm);
}

static double train_step(struct adapted *a)
{
    struct network *net = &a->rig.network;
    struct step_result result;
    network_clear(net);
    rig_train(net, a->tokens, a->targets, BATCH, LENGTH, 1.0f / LABELS, (struct rig_dropout){0});
    network_result(net, &result);
    return result.loss_sum / LABELS;
}

/* ---- against peft ---- */

TEST_CASE(loss_logits_and_gradients_are_those_of_peft)
{
    for (int i = 0; i < FIXTURES_COUNT; i++)
        for (int interval = 0; interval < 2; interval++) {
            const struct fixture *f = &fixtures[i];
            struct adapted a;
            open_adapted(&a, f, path_of(f, "adapter"), 2, interval);
            int trained = 0, V = a.rig.model.config.vocab_size;
            for (size_t k = 0; k < a.rig.model.param_count; k++) trained += !a.rig.model.params[k].frozen;
            assert_int_equal(trained, f->parameters);
            double want = (double)expected(&a, "", "losses")[0], got = train_step(&a);
            if (!(fabs(got - want) <= 3e-6 * want)) fail_msg("%s: loss %.9f, not %.9f", f->name, got, want);
            double away = distance(&a, a.rig.network.gradients, "grad.");
            if (!(away <= 1e-5)) fail_msg("%s: the gradients are %.2e away", f->name, away);
            float logits[64];
            network_forward(&a.rig.network, (struct batch_view){.inputs = a.tokens, .B = BATCH, .T = LENGTH});
            for (int b = 0; b < BATCH; b++) {
                network_logits(&a.rig.network, LENGTH * (b + 1) - 1, 1, logits);
                for (int v = 0; v < V; v++)
                    if (!(fabsf(logits[v] - expected(&a, "", "logits")[b * V + v]) < 1e-4f))
                        fail_msg("%s: logit %d is %f", f->name, v, (double)logits[v]);
            }
            close_adapted(&a);
        }
}

/* The bounds are a small multiple of what peft's own run in fp32 differs from its run in double precision,
 * which is in the fixtures' metadata: at most 1e-4. */
TEST_CASE(ten_steps_of_adamw_end_where_those_of_peft_end)
{
    for (int i = 0; i < FIXTURES_COUNT; i++) {
        const struct fixture *f = &fixtures[i];
        struct adapted a;
        struct err err = {0};
        open_adapted(&a, f, path_of(f, "adapter"), 2, 0);
        struct optimizer o = {.kind = OPTIMIZER_ADAMW,
                              .beta1 = 0.9,
                              .beta2 = 0.95,
                              .eps = 1e-6,
                              .max_grad_norm = 1,
                              .defaults.weight_decay = 0.1};
        if (optimizer_lay_ranges(&o, &a.rig.network, NULL, &err)) fail_msg("%s", err.text);
        for (int step = 0; step < STEPS; step++) {
            double want = (double)expected(&a, "", "losses")[step], got = train_step(&a);
            if (!(fabs(got - want) <= 1e-4 * want))
                fail_msg("%s: the loss of step %d is %.9f, not %.9f", f->name, step, got, want);
            struct step_control control = {.lr = 0.01f};
            network_control(&a.rig.network, control);
            optimizer_step(&o, &a.rig.network);
        }
        double away = distance(&a, a.rig.network.weights, "after.");
        if (!(away <= 3e-4)) fail_msg("%s: the parameters are %.2e away", f->name, away);
        close_adapted(&a);
    }
}

/* ---- of their own ---- */

TEST_CASE(the_base_has_no_gradient_no_moment_and_no_weight_product)
{
    struct adapted a;
    open_adapted(&a, &fixtures[0], path_of(&fixtures[0], "adapter"), 2, 0);
    const struct plan *plan = &a.rig.plan;
    size_t trained = a.rig.model.elements * sizeof(float);
    assert_int_equal(plan->bytes[BUFFER_GRADIENTS], trained);
    assert_int_equal(plan->bytes[BUFFER_MOMENT1] + plan->bytes[BUFFER_MOMENT2], 2 * trained);
    /* A and B of q and v in three layers: (4,24), (32,4), (4,24), (16,4) */
    assert_int_equal(a.rig.model.parameters - a.rig.model.frozen_parameters, 3 * (96 + 128 + 96 + 64));
    int products = 0;
    for (int i = 0; i < plan->product_count; i++) {
        const struct gemm_shape *p = &plan->products[i];
        if (!p->transpose_a) continue; /* doutᵀ x */
        bool of_a = p->M == 8 && p->N == 24 /* q and v in one */,
             of_b = p->N == 4 && (p->M == 32 || p->M == 16);
        if (!of_a && !of_b) fail_msg("a weight's gradient (%d,%d) is computed", p->M, p->N);
        products++;
    }
    assert_int_equal(products, 3);
    close_adapted(&a);
}

TEST_CASE(fresh_adapters_change_nothing_and_are_a_function_of_the_seed)
{
    struct adapted a;
    const struct fixture *f = &fixtures[1];
    open_adapted(&a, f, path_of(f, "adapter"), 2, 0);
    struct network *net = &a.rig.network;
    struct model *model = &a.rig.model;
    struct batch_view batch = {a.tokens, a.targets, NULL, BATCH, LENGTH};
    size_t bytes = model->elements * sizeof(float);
    snprintf(model->base.folder, sizeof model->base.folder, "%s", "here"); /* its weights are not drawn */
    float *first = malloc(bytes);
    assert_non_null(first);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        assert_int_equal(network_initialise(net, seed == 3 ? 1 : seed, NULL), STATUS_OK);
        if (seed == 1) memcpy(first, net->weights, bytes);
        assert_int_equal(memcmp(first, net->weights, bytes) == 0, seed != 2);
    }
    for (size_t i = 0; i < model->param_count; i++) {
        const struct param *p = &model->params[i];
        if (p->frozen) continue;
        bool b = strstr(p->name, "lora_B") != NULL;
        double bound = 1 / sqrt(p->cols), largest = 0, sum = 0;
        for (size_t j = 0; j < p->count; j++) {
            largest = fmax(largest, fabs((double)first[p->offset + j]));
            sum += (double)first[p->offset + j];
        }
        if (b ? largest != 0
              : !(largest <= bound && largest > 0.8 * bound && fabs(sum) < 0.3 * bound * (double)p->count))
            fail_msg("%s: up to %g, the bound is %g", p->name, largest, bound);
    }
    network_forward(net, batch);
    double fresh = network_loss(net, batch);
    for (int l = 0; l < model->config.num_layers; l++) {
        model->layers[l].qkv.adapter = model->layers[l].o.adapter = NULL;
        model->layers[l].gate_up.adapter = model->layers[l].down.adapter = NULL;
    }
    network_forward(net, batch);
    assert_true(fresh == network_loss(net, batch));
    free(first);
    close_adapted(&a);
}

/* The loss of a step with dropout, which is the same at every call. */
static double dropped_loss(struct adapted *a)
{
    network_weights_written(&a->rig.network);
    return train_step(a);
}

TEST_CASE(with_dropout_gradients_are_those_of_the_dropped_loss)
{
    const struct fixture *f = &fixtures[1];
    struct adapted kept, a;
    open_adapted(&kept, f, path_of(f, "adapter"), 2, 0);
    open_dropping(&a, f, path_of(f, "adapter"), 2, 0, 0.5);
    const struct model *model = &a.rig.model;
    struct batch_view batch = {a.tokens, a.targets, NULL, BATCH, LENGTH};
    size_t bytes = model->elements * sizeof(float);
    double plain = train_step(&kept), dropped = dropped_loss(&a);
    assert_true(fabs(plain - dropped) > 1e-4);
    float *gradients = malloc(bytes), *w = a.rig.network.weights;
    assert_non_null(gradients);
    memcpy(gradients, a.rig.network.gradients, bytes);
    for (size_t i = 0; i < model->param_count; i++) {
        const struct param *p = &model->params[i];
        size_t most = p->offset;
        if (p->frozen) continue;
        for (size_t j = p->offset; j < p->offset + p->count; j++)
            if (fabsf(gradients[j]) > fabsf(gradients[most])) most = j;
        float was = w[most];
        double losses[2], h = 0.002;
        for (int side = 0; side < 2; side++) {
            w[most] = was + (side ? 1 : -1) * (float)h;
            losses[side] = dropped_loss(&a);
        }
        w[most] = was;
        double slope = (losses[1] - losses[0]) / (2 * h), got = (double)gradients[most];
        if (!(fabs(slope - got) <= 0.05 * fabs(got) + 5e-4)) /* the loss bends */
            fail_msg("%s: the gradient is %g, the slope %g", p->name, got, slope);
    }
    /* what is recomputed has the same mask; and an evaluation drops nothing */
    struct adapted again;
    open_dropping(&again, f, path_of(f, "adapter"), 2, 1, 0.5);
    assert_true(dropped_loss(&again) == dropped_loss(&a));
    assert_memory_equal(again.rig.network.gradients, a.rig.network.gradients, bytes);
    network_forward(&a.rig.network, batch);
    network_forward(&kept.rig.network, batch);
    assert_true(network_loss(&a.rig.network, batch) == network_loss(&kept.rig.network, batch));
    free(gradients);
    close_adapted(&kept), close_adapted(&a), close_adapted(&again);
}

TEST_MAIN()
