/* See plan_trial.h. */
#include "tests/core/network/plan_trial.h"
#include "tests/cmocka.h"

/* cmocka wants the first three above */
#include "core/model/adapter.h"
#include "core/model/config.h"
#include "core/network/network.h"
#include "core/train/optimizer.h"
#include "tests/core/network/rig.h"

/* ---- drawing ---- */

struct dice {
    uint64_t seed, index;
};

static int draw(struct dice *dice, int from, int to)
{
    return from + (int)(rig_uniform(dice->seed, dice->index++) * (to - from + 1));
}

void plan_trial_draw(uint64_t seed, bool host, struct plan_trial *t)
{
    struct dice d = {seed, 0};
    int kv = draw(&d, 1, 3), width = 8 * draw(&d, 1, 2); /* what bf16 asks of rows */
    *t = (struct plan_trial){.config = {.vocab_size = 8 * draw(&d, 1, 60),
                                        .hidden_dim = 8 * draw(&d, 1, 5),
                                        .num_layers = draw(&d, 1, 4),
                                        .num_heads = kv * draw(&d, 1, 3),
                                        .num_kv_heads = kv,
                                        .head_dim = width,
                                        .intermediate_dim = 8 * draw(&d, 1, 6),
                                        .max_seq_len = 64,
                                        .rope_base = 1e4,
                                        .norm_eps = 1e-5,
                                        .tie_weights = draw(&d, 0, 1),
                                        .qk_norm = draw(&d, 0, 1),
                                        .qkv_bias = draw(&d, 0, 1)}};
    t->config.o_bias = t->config.qkv_bias && draw(&d, 0, 1);
    t->config.mlp_bias = t->config.o_bias == t->config.qkv_bias && !t->config.qk_norm && draw(&d, 0, 1);
    t->config.sliding_window = t->config.o_bias || t->config.mlp_bias ? 0 : draw(&d, 0, 9);
    struct plan_input *in = &t->input;
    in->B = draw(&d, 1, 4);
    in->T = draw(&d, 1, 20);
    in->moments = draw(&d, 0, 2);
    in->cache_slots = draw(&d, 0, 3);
    in->cache_length = draw(&d, 1, 30);
    in->precision = host ? PRECISION_FP32 : (enum precision)draw(&d, 0, PRECISIONS - 1);
    in->activation_interval = draw(&d, 0, 3);
    in->loss = (enum plan_loss)draw(&d, 0, 2);
    in->host_counts = host;
    in->allocator = (enum allocator_kind)draw(&d, 0, ALLOCATOR_KINDS - 1);
    in->snapshot = in->moments ? draw(&d, 0, 1) * (1 + draw(&d, 0, 1) * in->moments) : 0;
    t->micro_batches = draw(&d, 1, 3);
    t->padding = draw(&d, 0, 1);
    t->two_groups = draw(&d, 0, 1);
    t->adapters = (struct adapter_config){.rank = draw(&d, 0, 1) * draw(&d, 1, 2), .alpha = 3};
    t->adapters.dropout = 0.25 * draw(&d, 0, 1);
    t->adapters.train_norms = draw(&d, 0, 1);
    for (int l = 0; l < t->config.num_layers; l++)
        t->adapters.targets[l] = (uint8_t)draw(&d, l == 0, (1 << MODEL_TARGETS) - 1);
    in->ranks = draw(&d, 0, 3);
    in->rank = draw(&d, 0, in->ranks > 1 ? in->ranks - 1 : 0);
    in->shard = in->ranks > 1 && in->moments && draw(&d, 0, 2) > 0;
    const struct model_config *c = &t->config;
    snprintf(t->story, sizeof t->story,
             "V %d C %d L %d NH %d/%d HS %d F %d tie %d qk %d bias %d %d %d window %d, B %d T %d, moments "
             "%d, %s, interval %d, "
             "loss %d, %s, snapshot %d, rank %d of %d, slices %d, %d micro-batches, padding %d, groups %d, "
             "adapters %d "
             "of %#x %#x",
             c->vocab_size, c->hidden_dim, c->num_layers, c->num_heads, c->num_kv_heads, c->head_dim,
             c->intermediate_dim, c->tie_weights, c->qk_norm, c->qkv_bias, c->o_bias, c->mlp_bias,
             c->sliding_window, in->B, in->T, in->moments, precision_name(in->precision),
             in->activation_interval, in->loss, allocator_kind_word(in->allocator), in->snapshot, in->rank,
             in->ranks, in->shard, t->micro_batches, t->padding, t->two_groups, t->adapters.rank,
             t->adapters.targets[0], t->adapters.targets[1]);
}

