/* The forward and the backward pass. Which buffers each operation uses, and so how long their content is
 * needed, is the planner's business, too: plan.c follows this file operation by operation. */
#include "core/network/linear.h"
#include "core/network/network_parts.h"

#include <string.h>

#include "kernels/linear_cross_entropy.h"

enum { SITE_EMBEDDING, SITE_ATTENTION, SITE_FEED_FORWARD };

static void drop(struct network *net, enum phase phase, void *x, size_t n, float probability, int layer,
                 int site)
{
    if (probability <= 0) return;
    network_mark(net, phase, site == SITE_EMBEDDING ? -1 : layer, OP_DROPOUT);
    struct dropout_site where = {workspace(net, net->plan->control), (uint16_t)layer, (uint16_t)site};
    net->backend->dropout(x, n, probability, where, net->stream);
}

static void control_pass(struct network *net, struct network_dropout dropout, float loss_scale)
{
    struct step_control control = {.seed = dropout.seed,
                                   .step = dropout.step,
                                   .micro_batch = dropout.micro_batch,
                                   .loss_scale = loss_scale};
    network_control(net, control);
}

/* From the normalised stream to rotated q, k, v. */
static void forward_qkv(struct network *net, enum phase phase, int l, const void *norm, int B, int T)
{
    const struct backend *be = net->backend;
    const struct model_config *c = &net->model->config;
    const struct layer_params *p = &net->model->layers[l];
    const struct layer_plan *s = &net->plan->layers[l];
    const float *rope = workspace(net, net->plan->rope);
    int N = B * T, NH = c->num_heads, NKV = c->num_kv_heads, HS = c->head_dim, Q = (NH + 2 * NKV) * HS;
    void *raw = inner(net, s, s->qkv_raw), *qkv = inner(net, s, s->qkv);
    network_mark(net, phase, l, OP_GEMM_QKV);
    linear_forward(net, raw, norm, N, &p->qkv);
    if (c->qkv_bias) network_mark(net, phase, l, OP_BIAS);
    if (c->qkv_bias) be->bias_forward(raw, parameter(net, p->qkv_bias), N, Q, net->stream);
    network_mark(net, phase, l, c->qk_norm ? OP_QK_NORM_ROPE : OP_ROPE);
    if (c->qk_norm)
        be->qk_norm_rope_forward(qkv, inner(net, s, s->qk_rstd), raw, parameter(net, p->q_norm),
                                 parameter(net, p->k_norm), rope, B, T, NH, NKV, HS, (float)c->norm_eps,
                                 net->stream);
    else
        be->rope_forward(qkv, rope, B, T, NH, NKV, HS, net->stream);
}

/* Layer l from the normalised stream that enters it, in `norm`, to gate and up: all that its backward pass
 * reads. */
static void forward_inner(struct network *net, enum phase phase, int l, int B, int T, float dropout)
{
    const struct backend *be = net->backend;
    const struct plan *plan = net->plan;
    const struct model_config *c = &net->model->config;
    const struct layer_params *p = &net->model->layers[l];
    const struct layer_plan *s = &plan->layers[l];
    struct stream *stream = net->stream;
    int N = B * T, C = c->hidden_dim, NH = c->num_heads, NKV = c->num_kv_heads, HS = c->head_dim;
    void *norm = workspace(net, plan->norm), *branch = workspace(net, plan->branch),
         *attn = inner(net, s, s->attn);
    forward_qkv(net, phase, l, norm, B, T);
    network_mark(net, phase, l, OP_ATTENTION);
    be->attention_forward(attn, inner(net, s, s->lse), inner(net, s, s->qkv), workspace(net, plan->scratch),
                          B, T, NH, NKV, HS, stream);
    network_mark(net, phase, l, OP_GEMM_O);
    linear_forward(net, branch, attn, N, &p->o);
    drop(net, phase, branch, (size_t)N * (size_t)C, dropout, l, SITE_ATTENTION);
    network_mark(net, phase, l, OP_ADD_NORM);
    be->rmsnorm_residual_forward(inner(net, s, s->x_mid), norm, inner(net, s, s->mlp_rstd),
                                 stream_at(net, s->x), branch, parameter(net, p->mlp_norm), N, C,
                                 (float)c->norm_eps, stream);
    network_mark(net, phase, l, OP_GEMM_GATE_UP);
    linear_forward(net, inner(net, s, s->gate_up), norm, N, &p->gate_up);
}

