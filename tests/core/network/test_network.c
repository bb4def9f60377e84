/* The network and the optimizers against PyTorch (fixtures made by tests/fixtures/torch/make_fixtures.py). */
#include <jansson.h>
#include <math.h>

#include "core/base/text.h"
#include "core/model/config.h"
#include "core/model/safetensors.h"
#include "core/network/network.h"
#include "core/train/optimizer.h"
#include "tests/cmocka.h"
#include "tests/core/network/rig.h"

struct fixture {
    struct safetensors file;
    json_t *header; /* of the file; owned */
    struct device *device;
    struct model model;
    struct plan plan;
    struct network network;
    int B, T;
    const int32_t *tokens, *targets;
    int valid;
};

static void open_file(struct fixture *f, const char *path)
{
    struct err err = {0};
    uint64_t size;
    if (safetensors_open(path, &f->file, &err)) fail_msg("%s", err.text);
    memcpy(&size, f->file.shards[0].map.data, sizeof size);
    f->header = json_loadb((const char *)f->file.shards[0].map.data + sizeof size, (size_t)size, 0, NULL);
    assert_non_null(f->header);
}

static void close_file(struct fixture *f)
{
    json_decref(f->header);
    safetensors_close(&f->file);
}

/* Owned by the fixture; NULL when absent. */
static const char *metadata(const struct fixture *f, const char *key)
{
    return json_string_value(json_object_get(json_object_get(f->header, "__metadata__"), key));
}

static double number(const struct fixture *f, const char *key)
{
    const char *text = metadata(f, key);
    double value;
    if (!text) fail_msg("the fixture has no %s", key);
    if (strcmp(text, "true") == 0) return 1;
    if (strcmp(text, "false") == 0) return 0;
    assert_true(text_parse_double(text, &value));
    return value;
}

static const struct safetensor *tensor(const struct fixture *f, const char *name)
{
    const struct safetensor *t = safetensors_find(&f->file, name);
    if (!t) fail_msg("the fixture has no %s", name);
    return t;
}

/* Relative L2 distance over all parameters between the arena `got` and the fixture's PREFIX<name>. */
static double distance(const struct fixture *f, const float *got, const char *prefix)
{
    double square = 0, norm = 0;
    char name[128];
    for (size_t i = 0; i < f->model.param_count; i++) {
        const struct param *p = &f->model.params[i];
        snprintf(name, sizeof name, "%s%s", prefix, p->name);
        const struct safetensor *t = tensor(f, name);
        assert_int_equal(t->bytes, p->count * sizeof(float));
        for (size_t j = 0; j < p->count; j++) {
            double want = ((const float *)t->data)[j], d = got[p->offset + j] - want;
            assert_true(isfinite(got[p->offset + j]));
            square += d * d;
            norm += want * want;
        }
    }
    return sqrt(square / norm);
}

static void load_weights(struct fixture *f)
{
    for (size_t i = 0; i < f->model.param_count; i++) {
        const struct param *p = &f->model.params[i];
        memcpy(f->network.weights + p->offset, tensor(f, p->name)->data, p->count * sizeof(float));
    }
}

static void open_network(struct fixture *f)
{
    struct err err = {0};
    struct plan_input input = {.model = &f->model, .B = f->B, .T = f->T, .moments = 2};
    assert_int_equal(plan_init(&f->plan, &input, &err), STATUS_OK);
    if (network_open(&f->network, cpu_backend(), f->device, &f->model, &f->plan, &err))
        fail_msg("%s", err.text);
    load_weights(f);
}

