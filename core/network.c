/* See network.h. */
#include "core/network.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/linear_cross_entropy.h"

enum { SITE_EMBEDDING, SITE_ATTENTION, SITE_FEED_FORWARD };

static void *activation(const struct network *net, size_t offset)
{
    return net->memory[PLAN_ACTIVATIONS] + offset;
}

static void *workspace(const struct network *net, size_t offset)
{
    return net->memory[PLAN_WORKSPACE] + offset;
}

/* What the network computes with of the parameters from element `at` of the arena on. */
static const void *parameter(const struct network *net, size_t at)
{
    return (const unsigned char *)net->compute_weights + at * precision_bytes(net->plan->input.precision);
}

void network_mark(struct network *net, enum phase phase, int layer, enum operation operation)
{
    if (!net->profiler) return;
    struct operation_cost cost = operation_cost(operation, &net->shape);
    profiler_mark(net->profiler, phase, layer, operation_name(operation), cost.bytes, cost.flops);
}

/* cos and sin of position · base^(−2i/HS), (T, HS/2, 2). */
static enum status upload_rope_table(struct network *net, struct err *err)
{
    const struct model_config *c = &net->model->config;
    int T = net->plan->input.T, half = c->head_dim / 2;
    size_t count = (size_t)T * (size_t)half * 2;
    float *table = malloc(count * sizeof *table);
    if (!table) return err_set(err, STATUS_NO_MEMORY, "no memory for the rotary table of %d positions", T);
    for (int t = 0; t < T; t++)
        for (int i = 0; i < half; i++) {
            double angle = t * pow(c->rope_base, -2.0 * i / c->head_dim);
            float *entry = table + ((size_t)t * (size_t)half + (size_t)i) * 2;
            entry[0] = (float)cos(angle);
            entry[1] = (float)sin(angle);
        }
    net->backend->mem_upload(workspace(net, net->plan->rope), table, count * sizeof *table, net->stream);
    enum status status = net->backend->stream_wait(net->stream, err);
    free(table);
    return status;
}

/* To the stream, for its matrix products. */
static void lend_workspace(struct network *net)
{
    size_t bytes = net->plan->input.gemm_workspace;
    if (bytes) net->backend->gemm_lend(net->stream, workspace(net, net->plan->gemm_workspace), bytes);
}

/* The matrix products' workspace comes last in its category, and nobody reads it before writing. */
static size_t zeroed_bytes(const struct plan *plan, int category)
{
    bool lent = category == PLAN_WORKSPACE && plan->input.gemm_workspace > 0;
    return lent ? plan->gemm_workspace : plan->category_bytes[category];
}

enum status network_open(struct network *net, const struct backend *backend, struct device *device,
                         const struct model *model, const struct plan *plan, struct err *err)
{
    struct device_info info;
    backend->device_describe(device, &info);
    if (info.max_head_dim > 0 && model->config.head_dim > info.max_head_dim)
        return err_set(
            err, STATUS_DEVICE,
            "model.head_dim = %d: attention on %s takes heads up to %d wide (use another device, or "
            "narrower heads)",
            model->config.head_dim, info.short_name, info.max_head_dim);
    *net = (struct network){.backend = backend, .device = device, .model = model, .plan = plan};
    net->shape = (struct operation_shape){model, plan->input.precision, plan->input.B, plan->input.T,
                                          plan->loss_chunk};
    struct allocator_options options = {plan->input.allocator, backend, device, plan->total_bytes, NULL};
    enum status status = allocator_open(&options, &net->allocator, err);
    if (!status) status = backend->stream_open(device, plan->input.precision, &net->stream, err);
    for (int i = 0; !status && i < PLAN_CATEGORIES; i++) {
        void *memory = NULL;
        if (!plan->category_bytes[i]) continue;
        status = allocator_alloc(allocator_root(net->allocator), plan_category_name((enum plan_category)i),
                                 plan->category_bytes[i], NULL, &memory, err);
        if (status) break;
        net->memory[i] = memory;
        net->allocated[i] = plan->category_bytes[i];
        backend->mem_zero(memory, zeroed_bytes(plan, i), net->stream);
    }
    if (!status) status = upload_rope_table(net, err);
    if (status) {
        network_close(net);
        return status;
    }
    net->weights = (float *)net->memory[PLAN_WEIGHTS];
    net->gradients = (float *)net->memory[PLAN_GRADIENTS];
    net->compute_weights = net->memory[PLAN_WEIGHTS] + plan->compute_weights;
    lend_workspace(net);
    return STATUS_OK;
}