/* ---- a backend that counts ---- */

/* mem_alloc has no context of its own, so the counts are the test program's. */
static struct {
    const struct backend *real;
    int64_t device, host; /* bytes */
    int calls, freed;
} asked;

static enum status count_alloc(struct device *device, size_t bytes, void **out, struct err *err)
{
    asked.device += (int64_t)bytes;
    asked.calls++;
    return asked.real->mem_alloc(device, bytes, out, err);
}

static void count_free(struct device *device, void *memory)
{
    asked.freed++;
    asked.real->mem_free(device, memory);
}

static enum status count_pool(struct device *device, size_t bytes, struct stream *stream, void **out,
                              struct err *err)
{
    asked.device += (int64_t)bytes;
    asked.calls++;
    return asked.real->pool_alloc(device, bytes, stream, out, err);
}

static void count_pool_free(struct device *device, void *memory, size_t bytes, struct stream *stream)
{
    asked.freed++;
    asked.real->pool_free(device, memory, bytes, stream);
}

static enum status count_host(struct device *device, size_t bytes, void **out, struct err *err)
{
    asked.host += (int64_t)bytes;
    asked.calls++;
    return asked.real->host_alloc(device, bytes, out, err);
}

static void count_host_free(struct device *device, void *memory)
{
    asked.freed++;
    asked.real->host_free(device, memory);
}

static struct backend counting(const struct backend *real)
{
    struct backend backend = *real;
    backend.mem_alloc = count_alloc;
    backend.mem_free = count_free;
    backend.pool_alloc = count_pool;
    backend.pool_free = count_pool_free;
    backend.host_alloc = count_host;
    backend.host_free = count_host_free;
    memset(&asked, 0, sizeof asked);
    asked.real = real;
    return backend;
}

/* ---- checking ---- */

#define EXPECT(what, actual, expected)                                                                       \
    do {                                                                                                     \
        int64_t a_ = (int64_t)(actual), e_ = (int64_t)(expected);                                            \
        if (a_ != e_)                                                                                        \
            fail_msg("%s, %s: %s is %lld instead of %lld", t->story, when, what, (long long)a_,              \
                     (long long)e_);                                                                         \
    } while (0)

static void expect_the_plan(const struct plan_trial *t, const struct network *net, const char *when)
{
    struct allocator_usage tags[PLAN_CATEGORIES + 4], sum;
    const struct plan *plan = net->plan;
    int count = allocator_tags(net->allocator, tags, PLAN_CATEGORIES + 4), categories = 0;
    int64_t total = 0, device = (int64_t)plan_device_bytes(plan), host = 0;
    size_t reserved = 0;
    for (int c = 0; c < PLAN_CATEGORIES; c++) {
        const char *name = plan_category_name((enum plan_category)c);
        int64_t live = 0, peak = 0;
        for (int i = 0; i < count; i++)
            if (strcmp(tags[i].tag, name) == 0) live = tags[i].live, peak = tags[i].peak;
        EXPECT(name, live, plan->category_bytes[c]);
        EXPECT(name, peak, plan->category_bytes[c]);
        total += live;
        categories += live > 0;
        if (plan_category_is_host((enum plan_category)c)) host += live;
    }
    allocator_sum(net->allocator, &sum);
    EXPECT("the sum", sum.live, total);
    EXPECT("the sum's peak", sum.peak, total);
    EXPECT("how many blocks there are", sum.count, categories);
    EXPECT("the total", plan->total_bytes, plan->input.host_counts ? total : total - host);
    EXPECT("what the host was asked for", asked.host, host);
    if (plan->input.allocator != ALLOCATOR_CACHING)
        EXPECT("what the device was asked for", asked.device, device);
    assert_int_equal(plan_reserved(plan, &reserved, NULL), STATUS_OK);
    int64_t planned = (int64_t)(reserved - (plan->total_bytes - (size_t)device));
    if (plan->input.allocator == ALLOCATOR_CACHING) EXPECT("what the device gave", asked.device, planned);
    if (plan->input.allocator == ALLOCATOR_POOL && !plan->input.host_counts)
        assert_true(planned >= sum.reserved); /* a bound of the driver's pool */
    else
        EXPECT("what is reserved", sum.reserved, planned);
}