static void open_fixture(struct fixture *f, const char *name)
{
    char path[256];
    struct err err = {0};
    *f = (struct fixture){0};
    snprintf(path, sizeof path, "tests/fixtures/torch/%s.safetensors", name);
    open_file(f, path);
    struct model_config config = {.vocab_size = (int)number(f, "vocab_size"),
                                  .hidden_dim = (int)number(f, "hidden_dim"),
                                  .num_layers = (int)number(f, "num_layers"),
                                  .num_heads = (int)number(f, "num_heads"),
                                  .num_kv_heads = (int)number(f, "num_kv_heads"),
                                  .head_dim = (int)number(f, "head_dim"),
                                  .intermediate_dim = (int)number(f, "intermediate_dim"),
                                  .max_seq_len = 4096,
                                  .rope_base = number(f, "rope_base"),
                                  .norm_eps = number(f, "norm_eps"),
                                  .tie_weights = number(f, "tie_weights") != 0,
                                  .qk_norm = number(f, "qk_norm") != 0,
                                  .qkv_bias = number(f, "qkv_bias") != 0};
    f->B = (int)number(f, "batch_size");
    f->T = (int)number(f, "seq_len");
    f->tokens = tensor(f, "tokens")->data;
    f->targets = tensor(f, "targets")->data;
    for (int i = 0; i < f->B * f->T; i++) f->valid += f->targets[i] != -100;
    assert_int_equal(model_init(&f->model, &config, &err), STATUS_OK);
    assert_int_equal(cpu_backend()->device_open(DEVICE_FIRST, 0, &f->device, &err), STATUS_OK);
    open_network(f);
}

static void close_fixture(struct fixture *f)
{
    network_close(&f->network);
    cpu_backend()->device_close(f->device);
    plan_release(&f->plan);
    model_release(&f->model);
    close_file(f);
}

/* Forward and backward; returns the mean loss. */
static double run_step(struct fixture *f)
{
    struct network *net = &f->network;
    struct step_result result;
    network_clear(net);
    rig_train(net, f->tokens, f->targets, f->B, f->T, 1.0f / (float)f->valid, (struct rig_dropout){0});
    network_result(net, &result);
    return result.loss_sum / f->valid;
}

/* The bounds are a small multiple of what PyTorch's own fp32 differs from the fp64 fixture: both round, in
 * another order. */
static void expect_loss_logits_and_gradients(const char *name)
{
    struct fixture f;
    open_fixture(&f, name);
    int V = f.model.config.vocab_size;
    double want = ((const float *)tensor(&f, "loss")->data)[0], square = 0, norm = 0;
    float *logits = malloc((size_t)V * sizeof *logits);
    const float *expected = tensor(&f, "logits")->data;

    network_forward(&f.network, (struct batch_view){.inputs = f.tokens, .B = f.B, .T = f.T});
    assert_true(fabs(network_loss(&f.network, (struct batch_view){.labels = f.targets, .B = f.B, .T = f.T}) /
                         f.valid -
                     want) < 3e-6 * want);
    for (int row = 0; row < f.B * f.T; row++) {
        network_logits(&f.network, row, 1, logits);
        for (int v = 0; v < V; v++) {
            double d = logits[v] - (double)expected[row * V + v];
            square += d * d;
            norm += (double)expected[row * V + v] * expected[row * V + v];
        }
    }
    assert_true(sqrt(square / norm) < 4 * number(&f, "fp32_error.logits") + 1e-6);
    assert_true(fabs(run_step(&f) - want) < 3e-6 * want);
    double apart = distance(&f, f.network.gradients, "grad.");
    if (!(apart < 4 * number(&f, "fp32_error.grad") + 1e-6))
        fail_msg("%s: gradients are %.3g apart", name, apart);
    free(logits);
    close_fixture(&f);
}