enum status network_renew_stream(struct network *net, struct err *err)
{
    net->backend->stream_close(net->stream);
    net->stream = NULL;
    enum status status =
        net->backend->stream_open(net->device, net->plan->input.precision, &net->stream, err);
    if (!status) lend_workspace(net);
    return status;
}

void network_close(struct network *net)
{
    if (net->stream) net->backend->stream_close(net->stream); /* waits for what still uses the memory */
    allocator_close(net->allocator);
    *net = (struct network){0};
}

/* ---- the products, for pre-warming ---- */

struct shape_list {
    struct gemm_shape *at;
    int count;
};

static bool same_shape(const struct gemm_shape *a, const struct gemm_shape *b)
{
    return a->M == b->M && a->N == b->N && a->K == b->K && a->transpose_a == b->transpose_a &&
           a->transpose_b == b->transpose_b && a->accumulate == b->accumulate;
}

static void list_shape(struct shape_list *list, struct gemm_shape shape)
{
    for (int i = 0; i < list->count; i++)
        if (same_shape(&list->at[i], &shape)) return;
    assert(list->count < NETWORK_PRODUCTS_MAX);
    list->at[list->count++] = shape;
}

/* A projection of N rows from `in` to `out` columns: forward, and backward to its weight and its input. */
static void list_projection(struct shape_list *list, int N, int out, int in, bool training)
{
    list_shape(list, (struct gemm_shape){.M = N, .N = out, .K = in, .transpose_b = true});
    if (!training) return;
    list_shape(list, (struct gemm_shape){.M = out, .N = in, .K = N, .transpose_a = true, .accumulate = true});
    list_shape(list, (struct gemm_shape){.M = N, .N = in, .K = out});
}

int network_gemm_shapes(const struct plan *plan, struct gemm_shape out[NETWORK_PRODUCTS_MAX])
{
    const struct model_config *c = &plan->input.model->config;
    int N = plan->input.B * plan->input.T, C = c->hidden_dim, F = c->intermediate_dim, V = c->vocab_size;
    int heads = c->num_heads * c->head_dim, Q = heads + 2 * c->num_kv_heads * c->head_dim;
    int tail = N % plan->loss_chunk;
    bool training = plan->input.moments > 0;
    struct shape_list list = {out, 0};
    list_projection(&list, N, Q, C, training);
    list_projection(&list, N, C, heads, training);
    list_projection(&list, N, 2 * F, C, training);
    list_projection(&list, N, C, F, training);
    list_projection(&list, plan->loss_chunk, V, C, training);
    if (tail) list_projection(&list, tail, V, C, training);
    list_projection(&list, 1, V, C, false);
    return list.count;
}

void network_weights_written(struct network *net)
{
    net->backend->cast(net->compute_weights, net->weights, net->model->elements, net->stream);
}

static void drop(struct network *net, enum phase phase, void *x, size_t n, struct network_dropout dropout,
                 int layer, int site)
{
    if (dropout.probability <= 0) return;
    network_mark(net, phase, site == SITE_EMBEDDING ? -1 : layer, OP_DROPOUT);
    struct dropout_site where = {dropout.seed, dropout.step, dropout.micro_batch, (uint16_t)layer,
                                 (uint16_t)site};
    net->backend->dropout(x, n, dropout.probability, where, net->stream);
}

/* From the normalised stream to rotated q, k, v. */
static void forward_qkv(struct network *net, enum phase phase, int l, const void *norm, int B, int T)
{
    const struct backend *be = net->backend;
    const struct model_config *c = &net->model->config;
    const struct layer_params *p = &net->model->layers[l];
    const struct layer_plan *s = &net->plan->layers[l];
    const float *rope = workspace(net, net->plan->rope);
    int N = B * T, C = c->hidden_dim, NH = c->num_heads, NKV = c->num_kv_heads, HS = c->head_dim,
        Q = (NH + 2 * NKV) * HS;
    void *raw = activation(net, s->qkv_raw), *qkv = activation(net, s->qkv);
    network_mark(net, phase, l, OP_GEMM_QKV);
    be->gemm(raw, norm, parameter(net, p->qkv), N, Q, C, false, true, false, net->stream);
    if (c->qkv_bias) network_mark(net, phase, l, OP_BIAS);
    if (c->qkv_bias) be->bias_forward(raw, parameter(net, p->qkv_bias), N, Q, net->stream);
    network_mark(net, phase, l, c->qk_norm ? OP_QK_NORM_ROPE : OP_ROPE);
    if (c->qk_norm)
        be->qk_norm_rope_forward(qkv, activation(net, s->qk_rstd), raw, parameter(net, p->q_norm),
                                 parameter(net, p->k_norm), rope, B, T, NH, NKV, HS, (float)c->norm_eps,
                                 net->stream);
    else
        be->rope_forward(qkv, rope, B, T, NH, NKV, HS, net->stream);
}