/* Over tokens (B,T) in device memory. */
static void forward(struct network *net, const int32_t *tokens, int B, int T, float dropout)
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
    void *x = stream_at(net, plan->layers[0].x);

    net->shape.B = B;
    net->shape.T = T;
    network_mark(net, PHASE_FORWARD, -1, OP_EMBEDDING);
    be->embedding_forward(x, tokens, parameter(net, net->model->embed), N, C, stream);
    drop(net, PHASE_FORWARD, x, stream_elements, dropout, 0, SITE_EMBEDDING);
    network_mark(net, PHASE_FORWARD, 0, OP_NORM);
    be->rmsnorm_forward(norm, inner(net, &plan->layers[0], plan->layers[0].attn_rstd), x,
                        parameter(net, net->model->layers[0].attn_norm), N, C, eps, stream);
    for (int l = 0; l < c->num_layers; l++) {
        const struct layer_params *p = &net->model->layers[l];
        const struct layer_plan *s = &plan->layers[l];
        bool last = l == c->num_layers - 1;
        void *x_mid = inner(net, s, s->x_mid), *gate_up = inner(net, s, s->gate_up);
        void *x_next = stream_at(net, last ? plan->x_final : plan->layers[l + 1].x);
        float *next_rstd = last ? stream_at(net, plan->final_rstd)
                                : inner(net, &plan->layers[l + 1], plan->layers[l + 1].attn_rstd);
        const void *next_norm =
            parameter(net, last ? net->model->final_norm : net->model->layers[l + 1].attn_norm);

        forward_inner(net, PHASE_FORWARD, l, B, T, dropout);
        network_mark(net, PHASE_FORWARD, l, OP_SWIGLU);
        be->swiglu_forward(act, gate_up, N, F, stream);
        network_mark(net, PHASE_FORWARD, l, OP_GEMM_DOWN);
        linear_forward(net, branch, act, N, &p->down);
        drop(net, PHASE_FORWARD, branch, stream_elements, dropout, l, SITE_FEED_FORWARD);
        network_mark(net, PHASE_FORWARD, l, OP_ADD_NORM);
        be->rmsnorm_residual_forward(x_next, norm, next_rstd, x_mid, branch, next_norm, N, C, eps, stream);
    }
}

/* Batches from the host are the first; targets follow the inputs of the largest one. */
static int32_t *labels(struct network *net)
{
    return network_batch(net, 0) + (size_t)net->plan->input.B * (size_t)net->plan->input.T;
}

void network_forward(struct network *net, const int32_t *inputs, int B, int T, struct network_dropout dropout)
{
    net->backend->mem_upload(network_batch(net, 0), inputs, (size_t)B * (size_t)T * sizeof *inputs,
                             net->stream);
    if (dropout.probability > 0) control_pass(net, dropout, 0);
    forward(net, network_batch(net, 0), B, T, dropout.probability);
}

double network_loss(struct network *net, const int32_t *targets, int B, int T)
{
    const struct plan *plan = net->plan;
    const struct model_config *c = &net->model->config;
    int N = B * T;
    float *losses = workspace(net, plan->losses);
    double *loss_sum = workspace(net, plan->loss_sum), sum;
    net->backend->mem_upload(labels(net), targets, (size_t)N * sizeof *targets, net->stream);
    linear_cross_entropy_forward(net->backend, losses, workspace(net, plan->norm),
                                 linear_view(net, &net->model->head), labels(net), plan->loss_chunk,
                                 workspace(net, plan->logits), N, c->hidden_dim, c->vocab_size,
                                 plan->input.precision, net->stream);
    net->backend->sum(loss_sum, losses, (size_t)N, false, workspace(net, plan->scratch), net->stream);
    net->backend->mem_download(&sum, loss_sum, sizeof sum, net->stream);
    return sum;
}

void network_result(struct network *net, struct step_result *out)
{
    net->backend->mem_download(out, workspace(net, net->plan->result), sizeof *out, net->stream);
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
    linear_forward(net, out, norm + (size_t)row * C * bytes, 1, &net->model->head);
    net->backend->mem_download(logits, out, V * bytes, net->stream);
    if (bytes == 2) widen_bf16(logits, V);
}

/* The activations of layer l again, to the bit, from what enters it. */
static void recompute(struct network *net, int l, int B, int T, float dropout)
{
    const struct layer_plan *s = &net->plan->layers[l];
    const struct model_config *c = &net->model->config;
    network_mark(net, PHASE_RECOMPUTE, l, OP_NORM);
    net->backend->rmsnorm_forward(workspace(net, net->plan->norm), inner(net, s, s->attn_rstd),
                                  stream_at(net, s->x), parameter(net, net->model->layers[l].attn_norm),
                                  B * T, c->hidden_dim, (float)c->norm_eps, net->stream);
    forward_inner(net, PHASE_RECOMPUTE, l, B, T, dropout);
}

