/* See rig.h. */
#include "tests/core/network/rig.h"
#include "tests/cmocka.h"

/* cmocka wants the first three above */
#include <fnmatch.h>
#include <math.h>

#include "core/base/philox.h"

struct model_config rig_config(void)
{
    return (struct model_config){.vocab_size = 13,
                                 .hidden_dim = 10,
                                 .num_layers = 2,
                                 .num_heads = 4,
                                 .num_kv_heads = 2,
                                 .head_dim = 4,
                                 .intermediate_dim = 7,
                                 .max_seq_len = 64,
                                 .rope_base = 100,
                                 .norm_eps = 1e-5};
}

void rig_train(struct network *network, const int32_t *inputs, const int32_t *targets, int B, int T,
               float loss_scale, struct rig_dropout dropout)
{
    struct step_control control = {.seed = dropout.seed,
                                   .step = dropout.step,
                                   .micro_batch = dropout.micro_batch,
                                   .loss_scale = loss_scale};
    network_train(network, (struct batch_view){inputs, targets, NULL, B, T}, dropout.probability, control);
}

double rig_uniform(uint64_t seed, uint64_t index)
{
    struct philox_block r = philox4x32_10((uint32_t)index, (uint32_t)(index >> 32), 0x72696700u, 0,
                                          (uint32_t)seed, (uint32_t)(seed >> 32));
    return ((double)r.word[0] + 0.5) / 4294967296.0;
}

static double normal(uint64_t seed, uint64_t index)
{
    return sqrt(-2 * log(rig_uniform(seed, 2 * index))) * cos(2 * M_PI * rig_uniform(seed, 2 * index + 1));
}

void rig_weights(const struct model *model, uint64_t seed, float *weights)
{
    memset(weights, 0, model->elements * sizeof *weights);
    for (size_t i = 0; i < model->param_count; i++) {
        const struct param *p = &model->params[i];
        if (p->frozen) continue;
        bool norm = !p->cols && strstr(p->name, "norm");
        for (size_t j = p->offset; j < p->offset + p->count; j++)
            weights[j] = (float)(norm ? 1 + 0.2 * normal(seed, j) : 0.4 * normal(seed, j));
    }
}

void rig_tokens(uint64_t seed, int below, int32_t *tokens, int count)
{
    for (int i = 0; i < count; i++) tokens[i] = (int32_t)(rig_uniform(seed, (uint64_t)i) * below);
}

void rig_open(struct rig *rig, const struct backend *backend, const struct model_config *config, int B, int T,
              int moments)
{
    rig_open_interval(rig, backend, config, B, T, moments, 0);
}

void rig_open_interval(struct rig *rig, const struct backend *backend, const struct model_config *config,
                       int B, int T, int moments, int activation_interval)
{
    rig_open_frozen(rig, backend, config, B, T, moments, activation_interval, "");
}

struct freezing {
    const char *patterns;
    enum element element;
};

static bool any_matches(const void *context, const struct param *param, enum element *element)
{
    const struct freezing *f = context;
    char copy[256], *rest = copy;
    bool matches = false;
    snprintf(copy, sizeof copy, "%s", f->patterns);
    for (char *pattern; (pattern = strsep(&rest, " "));)
        matches = matches || fnmatch(pattern, param->name, 0) == 0;
    if (matches) *element = f->element;
    return matches;
}

void rig_freeze(struct model *model, const char *patterns, enum element element)
{
    model_freeze(model, any_matches, &(struct freezing){patterns, element});
}

void rig_open_frozen(struct rig *rig, const struct backend *backend, const struct model_config *config, int B,
                     int T, int moments, int activation_interval, const char *frozen)
{
    struct plan_input input = {.B = B,
                               .T = T,
                               .moments = moments,
                               .cache_slots = 1,
                               .cache_length = T,
                               .activation_interval = activation_interval};
    rig_open_input(rig, backend, config, input, frozen);
}

void rig_open_input(struct rig *rig, const struct backend *backend, const struct model_config *config,
                    struct plan_input input, const char *frozen)
{
    rig_open_stored(rig, backend, config, input, frozen, ELEMENT_FP32);
}

void rig_open_stored(struct rig *rig, const struct backend *backend, const struct model_config *config,
                     struct plan_input input, const char *frozen, enum element element)
{
    struct err err = {0};
    *rig = (struct rig){.backend = backend ? backend : cpu_backend()};
    if (model_init(&rig->model, config, &err)) fail_msg("%s", err.text);
    rig_freeze(&rig->model, frozen, element);
    if (rig->backend->device_open(DEVICE_FIRST, 1, &rig->device, &err)) fail_msg("%s", err.text);
    input.model = &rig->model;
    input.host_counts = true;
    input.library_workspace = rig->backend->library_workspace(rig->device, NULL);
    if (plan_init(&rig->plan, &input, &err)) fail_msg("%s", err.text);
    if (network_open(&rig->network, rig->backend, rig->device, &rig->model, &rig->plan, &err))
        fail_msg("%s", err.text);
    size_t bytes = rig->model.elements * sizeof(float);
    float *weights = malloc(bytes);
    rig_weights(&rig->model, 1, weights);
    rig->backend->mem_upload(network_at(&rig->network, BUFFER_WEIGHTS, 0), weights, bytes,
                             rig->network.stream);
    if (rig->backend->stream_wait(rig->network.stream, &err)) fail_msg("%s", err.text);
    free(weights);
}

void rig_close(struct rig *rig)
{
    network_close(&rig->network);
    rig->backend->device_close(rig->device);
    plan_release(&rig->plan);
    model_release(&rig->model);
}

char *rig_path(const char *name)
{
    const char *folder = getenv("ANNEAL_TEST_DIR");
    char *path = NULL;
    if (!folder) fail_msg("ANNEAL_TEST_DIR is not set (run through tests/run.sh)");
    if (asprintf(&path, "%s/%s", folder, name) < 0) fail_msg("no memory");
    return path;
}

void rig_write(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    if (!file) fail_msg("%s: cannot create", path);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}