/* Layer l from the normalised stream that enters it, in `norm`, to gate and up: all that its backward pass
 * reads. */
static void forward_inner(struct network *net, enum phase phase, int l, int B, int T,
                          struct network_dropout dropout)
{
    const struct backend *be = net->backend;
    const struct plan *plan = net->plan;
    const struct model_config *c = &net->model->config;
    const struct layer_params *p = &net->model->layers[l];
    const struct layer_plan *s = &plan->layers[l];
    struct stream *stream = net->stream;
    int N = B * T, C = c->hidden_dim, F = c->intermediate_dim, NH = c->num_heads, NKV = c->num_kv_heads,
        HS = c->head_dim;
    void *norm = workspace(net, plan->norm), *branch = workspace(net, plan->branch),
         *attn = activation(net, s->attn);
    forward_qkv(net, phase, l, norm, B, T);
    network_mark(net, phase, l, OP_ATTENTION);
    be->attention_forward(attn, activation(net, s->lse), activation(net, s->qkv),
                          workspace(net, plan->scratch), B, T, NH, NKV, HS, stream);
    network_mark(net, phase, l, OP_GEMM_O);
    be->gemm(branch, attn, parameter(net, p->o), N, C, NH * HS, false, true, false, stream);
    drop(net, phase, branch, (size_t)N * (size_t)C, dropout, l, SITE_ATTENTION);
    network_mark(net, phase, l, OP_ADD_NORM);
    be->rmsnorm_residual_forward(activation(net, s->x_mid), norm, activation(net, s->mlp_rstd),
                                 activation(net, s->x), branch, parameter(net, p->mlp_norm), N, C,
                                 (float)c->norm_eps, stream);
    network_mark(net, phase, l, OP_GEMM_GATE_UP);
    be->gemm(activation(net, s->gate_up), norm, parameter(net, p->gate_up), N, 2 * F, C, false, true, false,
             stream);
}

void network_forward(struct network *net, const int32_t *inputs, int B, int T, struct network_dropout dropout)
{
    const struct backend *be = net->backend;
    const struct plan *plan = net->plan;
    const struct model_config *c = &net->model->config;
    struct stream *stream = net->stream;
    int N = B * T, C = c->hidden_dim, F = c->intermediate_dim;
    size_t stream_elements = (size_t)N * (size_t)C;
    float eps = (float)c->norm_eps;
    void *norm = workspace(net, plan->norm), *branch = workspace(net, plan->branch),
         *act = workspace(net, plan->act);
    int32_t *tokens = workspace(net, plan->inputs);

    net->shape.B = B;
    net->shape.T = T;
    network_mark(net, PHASE_DATA, -1, OP_UPLOAD_INPUTS);
    be->mem_upload(tokens, inputs, (size_t)N * sizeof *inputs, stream);
    void *x = activation(net, plan->layers[0].x);
    network_mark(net, PHASE_FORWARD, -1, OP_EMBEDDING);
    be->embedding_forward(x, tokens, parameter(net, net->model->embed), N, C, stream);
    drop(net, PHASE_FORWARD, x, stream_elements, dropout, 0, SITE_EMBEDDING);
    network_mark(net, PHASE_FORWARD, 0, OP_NORM);
    be->rmsnorm_forward(norm, activation(net, plan->layers[0].attn_rstd), x,
                        parameter(net, net->model->layers[0].attn_norm), N, C, eps, stream);
    for (int l = 0; l < c->num_layers; l++) {
        const struct layer_params *p = &net->model->layers[l];
        const struct layer_plan *s = &plan->layers[l];
        bool last = l == c->num_layers - 1;
        void *x_mid = activation(net, s->x_mid), *gate_up = activation(net, s->gate_up);
        void *x_next = activation(net, last ? plan->x_final : plan->layers[l + 1].x);
        float *next_rstd = activation(net, last ? plan->final_rstd : plan->layers[l + 1].attn_rstd);
        const void *next_norm =
            parameter(net, last ? net->model->final_norm : net->model->layers[l + 1].attn_norm);

        forward_inner(net, PHASE_FORWARD, l, B, T, dropout);
        network_mark(net, PHASE_FORWARD, l, OP_SWIGLU);
        be->swiglu_forward(act, gate_up, N, F, stream);
        network_mark(net, PHASE_FORWARD, l, OP_GEMM_DOWN);
        be->gemm(branch, act, parameter(net, p->down), N, C, F, false, true, false, stream);
        drop(net, PHASE_FORWARD, branch, stream_elements, dropout, l, SITE_FEED_FORWARD);
        network_mark(net, PHASE_FORWARD, l, OP_ADD_NORM);
        be->rmsnorm_residual_forward(x_next, norm, next_rstd, x_mid, branch, next_norm, N, C, eps, stream);
    }
}