static void expect_ten_steps(const char *name, enum optimizer_kind kind)
{
    struct fixture f;
    open_fixture(&f, name);
    char key[64];
    const char *word = kind == OPTIMIZER_LION ? "lion" : "adamw";
    struct optimizer optimizer = {.kind = kind, .max_grad_norm = number(&f, "max_grad_norm")};
#define CONSTANT(field, text)                                                                                \
    (snprintf(key, sizeof key, "%s.%s", word, text), optimizer.field = number(&f, key))
    CONSTANT(beta1, "beta1");
    CONSTANT(beta2, "beta2");
    CONSTANT(defaults.weight_decay, "weight_decay");
    assert_int_equal(optimizer_lay_ranges(&optimizer, &f.network, NULL, NULL), STATUS_OK);
    if (kind == OPTIMIZER_ADAMW) CONSTANT(eps, "eps");
#define LIST(text) (snprintf(key, sizeof key, "%s.%s", word, text), (const float *)tensor(&f, key)->data)
    const float *losses = LIST("losses"), *norms = LIST("norms"), *lrs = LIST("lr");
    for (int i = 0; i < 10; i++) {
        struct step_result result;
        double loss = run_step(&f);
        if (!(fabs(loss - losses[i]) < 2e-5 * losses[i]))
            fail_msg("%s %s: loss of step %d is %.8g, PyTorch has %.8g", name, word, i, loss, losses[i]);
        network_control(&f.network, (struct step_control){.lr = lrs[i]});
        optimizer_step(&optimizer, &f.network);
        network_result(&f.network, &result);
        assert_true(fabs(result.clip.norm - norms[i]) < 1e-4 * norms[i]);
    }
    snprintf(key, sizeof key, "fp32_error.%s", word);
    double bound = 4 * number(&f, key) + 1e-6;
    snprintf(key, sizeof key, "%s.", word);
    double apart = distance(&f, f.network.weights, key);
    if (!(apart < bound))
        fail_msg("%s %s: weights are %.3g apart after ten steps, bound %.3g", name, word, apart, bound);
    close_fixture(&f);
}

/* The groups that the fixture names, a key of the configuration on each line. */
static void read_groups(const struct fixture *f, struct param_groups *groups)
{
    const char *text = metadata(f, "groups");
    char word[200];
    struct config config;
    struct err err = {0};
    assert_non_null(text);
    config_init(&config);
    for (size_t n; *text; text += n + (text[n] == '\n')) {
        n = strcspn(text, "\n");
        snprintf(word, sizeof word, "param_group.%.*s", (int)n, text);
        if (config_read_word(&config, word, &err)) fail_msg("%s", err.text);
    }
    *groups = config.groups;
}

TEST_CASE(parameter_groups_follow_those_of_pytorch)
{
    struct fixture f;
    struct param_groups groups = {.count = 0};
    struct err err = {0};
    open_fixture(&f, "qwen3");
    struct fixture batch = f; /* its file, whose tokens the network reads */
    float *frozen = malloc(f.model.elements * sizeof *frozen);
    memcpy(frozen, f.network.weights, f.model.elements * sizeof *frozen);
    const float *lrs = (const float *)tensor(&f, "adamw.lr")->data;
    struct optimizer optimizer = {.kind = OPTIMIZER_ADAMW,
                                  .beta1 = number(&f, "adamw.beta1"),
                                  .beta2 = number(&f, "adamw.beta2"),
                                  .eps = number(&f, "adamw.eps"),
                                  .max_grad_norm = number(&f, "max_grad_norm"),
                                  .defaults.weight_decay = number(&f, "adamw.weight_decay")};
    open_file(&f, "tests/fixtures/torch/qwen3_groups.safetensors");
    read_groups(&f, &groups);
    assert_int_equal(groups.count, 5);
    if (optimizer_lay_ranges(&optimizer, &f.network, &groups, &err)) fail_msg("%s", err.text);
    const float *losses = (const float *)tensor(&f, "groups.losses")->data;
    for (int i = 0; i < 10; i++) {
        double loss = run_step(&f);
        assert_true(fabs(loss - losses[i]) < 2e-5 * losses[i]);
        network_control(&f.network, (struct step_control){.lr = lrs[i]});
        optimizer_step(&optimizer, &f.network);
    }
    double apart = distance(&f, f.network.weights, "groups.");
    if (!(apart < 4 * number(&f, "fp32_error.groups") + 1e-6)) fail_msg("weights are %.3g apart", apart);
    const struct param *still = model_find(&f.model, "model.layers.1.mlp.gate_proj.weight");
    assert_memory_equal(f.network.weights + still->offset, frozen + still->offset,
                        still->count * sizeof *frozen);
    free(frozen);
    close_file(&batch);
    close_fixture(&f);
}