/* ---- running ---- */

static void train(const struct plan_trial *t, struct network *net)
{
    enum { MOST = 2 * 4 * 20 };
    int32_t tokens[MOST], targets[MOST];
    int B = t->input.B, T = t->input.T;
    struct config config;
    struct err err = {0};
    struct step_result result;
    struct optimizer optimizer = {.kind = t->input.moments == 2 ? OPTIMIZER_ADAMW : OPTIMIZER_LION,
                                  .beta1 = 0.9,
                                  .beta2 = 0.99,
                                  .eps = 1e-8,
                                  .max_grad_norm = 1,
                                  .defaults.weight_decay = 0.1};
    config_init(&config);
    if (t->two_groups) {
        assert_int_equal(config_read_word(&config, "param_group.norms.match=*norm*", &err), STATUS_OK);
        assert_int_equal(config_read_word(&config, "param_group.norms.lr_scale=0.5", &err), STATUS_OK);
    }
    if (optimizer_lay_ranges(&optimizer, net, &config.groups, &err)) fail_msg("%s", err.text);
    struct rig_dropout dropout = {.probability = 0.1f, .seed = 1};
    network_clear(net);
    for (int i = 0; i < t->micro_batches; i++) {
        rig_tokens((uint64_t)i + 3, t->config.vocab_size, tokens, B * T);
        for (int k = 0; k < B * T; k++) targets[k] = t->padding && k % 3 == 0 ? -100 : tokens[k];
        rig_train(net, tokens, targets, B, T, 1, dropout);
    }
    network_control(net, (struct step_control){.lr = 1e-3f});
    optimizer_step(&optimizer, net);
    network_result(net, &result);
}

/* An evaluation, of fewer sequences than planned, and the next token of a shorter context. */
static void infer(const struct plan_trial *t, struct network *net)
{
    int32_t tokens[80];
    float logits[8 * 60];
    int B = (t->input.B + 1) / 2, T = (t->input.T + 1) / 2;
    rig_tokens(9, t->config.vocab_size, tokens, B * T);
    network_forward(net, (struct batch_view){.inputs = tokens, .B = B, .T = T});
    network_loss(net, (struct batch_view){.labels = tokens, .B = B, .T = T});
    network_forward(net, (struct batch_view){.inputs = tokens, .B = 1, .T = T});
    network_logits(net, T - 1, 1, logits);
    for (int slot = 0; slot < t->input.cache_slots; slot++) {
        int length = t->input.cache_length < 20 ? t->input.cache_length : 20, row;
        row = network_append(net, slot, tokens, length < B * T ? length : B * T);
        network_logits(net, row, 1, logits);
        network_truncate(net, slot, 0);
    }
}

void plan_trial_model(const struct plan_trial *t, struct model *out)
{
    struct err err = {0};
    struct param_groups none = {.count = 0};
    struct storage storage = {.computed = precision_element(t->input.precision)};
    if (model_init(out, &t->config, &err) || (t->adapters.rank && adapter_attach(out, &t->adapters, &err)) ||
        param_groups_freeze(&none, OPTIMIZER_ADAMW, out, &storage, &err))
        fail_msg("%s: %s", t->story, err.text);
}

void plan_trial_run(const struct backend *real, const struct plan_trial *t)
{
    struct backend backend = counting(real);
    struct err err = {0};
    struct device *device;
    struct model model;
    struct plan plan;
    struct network network;
    struct plan_input input = t->input;
    if (backend.device_open(DEVICE_FIRST, 1, &device, &err)) fail_msg("%s", err.text);
    plan_trial_model(t, &model);
    input.model = &model;
    input.library_workspace = backend.library_workspace(device, NULL);
    if (input.allocator == ALLOCATOR_POOL) input.pool_unit = backend.pool_unit(device);
    input.micro_batches = t->micro_batches;
    if (plan_init(&plan, &input, &err)) fail_msg("%s: %s", t->story, err.text);
    if (network_open(&network, &backend, device, &model, &plan, &err)) fail_msg("%s: %s", t->story, err.text);
    expect_the_plan(t, &network, "opened");
    infer(t, &network);
    if (t->input.moments) train(t, &network);
    infer(t, &network);
    expect_the_plan(t, &network, "after a step, an evaluation, a token");
    network_close(&network);
    const char *when = "closed";
    EXPECT("what was given back", asked.freed, asked.calls);
    backend.device_close(device);
    plan_release(&plan);
    model_release(&model);
}