double network_loss(struct network *net, const int32_t *targets, int B, int T)
{
    const struct plan *plan = net->plan;
    const struct model_config *c = &net->model->config;
    int N = B * T;
    float *losses = workspace(net, plan->losses);
    int32_t *labels = workspace(net, plan->targets);
    net->backend->mem_upload(labels, targets, (size_t)N * sizeof *targets, net->stream);
    linear_cross_entropy_forward(net->backend, losses, workspace(net, plan->norm),
                                 parameter(net, net->model->head), labels, plan->loss_chunk,
                                 workspace(net, plan->logits), N, c->hidden_dim, c->vocab_size,
                                 plan->input.precision, net->stream);
    net->backend->sum(workspace(net, plan->loss_sum), losses, (size_t)N, workspace(net, plan->scratch),
                      net->stream);
    return network_loss_sum(net);
}

double network_loss_sum(struct network *net)
{
    double sum;
    network_mark(net, PHASE_BACKWARD, -1, OP_READ_LOSS);
    net->backend->mem_download(&sum, workspace(net, net->plan->loss_sum), sizeof sum, net->stream);
    return sum;
}

/* fp32 from the bf16 in the lower half of the array, from the end on: nothing is overwritten unread. */
static void widen_bf16(float *values, size_t n)
{
    for (size_t i = n; i-- > 0;) {
        uint16_t narrow;
        memcpy(&narrow, (const unsigned char *)values + i * sizeof narrow, sizeof narrow);
        uint32_t bits = (uint32_t)narrow << 16;
        memcpy(&values[i], &bits, sizeof bits);
    }
}

void network_logits(struct network *net, int row, float *logits)
{
    const struct plan *plan = net->plan;
    size_t C = (size_t)net->model->config.hidden_dim, V = (size_t)net->model->config.vocab_size,
           bytes = precision_bytes(plan->input.precision);
    void *out = workspace(net, plan->logits);
    const unsigned char *norm = workspace(net, plan->norm);
    net->backend->gemm(out, norm + (size_t)row * C * bytes, parameter(net, net->model->head), 1, (int)V,
                       (int)C, false, true, false, net->stream);
    net->backend->mem_download(logits, out, V * bytes, net->stream);
    if (bytes == 2) widen_bf16(logits, V);
}

/* The activations of layer l again, to the bit, from what enters it. */
static void recompute(struct network *net, int l, int B, int T, struct network_dropout dropout)
{
    const struct layer_plan *s = &net->plan->layers[l];
    const struct model_config *c = &net->model->config;
    network_mark(net, PHASE_RECOMPUTE, l, OP_NORM);
    net->backend->rmsnorm_forward(workspace(net, net->plan->norm), activation(net, s->attn_rstd),
                                  activation(net, s->x), parameter(net, net->model->layers[l].attn_norm),
                                  B * T, c->hidden_dim, (float)c->norm_eps, net->stream);
    forward_inner(net, PHASE_RECOMPUTE, l, B, T, dropout);
}

/* The gradient of a projection's output: dx itself, or with dropout a masked copy of it. */
static void *branch_gradient(struct network *net, void *dx, size_t n, struct network_dropout dropout,
                             int layer, int site)
{
    void *copy = workspace(net, net->plan->branch);
    if (dropout.probability <= 0) return dx;
    network_mark(net, PHASE_BACKWARD, layer, OP_COPY_DX);
    net->backend->mem_copy(copy, dx, n * precision_bytes(net->plan->input.precision), net->stream);
    drop(net, PHASE_BACKWARD, copy, n, dropout, layer, site);
    return copy;
}