/* A setting of the fixture: its keys, its orthogonal matrices, ten steps. */
static void expect_ten_steps_of_muon(const char *setting)
{
    struct fixture f;
    char key[64], word[200];
    struct config config;
    struct err err = {0};
    open_fixture(&f, "llama");
    struct fixture batch = f; /* its file, whose tokens the network reads */
    const float *lrs = (const float *)tensor(&f, "adamw.lr")->data;
    config_init(&config);
    config.train.optimizer = OPTIMIZER_MUON;
    config.train.beta1 = number(&f, "adamw.beta1");
    config.train.beta2 = number(&f, "adamw.beta2");
    config.train.max_grad_norm = number(&f, "max_grad_norm");
    network_close(&f.network);
    plan_release(&f.plan);
    if (param_groups_freeze(&config.groups, OPTIMIZER_MUON, &f.model,
                            &(struct storage){.computed = ELEMENT_FP32}, &err))
        fail_msg("%s", err.text);
    open_network(&f);
    open_file(&f, "tests/fixtures/torch/llama_muon.safetensors");
    snprintf(key, sizeof key, "%s.keys", setting);
    const char *text = metadata(&f, key);
    assert_non_null(text);
    for (size_t n; *text; text += n + (text[n] == '\n')) {
        n = strcspn(text, "\n");
        snprintf(word, sizeof word, "%.*s", (int)n, text);
        if (config_read_word(&config, word, &err)) fail_msg("%s", err.text);
    }
    struct optimizer optimizer = optimizer_of(&config);
    if (optimizer_lay_ranges(&optimizer, &f.network, NULL, &err)) fail_msg("%s", err.text);
    snprintf(key, sizeof key, "%s.losses", setting);
    const float *losses = (const float *)tensor(&f, key)->data;
    for (int i = 0; i < 10; i++) {
        double loss = run_step(&f);
        if (!(fabs(loss - losses[i]) < 2e-5 * losses[i]))
            fail_msg("%s: loss of step %d is %.8g, PyTorch has %.8g", setting, i, loss, losses[i]);
        network_control(&f.network, (struct step_control){.lr = lrs[i]});
        optimizer_step(&optimizer, &f.network);
    }
    snprintf(key, sizeof key, "fp32_error.%s", setting);
    double bound = 4 * number(&f, key) + 1e-6;
    snprintf(key, sizeof key, "%s.", setting);
    double apart = distance(&f, f.network.weights, key);
    if (!(apart < bound)) fail_msg("%s: weights are %.3g apart, bound %.3g", setting, apart, bound);
    close_file(&batch);
    close_fixture(&f);
}

TEST_CASE(muon_follows_pytorch_through_ten_steps_as_large_as_those_of_adamw)
{
    expect_ten_steps_of_muon("rms");
}

TEST_CASE(muon_follows_pytorch_through_ten_steps_of_the_original_size)
{
    expect_ten_steps_of_muon("original");
}

