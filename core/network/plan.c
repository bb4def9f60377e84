/* See plan.h. What is added here is what training uses; core/network/network.c is its other half. */
#include "core/network/plan.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "core/network/placement.h"
#include "kernels/linear_cross_entropy.h"

enum { ALIGN = 256, SHARING_MAX = 24, BUFFERS_BESIDE_LAYERS = 48, STAGING_BYTES = 1 << 20 };

/* While a layer's activations are computed, and from there to where they are read last. */
enum {
    FORWARD_INNER = STAGE_QKV | STAGE_ATTENTION | STAGE_JOIN | STAGE_GATE,
    BACKWARD = STAGE_BACK_DOWN | STAGE_BACK_GATE | STAGE_BACK_NORM | STAGE_BACK_JOIN | STAGE_BACK_ATTENTION |
               STAGE_BACK_QKV,
};

const char *plan_category_name(enum plan_category category)
{
    static const char *const names[PLAN_CATEGORIES] = {"weights",   "gradients", "moments", "activations",
                                                       "workspace", "host",      "snapshot"};
    return names[category];
}

bool plan_category_is_host(enum plan_category category)
{
    return category == PLAN_HOST || category == PLAN_SNAPSHOT;
}

static size_t pad(size_t bytes)
{
    return (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

/* Appends a buffer with a place of its own, behind all others, and returns its offset within its category. */
static size_t add(struct plan *plan, enum plan_category category, int layer, const char *name, size_t bytes)
{
    size_t offset = plan->category_bytes[category];
    assert(plan->buffer_count < plan->buffer_capacity);
    plan->buffers[plan->buffer_count++] =
        (struct plan_buffer){name, category, layer, bytes, offset, STAGE_ALWAYS};
    plan->category_bytes[category] += pad(bytes);
    return offset;
}

/* Buffers of the workspace that share places: collected, and placed when all are known. */
struct sharing {
    struct placement at[SHARING_MAX];
    size_t *offset[SHARING_MAX]; /* where each offset is to be written */
    size_t count, first;         /* the plan's buffer that is at[0] */
};

static void share(struct plan *plan, struct sharing *sharing, const char *name, size_t bytes, unsigned stages,
                  size_t *offset)
{
    size_t i = sharing->count++;
    assert(i < SHARING_MAX && plan->buffer_count < plan->buffer_capacity);
    if (i == 0) sharing->first = plan->buffer_count;
    plan->buffers[plan->buffer_count++] = (struct plan_buffer){name, PLAN_WORKSPACE, -1, bytes, 0, stages};
    sharing->at[i] = (struct placement){pad(bytes), stages, 0};
    sharing->offset[i] = offset;
}

/* Gives all of them their places, behind what the workspace has already. */
static void place_shared(struct plan *plan, struct sharing *sharing)
{
    size_t base = plan->category_bytes[PLAN_WORKSPACE];
    plan->category_bytes[PLAN_WORKSPACE] += placement_solve(sharing->at, sharing->count);
    for (size_t i = 0; i < sharing->count; i++)
        plan->buffers[sharing->first + i].offset = *sharing->offset[i] = base + sharing->at[i].offset;
}

static size_t largest(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Each chunk passes once over the (V, C) gradient, so few large chunks move less memory; past 512 rows the
 * logits only grow. At most 64 MiB of logits, at least 64 rows: measured with tests/bench/bench_kernels.
 * Without training there is no gradient to pass over: 64 rows do. */
static int loss_chunk_rows(size_t N, int V, enum precision precision, bool training)
{
    size_t rows = ((size_t)64 << 20) / ((size_t)V * precision_bytes(precision)) / 64 * 64;
    if (rows > 512) rows = 512;
    if (rows < 64 || !training) rows = 64;
    return (int)(rows < N ? rows : N);
}

size_t plan_device_bytes(const struct plan *plan)
{
    size_t bytes = 0;
    for (int i = 0; i < PLAN_CATEGORIES; i++)
        if (!plan_category_is_host((enum plan_category)i)) bytes += plan->category_bytes[i];
    return bytes;
}

enum status plan_reserved(const struct plan *plan, size_t *out, struct err *err)
{
    size_t sizes[PLAN_CATEGORIES], device = plan_device_bytes(plan);
    int count = 0;
    for (int i = 0; i < PLAN_CATEGORIES; i++)
        if (!plan_category_is_host((enum plan_category)i)) sizes[count++] = plan->category_bytes[i];
    enum status status =
        allocator_rehearse(plan->input.allocator, plan->input.pool_unit, sizes, count, out, err);
    *out += plan->total_bytes - device;
    return status;
}

bool plan_recomputes(const struct plan *plan, int layer)
{
    int interval = plan->input.activation_interval;
    return plan->input.moments == 0 || (interval > 0 && layer % interval == 0);
}

/* What a layer computes from its input: where, and in which stages it counts when all layers share one set,
 * in the forward pass alone and with a backward pass that computes it again. Of each the size in bytes. */
struct inner_buffer {
    const char *name, *shared_name;
    size_t bytes;
    unsigned forward, again;
    size_t *offset; /* in the struct layer_plan that list_inner was given */
};

enum { INNER_MAX = 9 };

/* Returns how many there are. Nothing that the backward pass reads of the second half lives longer than that
 * half: from STAGE_BACK_JOIN on, only attention's. */
static int list_inner(const struct plan *plan, struct layer_plan *s, struct inner_buffer out[INNER_MAX])
{
    const struct model_config *c = &plan->input.model->config;
    size_t N = (size_t)plan->input.B * (size_t)plan->input.T, f = sizeof(float),
           e = precision_bytes(plan->input.precision), C = (size_t)c->hidden_dim,
           F = (size_t)c->intermediate_dim, HS = (size_t)c->head_dim;
    size_t NH = (size_t)c->num_heads, NKV = (size_t)c->num_kv_heads, Q = (NH + 2 * NKV) * HS;
    unsigned first_half = STAGE_QKV | STAGE_ATTENTION | STAGE_JOIN;
    unsigned attention = FORWARD_INNER | (BACKWARD & ~(unsigned)STAGE_BACK_QKV),
             whole = FORWARD_INNER | BACKWARD, rstd = whole | STAGE_ACTIVATE | STAGE_DOWN | STAGE_NEXT;
    int n = 0;
    out[n++] = (struct inner_buffer){"attention norm rstd", "shared attention norm rstd", N * f, rstd, rstd,
                                     &s->attn_rstd};
    out[n++] = (struct inner_buffer){"q, k, v", "shared q, k, v", N * Q * e, STAGE_QKV | STAGE_ATTENTION,
                                     attention, &s->qkv};
    if (c->qk_norm) {
        out[n++] = (struct inner_buffer){"q, k, v before their norm",
                                         "shared q, k, v before their norm",
                                         N * Q * e,
                                         STAGE_QKV,
                                         attention,
                                         &s->qkv_raw};
        out[n++] = (struct inner_buffer){
            "q, k norm rstd", "shared q, k norm rstd", N * (NH + NKV) * f, STAGE_QKV, attention, &s->qk_rstd};
    }
    out[n++] = (struct inner_buffer){"attention output", "shared attention output",
                                     N * NH * HS * e,    STAGE_ATTENTION | STAGE_JOIN,
                                     attention,          &s->attn};
    out[n++] = (struct inner_buffer){
        "attention log-sum-exp", "shared attention log-sum-exp", N * NH * f, first_half, attention, &s->lse};
    if (plan->input.moments > 0)
        out[n++] = (struct inner_buffer){"residual stream between",
                                         "shared residual stream between",
                                         N * C * e,
                                         0,
                                         STAGE_JOIN | STAGE_GATE | STAGE_ACTIVATE | STAGE_DOWN | STAGE_NEXT |
                                             STAGE_BACK_DOWN | STAGE_BACK_GATE | STAGE_BACK_NORM,
                                         &s->x_mid};
    out[n++] = (struct inner_buffer){
        "feed-forward norm rstd", "shared feed-forward norm rstd", N * f, rstd, rstd, &s->mlp_rstd};
    out[n++] = (struct inner_buffer){"gate, up",
                                     "shared gate, up",
                                     N * 2 * F * e,
                                     STAGE_GATE | STAGE_ACTIVATE,
                                     STAGE_GATE | STAGE_ACTIVATE | STAGE_BACK_DOWN | STAGE_BACK_GATE,
                                     &s->gate_up};
    return n;
}

/* The set of activations that all layers share which compute theirs again. */
static void share_inner(struct plan *plan, struct sharing *sharing, struct layer_plan *shared)
{
    struct inner_buffer list[INNER_MAX];
    int count = list_inner(plan, shared, list);
    bool training = plan->input.moments > 0;
    for (int i = 0; i < count; i++)
        share(plan, sharing, list[i].shared_name, list[i].bytes, training ? list[i].again : list[i].forward,
              list[i].offset);
}

/* After the workspace is placed, where `shared` is. */
static void plan_layers(struct plan *plan, const struct layer_plan *shared, size_t stream_bytes)
{
    const struct model_config *c = &plan->input.model->config;
    bool training = plan->input.moments > 0;
    for (int l = 0; l < c->num_layers; l++) {
        struct layer_plan *layer = &plan->layers[l];
        struct inner_buffer list[INNER_MAX];
        *layer = *shared;
        layer->inner = plan_recomputes(plan, l) ? PLAN_WORKSPACE : PLAN_ACTIVATIONS;
        int count = plan_recomputes(plan, l) ? 0 : list_inner(plan, layer, list);
        for (int i = 0; i < count; i++)
            *list[i].offset = add(plan, PLAN_ACTIVATIONS, l, list[i].name, list[i].bytes);
        if (training) layer->x = add(plan, PLAN_ACTIVATIONS, l, "residual stream in", stream_bytes);
        if (!c->qk_norm) layer->qkv_raw = layer->qkv;
    }
}

/* What is written before a step and read after it, or small. */
static void plan_standing(struct plan *plan, size_t N)
{
    const struct plan_input *in = &plan->input;
    plan->rope = add(plan, PLAN_WORKSPACE, -1, "rotary table",
                     (size_t)in->T * (size_t)in->model->config.head_dim * sizeof(float));
    plan->batch[0] = add(plan, PLAN_WORKSPACE, -1, "tokens of a batch", 2 * N * sizeof(int32_t));
    plan->losses = add(plan, PLAN_WORKSPACE, -1, "losses", N * sizeof(float));
    plan->loss_sum = add(plan, PLAN_WORKSPACE, -1, "loss sum", sizeof(double));
    if (in->moments == 0) return;
    plan->batch[1] = add(plan, PLAN_WORKSPACE, -1, "tokens of the next batch", 2 * N * sizeof(int32_t));
    plan->control = add(plan, PLAN_WORKSPACE, -1, "step control", sizeof(struct step_control));
    plan->result = add(plan, PLAN_WORKSPACE, -1, "result of a step", sizeof(struct step_result));
    plan->ranges = add(plan, PLAN_WORKSPACE, -1, "table of update ranges",
                       in->model->param_count * sizeof(struct update_range));
    plan->weights_clip = add(plan, PLAN_WORKSPACE, -1, "norm of the weights", sizeof(struct clip_state));
}

/* The largest workspace that any single operation asks for. */
static size_t scratch_bytes(const struct plan_input *in)
{
    const struct model_config *c = &in->model->config;
    int N = in->B * in->T, Q = (c->num_heads + 2 * c->num_kv_heads) * c->head_dim;
    size_t bytes = largest(attention_workspace(in->B, in->T, c->num_heads, c->num_kv_heads, c->head_dim),
                           reduce_workspace((size_t)N));
    if (in->moments == 0) return bytes;
    bytes = largest(bytes, embedding_backward_workspace(N, c->vocab_size));
    bytes = largest(bytes, rmsnorm_backward_workspace(N, c->hidden_dim));
    bytes = largest(bytes, reduce_workspace(in->model->elements));
    if (c->qkv_bias) bytes = largest(bytes, bias_backward_workspace(N, Q));
    if (c->qk_norm)
        bytes =
            largest(bytes, qk_norm_rope_backward_workspace(N, c->num_heads, c->num_kv_heads, c->head_dim));
    return bytes;
}

/* How many rows of logits there are at a time, and with them that buffer's size. By itself: all of them where
 * that makes the workspace no larger than a chunk would, because they fit where the backward pass has its
 * buffers. Then nothing is won by passing over the head's gradient more than once. */
static void plan_logits(struct plan *plan, struct sharing *sharing, size_t which, size_t N)
{
    int V = plan->input.model->config.vocab_size;
    enum precision precision = plan->input.precision;
    struct placement *logits = &sharing->at[which];
    int chunk = loss_chunk_rows(N, V, precision, plan->input.moments > 0);
    size_t fused = linear_cross_entropy_workspace(chunk, V, precision),
           plain = linear_cross_entropy_workspace((int)N, V, precision);
    bool all = plan->input.loss == PLAN_LOSS_PLAIN;
    if (plan->input.loss == PLAN_LOSS_AUTO) {
        logits->bytes = pad(fused);
        size_t height = placement_solve(sharing->at, sharing->count);
        logits->bytes = pad(plain);
        all = placement_solve(sharing->at, sharing->count) <= height;
    }
    plan->loss_chunk = all ? (int)N : chunk;
    plan->buffers[sharing->first + which].bytes = all ? plain : fused;
    logits->bytes = pad(all ? plain : fused);
}

/* The workspace's sharing part. The stages follow core/network/network_pass.c, operation by operation. */
static void plan_workspace(struct plan *plan, struct layer_plan *shared, size_t N)
{
    const struct plan_input *in = &plan->input;
    const struct model_config *c = &in->model->config;
    size_t e = precision_bytes(in->precision), C = (size_t)c->hidden_dim, F = (size_t)c->intermediate_dim,
           heads = (size_t)c->num_heads * (size_t)c->head_dim,
           Q = heads + 2 * (size_t)c->num_kv_heads * (size_t)c->head_dim;
    bool training = in->moments > 0, again = plan_recomputes(plan, 0);
    unsigned projected = STAGE_JOIN | STAGE_DOWN | STAGE_NEXT,
             forward = FORWARD_INNER | STAGE_ACTIVATE | projected;
    struct sharing sharing = {.count = 0};
    if (training) projected |= STAGE_LOSS | STAGE_FINAL | (BACKWARD & ~(unsigned)STAGE_BACK_ATTENTION);
    share(plan, &sharing, "normalised stream", N * C * e,
          STAGE_QKV | STAGE_JOIN | STAGE_GATE | STAGE_NEXT | STAGE_LOSS | STAGE_FINAL | STAGE_BACK_GATE |
              STAGE_BACK_QKV,
          &plan->norm);
    share(plan, &sharing, "projection output and its gradient", N * C * e, projected, &plan->branch);
    share(plan, &sharing, "feed-forward activation and its gradient", N * F * e,
          STAGE_ACTIVATE | STAGE_DOWN | STAGE_BACK_DOWN, &plan->act);
    size_t logits = sharing.count;
    share(plan, &sharing, "logits", 0, STAGE_LOSS, &plan->logits);
    plan->scratch_bytes = scratch_bytes(in);
    share(plan, &sharing, "scratch of operations", plan->scratch_bytes,
          STAGE_ATTENTION | STAGE_FINAL | STAGE_BACK_NORM | STAGE_BACK_ATTENTION | STAGE_UPDATE,
          &plan->scratch);
    if (again) share_inner(plan, &sharing, shared);
    if (!training) {
        share(plan, &sharing, "residual stream", N * C * e, forward, &shared->x);
    } else {
        share(plan, &sharing, "gradient of the stream", N * C * e,
              STAGE_FINAL | BACKWARD | STAGE_UPDATE | (again ? FORWARD_INNER : 0), &plan->dx);
        share(plan, &sharing, "gradient of attention", N * heads * e, STAGE_BACK_JOIN | STAGE_BACK_ATTENTION,
              &plan->dattn);
        share(plan, &sharing, "gradient of q, k, v", N * Q * e, STAGE_BACK_ATTENTION | STAGE_BACK_QKV,
              &plan->dqkv);
    }
    plan_logits(plan, &sharing, logits, N);
    place_shared(plan, &sharing);
    if (in->gemm_workspace)
        plan->gemm_workspace =
            add(plan, PLAN_WORKSPACE, -1, "workspace of matrix products", in->gemm_workspace);
}

enum precision plan_precision(enum precision_choice choice, enum precision best)
{
    _Static_assert(CHOOSE_FP32 - 1 == (int)PRECISION_FP32 && PRECISION_CHOICES - 1 == (int)PRECISIONS,
                   "the words of train.precision are auto and the precisions");
    return choice == CHOOSE_BEST ? best : (enum precision)(choice - 1);
}

enum status plan_init(struct plan *plan, const struct plan_input *input, struct err *err)
{
    const struct model *model = input->model;
    int L = model->config.num_layers;
    size_t N = (size_t)input->B * (size_t)input->T, bytes = model->elements * sizeof(float),
           stream_bytes = N * (size_t)model->config.hidden_dim * precision_bytes(input->precision);
    bool training = input->moments > 0;
    struct layer_plan shared = {.inner = PLAN_WORKSPACE};
    *plan = (struct plan){.input = *input,
                          .buffer_capacity = (size_t)L * (INNER_MAX + 1) + BUFFERS_BESIDE_LAYERS};
    arena_init(&plan->arena, 65536);
    plan->buffers = arena_alloc_array(&plan->arena, plan->buffer_capacity, sizeof *plan->buffers);
    plan->layers = arena_alloc_array(&plan->arena, (size_t)L, sizeof *plan->layers);
    if (!plan->buffers || !plan->layers) {
        plan_release(plan);
        return err_set(err, STATUS_NO_MEMORY, "no memory to plan %d layers", L);
    }
    plan->weights = add(plan, PLAN_WEIGHTS, -1, "weights", bytes);
    plan->compute_weights = plan->weights;
    if (precision_bytes(input->precision) != sizeof(float))
        plan->compute_weights = add(plan, PLAN_WEIGHTS, -1, "weights as computed with",
                                    model->elements * precision_bytes(input->precision));
    if (training) plan->gradients = add(plan, PLAN_GRADIENTS, -1, "gradients", bytes);
    if (training) plan->moment1 = add(plan, PLAN_MOMENTS, -1, "first moment", bytes);
    if (input->moments > 1) plan->moment2 = add(plan, PLAN_MOMENTS, -1, "second moment", bytes);
    plan_standing(plan, N);
    plan->stream = training ? PLAN_ACTIVATIONS : PLAN_WORKSPACE;
    plan->final_rstd = add(plan, plan->stream, -1, "final norm rstd", N * sizeof(float));
    plan_workspace(plan, &shared, N);
    if (!training) plan->x_final = shared.x_mid = shared.x;
    plan_layers(plan, &shared, stream_bytes);
    if (training) plan->x_final = add(plan, PLAN_ACTIVATIONS, -1, "residual stream out", stream_bytes);
    plan->host_logits = add(plan, PLAN_HOST, -1, "logits of the next token",
                            (size_t)model->config.vocab_size * sizeof(float));
    plan->host_context =
        add(plan, PLAN_HOST, -1, "tokens that come before it", (size_t)input->T * sizeof(int32_t));
    plan->staging_bytes = bytes < STAGING_BYTES ? bytes : STAGING_BYTES;
    plan->staging = add(plan, PLAN_HOST, -1, "staging of weights", plan->staging_bytes);
    if (training) {
        int each = input->micro_batches > 0 ? input->micro_batches : 1;
        plan->host_batch_count =
            each < PLAN_HOST_BATCHES_MAX / PLAN_FLIGHTS ? PLAN_FLIGHTS * each : PLAN_HOST_BATCHES_MAX;
        plan->host_batches = add(plan, PLAN_HOST, -1, "batches on their way",
                                 (size_t)plan->host_batch_count * 2 * N * sizeof(int32_t));
        plan->host_results =
            add(plan, PLAN_HOST, -1, "results on their way", PLAN_FLIGHTS * sizeof(struct step_result));
    }
    static const char *const copies[] = {"copy of the weights", "copy of the first moment",
                                         "copy of the second moment"};
    for (int i = 0; i < input->snapshot; i++)
        plan->snapshot[i] = add(plan, PLAN_SNAPSHOT, -1, copies[i], bytes);
    for (int i = 0; i < PLAN_CATEGORIES; i++)
        if (input->host_counts || !plan_category_is_host((enum plan_category)i))
            plan->total_bytes += plan->category_bytes[i];
    return STATUS_OK;
}

void plan_release(struct plan *plan)
{
    arena_release(&plan->arena);
    *plan = (struct plan){0};
}