/* The gradient of a projection's output: dx itself, or with dropout a masked copy of it. */
static void *branch_gradient(struct network *net, void *dx, size_t n, float dropout, int layer, int site)
{
    void *copy = workspace(net, net->plan->branch);
    if (dropout <= 0) return dx;
    network_mark(net, PHASE_BACKWARD, layer, OP_COPY_DX);
    net->backend->mem_copy(copy, dx, n * precision_bytes(net->plan->input.precision), net->stream);
    drop(net, PHASE_BACKWARD, copy, n, dropout, layer, site);
    return copy;
}

/* Through the feed-forward half of layer l: dx is the gradient of its output and becomes that of x_mid. */
static void backward_feed_forward(struct network *net, int l, int N, float dropout)
{
    const struct backend *be = net->backend;
    const struct plan *plan = net->plan;
    const struct model_config *c = &net->model->config;
    const struct layer_params *p = &net->model->layers[l];
    const struct layer_plan *s = &plan->layers[l];
    struct stream *stream = net->stream;
    int C = c->hidden_dim, F = c->intermediate_dim;
    const void *x_mid = inner(net, s, s->x_mid);
    const float *rstd = inner(net, s, s->mlp_rstd);
    void *dx = workspace(net, plan->dx), *dnorm = workspace(net, plan->branch),
         *norm = workspace(net, plan->norm);
    /* the gradient of gate_up takes its place, that of act the place of act */
    void *gate_up = inner(net, s, s->gate_up), *act = workspace(net, plan->act);

    void *dbranch = branch_gradient(net, dx, (size_t)N * (size_t)C, dropout, l, SITE_FEED_FORWARD);
    network_mark(net, PHASE_BACKWARD, l, OP_SWIGLU_AGAIN);
    be->swiglu_forward(act, gate_up, N, F, stream);
    linear_backward(net, act, dbranch, act, N, &p->down, l, OP_GEMM_DOWN_DW);
    network_mark(net, PHASE_BACKWARD, l, OP_SWIGLU_BACKWARD);
    be->swiglu_backward(gate_up, act, gate_up, N, F, stream);
    network_mark(net, PHASE_BACKWARD, l, OP_NORM_AGAIN);
    be->rmsnorm_recompute(norm, x_mid, parameter(net, p->mlp_norm), rstd, N, C, stream);
    linear_backward(net, dnorm, gate_up, norm, N, &p->gate_up, l, OP_GEMM_GATE_UP_DW);
    network_mark(net, PHASE_BACKWARD, l, OP_NORM_BACKWARD);
    be->rmsnorm_backward(dx, gradient(net, p->mlp_norm), dnorm, x_mid, parameter(net, p->mlp_norm), rstd,
                         workspace(net, plan->scratch), N, C, stream);
}

/* Through the attention half of layer l: dx is the gradient of x_mid and becomes that of x. */
static void backward_attention(struct network *net, int l, int B, int T, float dropout)
{
    const struct backend *be = net->backend;
    const struct plan *plan = net->plan;
    const struct model_config *c = &net->model->config;
    const struct layer_params *p = &net->model->layers[l];
    const struct layer_plan *s = &plan->layers[l];
    struct stream *stream = net->stream;
    int N = B * T, C = c->hidden_dim, NH = c->num_heads, NKV = c->num_kv_heads, HS = c->head_dim;
    int Q = (NH + 2 * NKV) * HS;
    const void *x = stream_at(net, s->x), *attn = inner(net, s, s->attn);
    const float *rstd = inner(net, s, s->attn_rstd), *rope = workspace(net, plan->rope);
    void *dx = workspace(net, plan->dx), *dnorm = workspace(net, plan->branch),
         *norm = workspace(net, plan->norm), *dattn = workspace(net, plan->dattn),
         *dqkv = workspace(net, plan->dqkv);
    void *scratch = workspace(net, plan->scratch);

    void *dbranch = branch_gradient(net, dx, (size_t)N * (size_t)C, dropout, l, SITE_ATTENTION);
    linear_backward(net, dattn, dbranch, attn, N, &p->o, l, OP_GEMM_O_DW);
    network_mark(net, PHASE_BACKWARD, l, OP_ATTENTION_BACKWARD);
    be->attention_backward(dqkv, dattn, attn, inner(net, s, s->lse), inner(net, s, s->qkv), scratch, B, T, NH,
                           NKV, HS, stream);
    network_mark(net, PHASE_BACKWARD, l, c->qk_norm ? OP_QK_NORM_ROPE_BACKWARD : OP_ROPE_BACKWARD);
    if (c->qk_norm)
        be->qk_norm_rope_backward(dqkv, gradient(net, p->q_norm), gradient(net, p->k_norm),
                                  inner(net, s, s->qkv_raw), inner(net, s, s->qk_rstd),
                                  parameter(net, p->q_norm), parameter(net, p->k_norm), rope, scratch, B, T,
                                  NH, NKV, HS, stream);
    else
        be->rope_backward(dqkv, rope, B, T, NH, NKV, HS, stream);
    if (c->qkv_bias) network_mark(net, PHASE_BACKWARD, l, OP_BIAS_BACKWARD);
    if (c->qkv_bias) be->bias_backward(gradient(net, p->qkv_bias), dqkv, scratch, N, Q, stream);
    network_mark(net, PHASE_BACKWARD, l, OP_NORM_AGAIN);
    be->rmsnorm_recompute(norm, x, parameter(net, p->attn_norm), rstd, N, C, stream);
    linear_backward(net, dnorm, dqkv, norm, N, &p->qkv, l, OP_GEMM_QKV_DW);
    network_mark(net, PHASE_BACKWARD, l, OP_NORM_BACKWARD);
    be->rmsnorm_backward(dx, gradient(net, p->attn_norm), dnorm, x, parameter(net, p->attn_norm), rstd,
                         scratch, N, C, stream);
}