/* A batch of which rows have different numbers of ignored labels, a row at a time and all at once. */
TEST_CASE(micro_batches_add_up_to_the_gradient_of_the_whole_batch)
{
    struct fixture f;
    open_fixture(&f, "llama");
    struct network *net = &f.network;
    size_t n = f.model.elements;
    struct step_result result;
    double whole_loss = run_step(&f), square = 0, norm = 0;
    float *whole = malloc(n * sizeof *whole);
    memcpy(whole, net->gradients, n * sizeof *whole);
    network_clear(net);
    assert_true(f.valid < f.B * f.T);
    for (int b = 0; b < f.B; b++) {
        const int32_t *tokens = f.tokens + b * f.T, *targets = f.targets + b * f.T;
        rig_train(net, tokens, targets, 1, f.T, 1.0f / (float)f.valid, (struct rig_dropout){0});
    }
    for (size_t i = 0; i < n; i++) {
        double d = (double)net->gradients[i] - whole[i];
        square += d * d;
        norm += (double)whole[i] * whole[i];
    }
    network_result(net, &result);
    assert_true(fabs(result.loss_sum / f.valid - whole_loss) < 1e-6 * whole_loss);
    assert_true(sqrt(square / norm) < 1e-6);
    free(whole);
    close_fixture(&f);
}

#define CASES(X) X(llama) X(llama_tied) X(qwen2) X(qwen3)
#define TESTS(name)                                                                                          \
    TEST_CASE(name##_matches_pytorch_logits_loss_and_gradients)                                              \
    {                                                                                                        \
        expect_loss_logits_and_gradients(#name);                                                             \
    }                                                                                                        \
    TEST_CASE(name##_follows_pytorch_through_ten_adamw_steps)                                                \
    {                                                                                                        \
        expect_ten_steps(#name, OPTIMIZER_ADAMW);                                                            \
    }                                                                                                        \
    TEST_CASE(name##_follows_pytorch_through_ten_lion_steps)                                                 \
    {                                                                                                        \
        expect_ten_steps(#name, OPTIMIZER_LION);                                                             \
    }
CASES(TESTS)

/* Cut anywhere, at places that no group of random numbers begins at. */
TEST_CASE(initial_weights_made_in_pieces_are_those_made_at_once)
{
    struct model_config config = rig_config();
    struct model model;
    config.qkv_bias = true;
    assert_int_equal(model_init(&model, &config, NULL), STATUS_OK);
    float *whole = malloc(model.elements * sizeof *whole), *pieces = malloc(model.elements * sizeof *pieces);
    assert_true(whole && pieces);
    for (size_t i = 0; i < model.param_count; i++) {
        const struct param *p = &model.params[i];
        model_initialise_param(&model, p, 42, 0, p->count, whole);
        for (size_t size = 1; size < p->count; size = size * 3 + 1) {
            memset(pieces, 0xFF, p->count * sizeof *pieces);
            for (size_t first = 0; first < p->count; first += size) {
                size_t end = p->count - first < size ? p->count : first + size;
                model_initialise_param(&model, p, 42, first, end, pieces + first);
            }
            assert_memory_equal(pieces, whole, p->count * sizeof *whole);
        }
    }
    free(whole);
    free(pieces);
    model_release(&model);
}

TEST_CASE(output_projections_may_begin_as_zero)
{
    struct model_config config = rig_config();
    struct model model;
    assert_int_equal(model_init(&model, &config, NULL), STATUS_OK);
    float *usual = malloc(model.elements * sizeof *usual), *zero = malloc(model.elements * sizeof *zero);
    assert_true(usual && zero);
    int outputs = 0;
    for (size_t i = 0; i < model.param_count; i++) {
        const struct param *p = &model.params[i];
        bool output = strstr(p->name, "o_proj.weight") || strstr(p->name, "down_proj.weight");
        model.zero_outputs = false;
        model_initialise_param(&model, p, 42, 0, p->count, usual);
        model.zero_outputs = true;
        model_initialise_param(&model, p, 42, 0, p->count, zero);
        for (size_t j = 0; j < p->count; j++) assert_true(zero[j] == (output ? 0 : usual[j]));
        outputs += output;
    }
    assert_int_equal(outputs, 2 * config.num_layers);
    free(usual);
    free(zero);
    model_release(&model);
}

TEST_MAIN()
