/* See plan.h. One function walks the network once; what it adds is what training uses. */
#include "core/plan.h"

#include <stdint.h>
#include <string.h>

#include "kernels/linear_cross_entropy.h"

enum { ALIGN = 256 };

const char *plan_category_name(enum plan_category category)
{
    static const char *const names[PLAN_CATEGORIES] = {"weights", "gradients", "moments", "activations",
                                                       "workspace"};
    return names[category];
}

/* Appends a buffer and returns its offset within its category. */
static size_t add(struct plan *plan, enum plan_category category, int layer, const char *name, size_t bytes)
{
    size_t offset = plan->category_bytes[category];
    plan->buffers[plan->buffer_count++] = (struct plan_buffer){name, category, layer, bytes, offset};
    size_t padded = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    plan->category_bytes[category] += padded;
    plan->total_bytes += padded;
    return offset;
}

static size_t largest(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Each chunk passes once over the (V, C) gradient, so few large chunks move less memory; past 512 rows the
 * logits only grow. At most 64 MiB of logits, at least 64 rows: measured with tests/bench/bench_kernels. */
static int loss_chunk_rows(size_t N, int V, enum precision precision)
{
    size_t rows = ((size_t)64 << 20) / ((size_t)V * precision_bytes(precision)) / 64 * 64;
    if (rows > 512) rows = 512;
    if (rows < 64) rows = 64;
    return (int)(rows < N ? rows : N);
}

bool plan_recomputes(const struct plan *plan, int layer)
{
    int interval = plan->input.activation_interval;
    return plan->input.moments == 0 || (interval > 0 && layer % interval == 0);
}

/* What a layer computes from its input; layer -1: one set for all that share it. */
static void plan_inner(struct plan *plan, struct layer_plan *s, int layer, size_t N)
{
    static const char *const names[][2] = {
        {"attention norm rstd", "shared attention norm rstd"},
        {"q, k, v", "shared q, k, v"},
        {"q, k, v before their norm", "shared q, k, v before their norm"},
        {"q, k norm rstd", "shared q, k norm rstd"},
        {"attention output", "shared attention output"},
        {"attention log-sum-exp", "shared attention log-sum-exp"},
        {"residual stream between", "shared residual stream between"},
        {"feed-forward norm rstd", "shared feed-forward norm rstd"},
        {"gate, up", "shared gate, up"},
    };
    const struct model_config *c = &plan->input.model->config;
    size_t f = sizeof(float), e = precision_bytes(plan->input.precision), C = (size_t)c->hidden_dim,
           F = (size_t)c->intermediate_dim, HS = (size_t)c->head_dim;
    size_t NH = (size_t)c->num_heads, NKV = (size_t)c->num_kv_heads, Q = (NH + 2 * NKV) * HS;
    int shared = layer < 0;
    s->attn_rstd = add(plan, PLAN_ACTIVATIONS, layer, names[0][shared], N * f);
    s->qkv = add(plan, PLAN_ACTIVATIONS, layer, names[1][shared], N * Q * e);
    s->qkv_raw = s->qkv;
    if (c->qk_norm) {
        s->qkv_raw = add(plan, PLAN_ACTIVATIONS, layer, names[2][shared], N * Q * e);
        s->qk_rstd = add(plan, PLAN_ACTIVATIONS, layer, names[3][shared], N * (NH + NKV) * f);
    }
    s->attn = add(plan, PLAN_ACTIVATIONS, layer, names[4][shared], N * NH * HS * e);
    s->lse = add(plan, PLAN_ACTIVATIONS, layer, names[5][shared], N * NH * f);
    s->x_mid = add(plan, PLAN_ACTIVATIONS, layer, names[6][shared], N * C * e);
    s->mlp_rstd = add(plan, PLAN_ACTIVATIONS, layer, names[7][shared], N * f);
    s->gate_up = add(plan, PLAN_ACTIVATIONS, layer, names[8][shared], N * 2 * F * e);
}

static void plan_layers(struct plan *plan, size_t N)
{
    size_t e = precision_bytes(plan->input.precision), C = (size_t)plan->input.model->config.hidden_dim;
    const struct layer_plan *shared = NULL;
    for (int l = 0; l < plan->input.model->config.num_layers; l++) {
        struct layer_plan *layer = &plan->layers[l];
        bool recomputes = plan_recomputes(plan, l);
        if (recomputes && shared)
            *layer = *shared;
        else
            plan_inner(plan, layer, recomputes ? -1 : l, N);
        if (recomputes) shared = layer;
        layer->x = add(plan, PLAN_ACTIVATIONS, l, "residual stream in", N * C * e);
    }
}

static void plan_workspace(struct plan *plan, size_t N)
{
    const struct plan_input *in = &plan->input;
    const struct model_config *c = &in->model->config;
    size_t f = sizeof(float), e = precision_bytes(in->precision), C = (size_t)c->hidden_dim,
           F = (size_t)c->intermediate_dim, HS = (size_t)c->head_dim;
    size_t NH = (size_t)c->num_heads, NKV = (size_t)c->num_kv_heads, Q = (NH + 2 * NKV) * HS;
    bool training = in->moments > 0;
    plan->rope = add(plan, PLAN_WORKSPACE, -1, "rotary table", (size_t)in->T * HS * f);
    plan->batch[0] = add(plan, PLAN_WORKSPACE, -1, "tokens of a batch", 2 * N * sizeof(int32_t));
    plan->losses = add(plan, PLAN_WORKSPACE, -1, "losses", N * f);
    plan->loss_sum = add(plan, PLAN_WORKSPACE, -1, "loss sum", sizeof(double));
    plan->norm = add(plan, PLAN_WORKSPACE, -1, "normalised stream", N * C * e);
    plan->branch = add(plan, PLAN_WORKSPACE, -1, "projection output and its gradient", N * C * e);
    plan->act = add(plan, PLAN_WORKSPACE, -1, "feed-forward activation and its gradient", N * F * e);
    plan->loss_chunk = loss_chunk_rows(N, c->vocab_size, in->precision);
    size_t logits = linear_cross_entropy_workspace(plan->loss_chunk, c->vocab_size, in->precision);
    plan->logits = add(plan, PLAN_WORKSPACE, -1, "logits of a chunk", logits);
    size_t scratch = largest(attention_workspace(in->B, in->T, c->num_heads, c->num_kv_heads, c->head_dim),
                             reduce_workspace(N));
    if (training) {
        plan->batch[1] = add(plan, PLAN_WORKSPACE, -1, "tokens of the next batch", 2 * N * sizeof(int32_t));
        plan->host_bytes = 2 * (2 * N * sizeof(int32_t) + sizeof(struct step_result));
        plan->control = add(plan, PLAN_WORKSPACE, -1, "step control", sizeof(struct step_control));
        plan->result = add(plan, PLAN_WORKSPACE, -1, "result of a step", sizeof(struct step_result));
        plan->weights_clip = add(plan, PLAN_WORKSPACE, -1, "norm of the weights", sizeof(struct clip_state));
        plan->ranges = add(plan, PLAN_WORKSPACE, -1, "table of update ranges",
                           in->model->param_count * sizeof(struct update_range));
        plan->dx = add(plan, PLAN_WORKSPACE, -1, "gradient of the stream", N * C * e);
        plan->dattn = add(plan, PLAN_WORKSPACE, -1, "gradient of attention", N * NH * HS * e);
        plan->dqkv = add(plan, PLAN_WORKSPACE, -1, "gradient of q, k, v", N * Q * e);
        scratch = largest(scratch, embedding_backward_workspace((int)N, c->vocab_size));
        scratch = largest(scratch, rmsnorm_backward_workspace((int)N, c->hidden_dim));
        scratch = largest(scratch, reduce_workspace(in->model->elements));
        if (c->qkv_bias) scratch = largest(scratch, bias_backward_workspace((int)N, (int)Q));
        if (c->qk_norm)
            scratch = largest(
                scratch, qk_norm_rope_backward_workspace((int)N, c->num_heads, c->num_kv_heads, c->head_dim));
    }
    plan->scratch_bytes = scratch;
    plan->scratch = add(plan, PLAN_WORKSPACE, -1, "scratch of operations", scratch);
    if (in->gemm_workspace)
        plan->gemm_workspace =
            add(plan, PLAN_WORKSPACE, -1, "workspace of matrix products", in->gemm_workspace);
}

enum precision plan_precision(const char *name, enum precision best)
{
    for (int p = 0; p < PRECISIONS; p++)
        if (strcmp(name, precision_name((enum precision)p)) == 0) return (enum precision)p;
    return best;
}

enum status plan_init(struct plan *plan, const struct plan_input *input, struct err *err)
{
    const struct model *model = input->model;
    int L = model->config.num_layers;
    size_t N = (size_t)input->B * (size_t)input->T, bytes = model->elements * sizeof(float);
    *plan = (struct plan){.input = *input, .buffer_capacity = (size_t)L * 10 + 32};
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
    if (input->moments > 0) plan->gradients = add(plan, PLAN_GRADIENTS, -1, "gradients", bytes);
    if (input->moments > 0) plan->moment1 = add(plan, PLAN_MOMENTS, -1, "first moment", bytes);
    if (input->moments > 1) plan->moment2 = add(plan, PLAN_MOMENTS, -1, "second moment", bytes);
    plan_layers(plan, N);
    plan->x_final = add(plan, PLAN_ACTIVATIONS, -1, "residual stream out",
                        N * (size_t)model->config.hidden_dim * precision_bytes(input->precision));
    plan->final_rstd = add(plan, PLAN_ACTIVATIONS, -1, "final norm rstd", N * sizeof(float));
    plan_workspace(plan, N);
    return STATUS_OK;
}

void plan_release(struct plan *plan)
{
    arena_release(&plan->arena);
    *plan = (struct plan){0};
}