/* Through the feed-forward half of layer l: dx is the gradient of its output and becomes that of x_mid. */
static void backward_feed_forward(struct network *net, int l, int N, struct network_dropout dropout)
{
    const struct backend *be = net->backend;
    const struct plan *plan = net->plan;
    const struct model_config *c = &net->model->config;
    const struct layer_params *p = &net->model->layers[l];
    const struct layer_plan *s = &plan->layers[l];
    struct stream *stream = net->stream;
    int C = c->hidden_dim, F = c->intermediate_dim;
    const void *x_mid = activation(net, s->x_mid);
    const float *rstd = activation(net, s->mlp_rstd);
    float *g = net->gradients;
    void *dx = workspace(net, plan->dx), *dnorm = workspace(net, plan->branch),
         *norm = workspace(net, plan->norm);
    /* the gradient of gate_up takes its place, that of act the place of act */
    void *gate_up = activation(net, s->gate_up), *act = workspace(net, plan->act);

    void *dbranch = branch_gradient(net, dx, (size_t)N * (size_t)C, dropout, l, SITE_FEED_FORWARD);
    network_mark(net, PHASE_BACKWARD, l, OP_SWIGLU_AGAIN);
    be->swiglu_forward(act, gate_up, N, F, stream);
    network_mark(net, PHASE_BACKWARD, l, OP_GEMM_DOWN_DW);
    be->gemm(g + p->down, dbranch, act, C, F, N, true, false, true, stream);
    network_mark(net, PHASE_BACKWARD, l, OP_GEMM_DOWN_DX);
    be->gemm(act, dbranch, parameter(net, p->down), N, F, C, false, false, false, stream);
    network_mark(net, PHASE_BACKWARD, l, OP_SWIGLU_BACKWARD);
    be->swiglu_backward(gate_up, act, gate_up, N, F, stream);
    network_mark(net, PHASE_BACKWARD, l, OP_NORM_AGAIN);
    be->rmsnorm_recompute(norm, x_mid, parameter(net, p->mlp_norm), rstd, N, C, stream);
    network_mark(net, PHASE_BACKWARD, l, OP_GEMM_GATE_UP_DW);
    be->gemm(g + p->gate_up, gate_up, norm, 2 * F, C, N, true, false, true, stream);
    network_mark(net, PHASE_BACKWARD, l, OP_GEMM_GATE_UP_DX);
    be->gemm(dnorm, gate_up, parameter(net, p->gate_up), N, C, 2 * F, false, false, false, stream);
    network_mark(net, PHASE_BACKWARD, l, OP_NORM_BACKWARD);
    be->rmsnorm_backward(dx, g + p->mlp_norm, dnorm, x_mid, parameter(net, p->mlp_norm), rstd,
                         workspace(net, plan->scratch), N, C, stream);
}