/* tokens and targets (B,T) in device memory. */
static void backward(struct network *net, const int32_t *tokens, const int32_t *targets, int B, int T,
                     float dropout)
{
    const struct backend *be = net->backend;
    const struct plan *plan = net->plan;
    const struct model *model = net->model;
    const struct model_config *c = &model->config;
    struct stream *stream = net->stream;
    int N = B * T, C = c->hidden_dim, V = c->vocab_size;
    float *losses = workspace(net, plan->losses);
    void *dx = workspace(net, plan->dx), *dnorm = workspace(net, plan->branch);
    struct step_result *result = workspace(net, plan->result);
    void *scratch = workspace(net, plan->scratch);

    network_mark(net, PHASE_BACKWARD, -1, OP_HEAD_AND_LOSS);
    linear_cross_entropy(be, losses, dnorm, gradient(net, model->head.parts), workspace(net, plan->norm),
                         linear_view(net, &model->head), targets, workspace(net, plan->control),
                         plan->loss_chunk, workspace(net, plan->logits), N, C, V, plan->input.precision,
                         stream);
    network_mark(net, PHASE_BACKWARD, -1, OP_LOSS_SUM);
    be->sum(&result->loss_sum, losses, (size_t)N, true, scratch, stream);
    network_mark(net, PHASE_BACKWARD, -1, OP_ZERO_DX);
    be->mem_zero(dx, (size_t)N * (size_t)C * precision_bytes(plan->input.precision), stream);
    network_mark(net, PHASE_BACKWARD, -1, OP_NORM_BACKWARD);
    be->rmsnorm_backward(dx, gradient(net, model->final_norm), dnorm, stream_at(net, plan->x_final),
                         parameter(net, model->final_norm), stream_at(net, plan->final_rstd), scratch, N, C,
                         stream);
    for (int l = c->num_layers - 1; l >= 0; l--) {
        if (plan_recomputes(plan, l)) recompute(net, l, B, T, dropout);
        backward_feed_forward(net, l, N, dropout);
        backward_attention(net, l, B, T, dropout);
    }
    drop(net, PHASE_BACKWARD, dx, (size_t)N * (size_t)C, dropout, 0, SITE_EMBEDDING);
    network_mark(net, PHASE_BACKWARD, -1, OP_EMBEDDING_BACKWARD);
    be->embedding_backward(gradient(net, model->embed), dx, tokens, scratch, N, V, C, stream);
}

void network_backward(struct network *net, const int32_t *targets, int B, int T, float loss_scale,
                      struct network_dropout dropout)
{
    net->backend->mem_upload(labels(net), targets, (size_t)B * (size_t)T * sizeof *targets, net->stream);
    control_pass(net, dropout, loss_scale);
    backward(net, network_batch(net, 0), labels(net), B, T, dropout.probability);
}

void network_micro_batch(struct network *net, const int32_t *tokens, int B, int T, float dropout)
{
    forward(net, tokens, B, T, dropout);
    backward(net, tokens, tokens + (size_t)B * (size_t)T, B, T, dropout);
}