/* Through the attention half of layer l: dx is the gradient of x_mid and becomes that of x. */
static void backward_attention(struct network *net, int l, int B, int T, struct network_dropout dropout)
{
    const struct backend *be = net->backend;
    const struct plan *plan = net->plan;
    const struct model_config *c = &net->model->config;
    const struct layer_params *p = &net->model->layers[l];
    const struct layer_plan *s = &plan->layers[l];
    struct stream *stream = net->stream;
    int N = B * T, C = c->hidden_dim, NH = c->num_heads, NKV = c->num_kv_heads, HS = c->head_dim;
    int Q = (NH + 2 * NKV) * HS;
    const void *x = activation(net, s->x), *attn = activation(net, s->attn);
    const float *rstd = activation(net, s->attn_rstd), *rope = workspace(net, plan->rope);
    float *g = net->gradients;
    void *dx = workspace(net, plan->dx), *dnorm = workspace(net, plan->branch),
         *norm = workspace(net, plan->norm), *dattn = workspace(net, plan->dattn),
         *dqkv = workspace(net, plan->dqkv);
    void *scratch = workspace(net, plan->scratch);

    void *dbranch = branch_gradient(net, dx, (size_t)N * (size_t)C, dropout, l, SITE_ATTENTION);
    network_mark(net, PHASE_BACKWARD, l, OP_GEMM_O_DW);
    be->gemm(g + p->o, dbranch, attn, C, NH * HS, N, true, false, true, stream);
    network_mark(net, PHASE_BACKWARD, l, OP_GEMM_O_DX);
    be->gemm(dattn, dbranch, parameter(net, p->o), N, NH * HS, C, false, false, false, stream);
    network_mark(net, PHASE_BACKWARD, l, OP_ATTENTION_BACKWARD);
    be->attention_backward(dqkv, dattn, attn, activation(net, s->lse), activation(net, s->qkv), scratch, B, T,
                           NH, NKV, HS, stream);
    network_mark(net, PHASE_BACKWARD, l, c->qk_norm ? OP_QK_NORM_ROPE_BACKWARD : OP_ROPE_BACKWARD);
    if (c->qk_norm)
        be->qk_norm_rope_backward(dqkv, g + p->q_norm, g + p->k_norm, activation(net, s->qkv_raw),
                                  activation(net, s->qk_rstd), parameter(net, p->q_norm),
                                  parameter(net, p->k_norm), rope, scratch, B, T, NH, NKV, HS, stream);
    else
        be->rope_backward(dqkv, rope, B, T, NH, NKV, HS, stream);
    if (c->qkv_bias) network_mark(net, PHASE_BACKWARD, l, OP_BIAS_BACKWARD);
    if (c->qkv_bias) be->bias_backward(g + p->qkv_bias, dqkv, scratch, N, Q, stream);
    network_mark(net, PHASE_BACKWARD, l, OP_NORM_AGAIN);
    be->rmsnorm_recompute(norm, x, parameter(net, p->attn_norm), rstd, N, C, stream);
    network_mark(net, PHASE_BACKWARD, l, OP_GEMM_QKV_DW);
    be->gemm(g + p->qkv, dqkv, norm, Q, C, N, true, false, true, stream);
    network_mark(net, PHASE_BACKWARD, l, OP_GEMM_QKV_DX);
    be->gemm(dnorm, dqkv, parameter(net, p->qkv), N, C, Q, false, false, false, stream);
    network_mark(net, PHASE_BACKWARD, l, OP_NORM_BACKWARD);
    be->rmsnorm_backward(dx, g + p->attn_norm, dnorm, x, parameter(net, p->attn_norm), rstd, scratch, N, C,
                         stream);
}

void network_backward(struct network *net, const int32_t *targets, int B, int T, float loss_scale,
                      struct network_dropout dropout)
{
    const struct backend *be = net->backend;
    const struct plan *plan = net->plan;
    const struct model *model = net->model;
    const struct model_config *c = &model->config;
    struct stream *stream = net->stream;
    int N = B * T, C = c->hidden_dim, V = c->vocab_size;
    float *losses = workspace(net, plan->losses);
    void *dx = workspace(net, plan->dx), *dnorm = workspace(net, plan->branch);
    int32_t *labels = workspace(net, plan->targets);
    void *scratch = workspace(net, plan->scratch);

    network_mark(net, PHASE_DATA, -1, OP_UPLOAD_TARGETS);
    be->mem_upload(labels, targets, (size_t)N * sizeof *targets, stream);
    network_mark(net, PHASE_BACKWARD, -1, OP_HEAD_AND_LOSS);
    linear_cross_entropy(be, losses, dnorm, net->gradients + model->head, workspace(net, plan->norm),
                         parameter(net, model->head), labels, loss_scale, plan->loss_chunk,
                         workspace(net, plan->logits), N, C, V, plan->input.precision, stream);
    network_mark(net, PHASE_BACKWARD, -1, OP_LOSS_SUM);
    be->sum(workspace(net, plan->loss_sum), losses, (size_t)N, scratch, stream);
    network_mark(net, PHASE_BACKWARD, -1, OP_ZERO_DX);
    be->mem_zero(dx, (size_t)N * (size_t)C * precision_bytes(plan->input.precision), stream);
    network_mark(net, PHASE_BACKWARD, -1, OP_NORM_BACKWARD);
    be->rmsnorm_backward(dx, net->gradients + model->final_norm, dnorm, activation(net, plan->x_final),
                         parameter(net, model->final_norm), activation(net, plan->final_rstd), scratch, N, C,
                         stream);
    for (int l = c->num_layers - 1; l >= 0; l--) {
        if (plan_recomputes(plan, l)) recompute(net, l, B, T, dropout);
        backward_feed_forward(net, l, N, dropout);
        backward_attention(net, l, B, T, dropout);
    }
    drop(net, PHASE_BACKWARD, dx, (size_t)N * (size_t)C, dropout, 0, SITE_EMBEDDING);
    network_mark(net, PHASE_BACKWARD, -1, OP_EMBEDDING_BACKWARD);
    be->embedding_backward(net->gradients + model->embed, dx, workspace(net, plan->inputs), scratch, N, V, C,
                           stream);
}
