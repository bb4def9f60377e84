/* The passes, one line per operation. They name buffers but not lifetimes: the planner derives these from a
 * recorded network_walk (record.h). */
#include <assert.h>
#include <string.h>

#include "core/base/half.h"
#include "core/network/exchange.h"
#include "core/network/linear.h"
#include "core/network/muon.h"
#include "kernels/linear_cross_entropy.h"

void network_point(struct network *net)
{
    const struct plan_input *in = &net->plan->input;
    net->slice = plan_slice(in, in->rank);
    net->owned = plan_owned(in);
    net->weights = (float *)network_at(net, BUFFER_WEIGHTS, 0) + (net->owned.begin - plan_held(in).begin);
    net->gradients = network_at(net, BUFFER_GRADIENTS, 0);
    net->compute_weights = network_at(net, BUFFER_COMPUTE_WEIGHTS, 0);
    net->frozen = network_at(net, BUFFER_FROZEN, 0);
}

void network_observe(struct network *net, struct observer *observer)
{
    net->table = observer ? observed_backend() : net->backend;
    net->calls = observer ? observed_stream(observer) : net->stream;
    if (!observer) return;
    observer->backend = net->backend;
    observer->stream = net->stream;
    observer->precision = net->plan->input.precision;
}

/* ---- labels of calls ---- */

bool network_is_collective(enum operation operation)
{
    return operation == OPERATION_all_reduce || operation == OPERATION_all_reduce_value ||
           operation == OPERATION_reduce_slices || operation == OPERATION_gather_slices;
}

const char *network_label(const struct network *net, const struct operation_call *call)
{
#define PRODUCTS(name)                                                                                       \
    {                                                                                                        \
        "gemm " name, "gemm " name " dx", "gemm " name " dW"                                                 \
    }
#define LABELS(name)                                                                                         \
    {                                                                                                        \
        {PRODUCTS(name), PRODUCTS(name " lora A"), PRODUCTS(name " lora B")}, "bias " name,                  \
            "dequantise " name                                                                               \
    }
    static const struct labels {
        const char *products[WEIGHT_PARTS][3], *bias, *dequantise;
    } all[WEIGHTS] = {
        [WEIGHT_HEAD] = LABELS("head"),       [WEIGHT_QKV] = LABELS("qkv"),   [WEIGHT_O] = LABELS("o"),
        [WEIGHT_GATE_UP] = LABELS("gate_up"), [WEIGHT_DOWN] = LABELS("down"),
    };
#undef LABELS
#undef PRODUCTS
    const struct labels *of = &all[net->where.weight];
    bool backward = net->where.phase == PHASE_BACKWARD;
    if (call->operation == OPERATION_gemm && net->where.phase == PHASE_OPTIMIZER) return "gemm muon";
    if (call->operation == OPERATION_gemm) {
        struct gemm_shape shape = operation_product(call);
        return of->products[net->where.part][shape.transpose_a ? 2 : shape.transpose_b ? 0 : 1];
    }
    if (call->operation == OPERATION_nf4_dequantise) return of->dequantise;
    if (call->operation == OPERATION_gemm_few_rows) return of->products[net->where.part][0];
    if (call->operation == OPERATION_bias_forward || call->operation == OPERATION_bias_backward)
        return of->bias;
    if (call->operation == OPERATION_mem_copy && net->where.part) return "copy lora input";
    if (call->operation == OPERATION_mem_zero) return backward ? "zero dx" : "zero gradients";
    return call->label;
}

int32_t *network_batch(struct network *net, int slot)
{
    return network_at(net, slot ? BUFFER_NEXT_BATCH : BUFFER_BATCH, 0);
}

void network_control(struct network *net, struct step_control control)
{
    net->backend->control_set(network_at(net, BUFFER_CONTROL, 0), control, net->stream);
}

/* ---- operations ---- */

enum { SITE_EMBEDDING, SITE_ATTENTION, SITE_FEED_FORWARD }; /* adapters have others: linear.c */

/* The sizes, table and stream that every operation of a pass over (B,T) tokens uses. */
struct pass {
    struct network *net;
    const struct backend *k;
    struct stream *s;
    const struct model_config *c;
    int B, T, N, C, F, V, NH, NKV, HS;
    size_t NC;
    float eps, dropout;
    const int32_t *positions; /* (B,T) in device memory; NULL: rows are sequences */
    bool cached; /* the rows belong to sequences in the KV cache: BUFFER_ROW_SLOTS and _POSITIONS */
    bool fresh;  /* cached, and all rows are the beginning of one sequence */
    int longest; /* of the cached sequences, this pass included */
};

static struct pass pass_of(struct network *net, int B, int T, const int32_t *positions, float dropout)
{
    const struct model_config *c = &net->model->config;
    return (struct pass){.net = net,
                         .k = net->table,
                         .s = net->calls,
                         .c = c,
                         .B = B,
                         .T = T,
                         .N = B * T,
                         .C = c->hidden_dim,
                         .F = c->intermediate_dim,
                         .V = c->vocab_size,
                         .NH = c->num_heads,
                         .NKV = c->num_kv_heads,
                         .HS = c->head_dim,
                         .NC = (size_t)B * (size_t)T * (size_t)c->hidden_dim,
                         .eps = (float)c->norm_eps,
                         .dropout = dropout,
                         .positions = positions};
}

/* Shorthands: an operation; a buffer, or layer l's; a parameter's weights for computing; its gradient. */
#define CALL(operation, ...) p->k->operation(__VA_ARGS__, p->s)
#define THE(buffer)          network_at(p->net, BUFFER_##buffer, 0)
#define AT(buffer, l)        network_at(p->net, BUFFER_##buffer, l)
#define W(param)             parameter(p->net, param)
#define G(param)             gradient(p->net, param)
#define HEADS                p->B, p->T, p->NH, p->NKV, p->HS

static void drop(const struct pass *p, void *x, int layer, int site)
{
    if (p->dropout <= 0) return;
    struct dropout_site where = {THE(CONTROL), (uint16_t)layer, (uint16_t)site, (size_t)p->T * (size_t)p->C};
    CALL(dropout, x, p->NC, p->dropout, where);
}

/* Layer l from the normalised stream to gate and up: everything that its backward pass reads. */
static void forward_inner(const struct pass *p, int l)
{
    const struct layer_params *w = &p->net->model->layers[l];
    void *qkv = AT(QKV, l), *raw = AT(QKV_RAW, l);
    int cache_length = p->net->plan->input.cache_length;
    linear_forward(p->net, raw, THE(NORM), p->N, &w->qkv);
    const int32_t *positions = p->positions, *slots = THE(ROW_SLOTS);
    if (p->c->qk_norm)
        CALL(qk_norm_rope_forward, qkv, AT(QK_RSTD, l), raw, W(w->q_norm), W(w->k_norm), THE(ROPE), positions,
             HEADS, p->eps);
    else
        CALL(rope, qkv, THE(ROPE), positions, HEADS, false);
    if (p->cached)
        CALL(cache_store, AT(KEYS, l), AT(VALUES, l), qkv, slots, positions, p->N, cache_length, p->NH,
             p->NKV, p->HS);
    if (p->cached && !p->fresh)
        CALL(attention_cached, AT(ATTN, l), qkv, AT(KEYS, l), AT(VALUES, l), slots, positions, THE(SCRATCH),
             p->N, p->longest, cache_length, p->NH, p->NKV, p->HS, w->window);
    else
        CALL(attention_forward, AT(ATTN, l), AT(LSE, l), qkv, positions, THE(SCRATCH), HEADS, w->window);
    linear_forward(p->net, THE(BRANCH), AT(ATTN, l), p->N, &w->o);
    drop(p, THE(BRANCH), l, SITE_ATTENTION);
    CALL(rmsnorm_residual_forward, AT(X_MID, l), THE(NORM), AT(MLP_RSTD, l), AT(X, l), THE(BRANCH),
         W(w->mlp_norm), p->N, p->C, p->eps);
    linear_forward(p->net, AT(GATE_UP, l), THE(NORM), p->N, &w->gate_up);
}

/* Over tokens (B,T) in device memory. */
static void forward(const struct pass *p, const int32_t *tokens)
{
    const struct model *model = p->net->model;
    int L = p->c->num_layers;
    network_enter(p->net, PHASE_FORWARD, -1);
    p->net->where.infers = p->cached;
    exchange_await(p->net, param_place(0, PLACE_ATTENTION_NORM));
    CALL(embedding_forward, AT(X, 0), tokens, parameter_view(p->net, model->embed), p->N, p->V, p->C);
    drop(p, AT(X, 0), 0, SITE_EMBEDDING);
    network_enter(p->net, PHASE_FORWARD, 0);
    CALL(rmsnorm_forward, THE(NORM), AT(ATTN_RSTD, 0), AT(X, 0), W(model->layers[0].attn_norm), p->N, p->C,
         p->eps);
    for (int l = 0; l < L; l++) {
        const struct layer_params *w = &model->layers[l];
        const struct param *next_norm = l + 1 < L ? model->layers[l + 1].attn_norm : model->final_norm;
        network_enter(p->net, PHASE_FORWARD, l);
        exchange_await(p->net, param_place(l + 1, PLACE_ATTENTION_NORM)); /* of the norm behind it, too */
        forward_inner(p, l);
        CALL(swiglu_forward, THE(ACT), AT(GATE_UP, l), p->N, p->F);
        linear_forward(p->net, THE(BRANCH), THE(ACT), p->N, &w->down);
        drop(p, THE(BRANCH), l, SITE_FEED_FORWARD);
        CALL(rmsnorm_residual_forward, AT(X, l + 1), THE(NORM), AT(ATTN_RSTD, l + 1), AT(X_MID, l),
             THE(BRANCH), W(next_norm), p->N, p->C, p->eps);
    }
    exchange_await(p->net, param_place(L, PLACE_HEAD));
    p->net->where.infers = false;
}

/* Of a classifier that pools so: the rows with a target become the mean of their sequences. */
static void pool(const struct pass *p, const int32_t *targets)
{
    if (p->c->num_labels && p->c->pooling == POOLING_MEAN)
        CALL(mean_pool_forward, THE(NORM), targets, p->positions, p->B, p->T, p->C);
}

/* The weight of each class in the loss. NULL: the model is no classifier. */
static const float *class_weights(const struct pass *p)
{
    return p->c->num_labels ? THE(CLASS_WEIGHTS) : NULL;
}

/* Room for the logits of a chunk of rows. */
static struct matrix logits_view(const struct pass *p)
{
    const struct plan *plan = p->net->plan;
    return matrix_view(THE(LOGITS), precision_element(plan->input.precision), plan->logits_stride);
}

/* The sum of the losses at targets (B,T) in device memory, to BUFFER_LOSS_SUM. */
static void loss(const struct pass *p, const int32_t *targets)
{
    const struct linear *head = &p->net->model->head;
    network_enter(p->net, PHASE_FORWARD, -1);
    pool(p, targets);
    p->net->where.weight = WEIGHT_HEAD;
    linear_cross_entropy(p->k, THE(LOSSES), NULL, NULL, THE(NORM), linear_view(p->net, head), targets,
                         class_weights(p), NULL, p->net->plan->loss_chunk, false, logits_view(p), p->N, p->C,
                         head->rows, p->s);
    CALL(sum, THE(LOSS_SUM), THE(LOSSES), (size_t)p->N, false, THE(SCRATCH));
}

/* Recomputes the activations of layer l from its saved input, bit for bit. */
static void recompute(const struct pass *p, int l)
{
    network_enter(p->net, PHASE_RECOMPUTE, l);
    CALL(rmsnorm_forward, THE(NORM), AT(ATTN_RSTD, l), AT(X, l), W(p->net->model->layers[l].attn_norm), p->N,
         p->C, p->eps);
    forward_inner(p, l);
}

/* The gradient of a projection's output: DX itself, or with dropout a masked copy of it. */
static void *branch_gradient(const struct pass *p, int layer, int site)
{
    if (p->dropout <= 0) return THE(DX);
    CALL(mem_copy, THE(BRANCH), THE(DX), p->NC * precision_bytes(p->net->plan->input.precision));
    drop(p, THE(BRANCH), layer, site);
    return THE(BRANCH);
}

/* Backward through a projection and the norm of x (N,C) before it: DX += the gradient of x, from dout of the
 * projection. The norm's output, which the weights need, is computed again on the way. */
static void backward_normed(const struct pass *p, const void *dout, const void *x, const struct linear *w,
                            const struct param *norm, float *rstd, bool needs_dx)
{
    void *normed = linear_is_frozen(w) ? NULL : THE(NORM);
    linear_backward_input(p->net, needs_dx ? THE(BRANCH) : NULL, dout, p->N, w);
    if (needs_dx)
        CALL(rmsnorm_backward, THE(DX), G(norm), normed, THE(BRANCH), x, W(norm), rstd, THE(SCRATCH), p->N,
             p->C);
    else if (normed)
        CALL(rmsnorm_forward, normed, rstd, x, W(norm), p->N, p->C, p->eps);
    linear_backward_weights(p->net, dout, normed, p->N, w);
}

/* Backward through the feed-forward half of layer l: DX holds the gradient of its output and becomes that of
 * X_MID. The gradient of GATE_UP overwrites GATE_UP; ACT has its own gradient before it is computed again. */
static void backward_feed_forward(const struct pass *p, int l)
{
    const struct layer_params *w = &p->net->model->layers[l];
    void *dbranch = branch_gradient(p, l, SITE_FEED_FORWARD), *gate_up = AT(GATE_UP, l), *act = THE(ACT);
    bool needs_gate_up = needed(p->net, l, PLACE_GATE_UP);
    linear_backward_bias(p->net, dbranch, p->N, &w->down);
    linear_backward_input(p->net, needs_gate_up ? act : NULL, dbranch, p->N, &w->down);
    if (needs_gate_up)
        CALL(swiglu_backward, gate_up, linear_is_frozen(&w->down) ? NULL : act, act, gate_up, p->N, p->F);
    else if (!linear_is_frozen(&w->down))
        CALL(swiglu_forward, act, gate_up, p->N, p->F);
    linear_backward_weights(p->net, dbranch, act, p->N, &w->down);
    if (!needs_gate_up) return;
    linear_backward_bias(p->net, gate_up, p->N, &w->gate_up);
    backward_normed(p, gate_up, AT(X_MID, l), &w->gate_up, w->mlp_norm, AT(MLP_RSTD, l),
                    needed(p->net, l, PLACE_FEED_FORWARD_NORM));
}

/* Backward through the attention half of layer l: DX holds the gradient of X_MID and becomes that of X. */
static void backward_attention(const struct pass *p, int l)
{
    const struct layer_params *w = &p->net->model->layers[l];
    void *dbranch = branch_gradient(p, l, SITE_ATTENTION), *dqkv = THE(DQKV), *scratch = THE(SCRATCH);
    void *dattn = needed(p->net, l, PLACE_QK_NORM) ? THE(DATTN) : NULL;
    linear_backward_bias(p->net, dbranch, p->N, &w->o);
    linear_backward_input(p->net, dattn, dbranch, p->N, &w->o);
    linear_backward_weights(p->net, dbranch, AT(ATTN, l), p->N, &w->o);
    if (!dattn) return;
    CALL(attention_backward, dqkv, dattn, AT(ATTN, l), AT(LSE, l), AT(QKV, l), p->positions,
         p->c->qk_norm ? NULL : THE(ROPE), scratch, HEADS, w->window);
    if (p->c->qk_norm)
        CALL(qk_norm_rope_backward, dqkv, G(w->q_norm), G(w->k_norm), AT(QKV_RAW, l), AT(QK_RSTD, l),
             W(w->q_norm), W(w->k_norm), THE(ROPE), p->positions, scratch, HEADS);
    linear_backward_bias(p->net, dqkv, p->N, &w->qkv);
    if (!needed(p->net, l, PLACE_QKV)) return;
    backward_normed(p, dqkv, AT(X, l), &w->qkv, w->attn_norm, AT(ATTN_RSTD, l),
                    needed(p->net, l, PLACE_ATTENTION_NORM));
}

/* tokens and targets (B,T) in device memory. */
static void backward(const struct pass *p, const int32_t *tokens, const int32_t *targets)
{
    const struct model *model = p->net->model;
    const struct plan *plan = p->net->plan;
    struct step_result *result = THE(RESULT);
    int L = p->c->num_layers;
    network_enter(p->net, PHASE_BACKWARD, -1);
    pool(p, targets);
    p->net->where.weight = WEIGHT_HEAD;
    void *dnorm = needed(p->net, L, PLACE_FINAL_NORM) ? THE(BRANCH) : NULL;
    linear_cross_entropy(p->k, THE(LOSSES), dnorm, G(model->head.parts), THE(NORM),
                         linear_view(p->net, &model->head), targets, class_weights(p), THE(CONTROL),
                         plan->loss_chunk, p->net->adds, logits_view(p), p->N, p->C, model->head.rows, p->s);
    CALL(sum, &result->loss_sum, THE(LOSSES), (size_t)p->N, true, THE(SCRATCH));
    if (!dnorm) return;
    if (p->c->num_labels && p->c->pooling == POOLING_MEAN)
        CALL(mean_pool_backward, dnorm, targets, p->positions, p->B, p->T, p->C);
    CALL(mem_zero, THE(DX), p->NC * precision_bytes(plan->input.precision));
    CALL(rmsnorm_backward, THE(DX), G(model->final_norm), NULL, THE(BRANCH), AT(X, L), W(model->final_norm),
         AT(ATTN_RSTD, L), THE(SCRATCH), p->N, p->C);
    exchange_final(p->net, param_place(L, PLACE_FINAL_NORM));
    for (int l = L - 1; l >= 0 && needed(p->net, l, PLACE_DOWN); l--) {
        if (plan_recomputes(plan, l)) recompute(p, l);
        network_enter(p->net, PHASE_BACKWARD, l);
        backward_feed_forward(p, l);
        if (needed(p->net, l, PLACE_O)) backward_attention(p, l);
        exchange_final(p->net, param_place(l, PLACE_ATTENTION_NORM));
    }
    if (model->embed->frozen) return;
    network_enter(p->net, PHASE_BACKWARD, -1);
    drop(p, THE(DX), 0, SITE_EMBEDDING);
    CALL(embedding_backward, G(model->embed), THE(DX), tokens, THE(SCRATCH), p->N, p->V, p->C);
}

/* The arrays of a batch (B,T) at `slot`, one after the other. */
static struct batch_view device_batch(struct network *net, int slot, int B, int T, bool packed)
{
    const int32_t *at = network_batch(net, slot);
    size_t N = (size_t)B * (size_t)T;
    return (struct batch_view){at, at + N, packed ? at + 2 * N : NULL, B, T};
}

static void micro_batch(struct network *net, struct batch_view batch, float dropout)
{
    struct pass pass = pass_of(net, batch.B, batch.T, batch.positions, dropout);
    net->where.trains = true;
    forward(&pass, batch.inputs);
    backward(&pass, batch.inputs, batch.labels);
    net->where.trains = false;
    net->adds = true;
}

void network_micro_batch(struct network *net, int slot, float dropout)
{
    const struct plan_input *in = &net->plan->input;
    micro_batch(net, device_batch(net, slot, in->B, in->T, in->packed), dropout);
}

void network_walk(struct network *net, float dropout)
{
    const struct plan_input *in = &net->plan->input;
    bool training = in->moments > 0;
    struct batch_view batch = device_batch(net, 0, in->B, in->T, in->packed);
    struct pass pass = pass_of(net, in->B, in->T, batch.positions, dropout);
    if (training) network_clear(net);
    net->exchange.last = training;
    net->where.trains = training;
    forward(&pass, batch.inputs);
    loss(&pass, batch.labels);
    if (!training) return;
    backward(&pass, batch.inputs, batch.labels);
    net->where.trains = false;
    network_gradient_squares(net);
    muon_walk(net, network_clip(net, 1));
    exchange_weights(net);
}

/* Over rows of cached sequences, whose tokens, slots and positions are in device memory. */
static void forward_rows(struct network *net, int N, int longest, bool fresh)
{
    struct pass pass = pass_of(net, 1, N, network_at(net, BUFFER_ROW_POSITIONS, 0), 0);
    pass.cached = true;
    pass.fresh = fresh;
    pass.longest = longest;
    forward(&pass, network_batch(net, 0));
}

/* The logits that follow `count` rows from `first` on, at most loss_chunk of them, to BUFFER_LOGITS. */
static void logits(struct network *net, int first, int count)
{
    size_t row_bytes = (size_t)net->model->config.hidden_dim * precision_bytes(net->plan->input.precision);
    const unsigned char *rows = network_at(net, BUFFER_NORM, 0);
    network_enter(net, PHASE_FORWARD, -1);
    net->where.infers = true;
    linear_forward(net, network_at(net, BUFFER_LOGITS, 0), rows + (size_t)first * row_bytes, count,
                   &net->model->head);
    net->where.infers = false;
}

/* A prompt as long as it can be, its continuation, and a step of decoding with one sequence and with all. */
void network_walk_rows(struct network *net)
{
    const struct plan_input *in = &net->plan->input;
    int most = in->B * in->T, rows[] = {in->cache_length, in->cache_length, 1, in->cache_slots};
    for (int i = 0; i < 4; i++) {
        int N = rows[i] < most ? rows[i] : most;
        forward_rows(net, N, in->cache_length, i == 0);
        logits(net, 0, i > 1 && N <= net->plan->loss_chunk ? N : 1);
    }
}

/* ---- host memory ---- */

static void upload(struct network *net, const int32_t *to, const int32_t *tokens, int B, int T)
{
    net->backend->mem_upload((void *)to, tokens, (size_t)B * (size_t)T * sizeof *tokens, net->stream);
}

/* Batches from the host go to slot 0. Uploads inputs and positions, not labels. */
static struct batch_view upload_inputs(struct network *net, struct batch_view batch)
{
    struct batch_view there = device_batch(net, 0, batch.B, batch.T, batch.positions != NULL);
    assert(!batch.positions || net->plan->input.packed);
    upload(net, there.inputs, batch.inputs, batch.B, batch.T);
    if (batch.positions) upload(net, there.positions, batch.positions, batch.B, batch.T);
    return there;
}

void network_forward(struct network *net, struct batch_view batch)
{
    batch = upload_inputs(net, batch);
    struct pass pass = pass_of(net, batch.B, batch.T, batch.positions, 0);
    forward(&pass, batch.inputs);
}

void network_pool(struct network *net, struct batch_view batch)
{
    struct batch_view there = device_batch(net, 0, batch.B, batch.T, batch.positions != NULL);
    struct pass pass = pass_of(net, batch.B, batch.T, there.positions, 0);
    upload(net, there.labels, batch.labels, batch.B, batch.T);
    network_enter(net, PHASE_FORWARD, -1);
    pool(&pass, there.labels);
}

double network_loss(struct network *net, struct batch_view batch)
{
    struct batch_view there = device_batch(net, 0, batch.B, batch.T, batch.positions != NULL);
    struct pass pass = pass_of(net, batch.B, batch.T, there.positions, 0);
    double sum;
    upload(net, there.labels, batch.labels, batch.B, batch.T);
    loss(&pass, there.labels);
    net->backend->mem_download(&sum, network_at(net, BUFFER_LOSS_SUM, 0), sizeof sum, net->stream);
    return sum;
}

void network_train(struct network *net, struct batch_view batch, float dropout, struct step_control control)
{
    struct batch_view there = upload_inputs(net, batch);
    upload(net, there.labels, batch.labels, batch.B, batch.T);
    network_control(net, control);
    micro_batch(net, there, dropout);
}

void network_result(struct network *net, struct step_result *out)
{
    net->backend->mem_download(out, network_at(net, BUFFER_RESULT, 0), sizeof *out, net->stream);
}

/* fp32 from the bf16 in the lower half of the array, back to front so that nothing is lost. */
static void widen_bf16(float *values, size_t n)
{
    for (size_t i = n; i-- > 0;) {
        uint16_t narrow;
        memcpy(&narrow, (const unsigned char *)values + i * sizeof narrow, sizeof narrow);
        values[i] = float_of_bf16(narrow);
    }
}

void network_logits(struct network *net, int first, int count, float *out)
{
    size_t bytes = precision_bytes(net->plan->input.precision);
    for (int rows; count > 0; first += rows, count -= rows) {
        rows = count < net->plan->loss_chunk ? count : net->plan->loss_chunk;
        size_t n = (size_t)rows * (size_t)net->model->head.rows;
        logits(net, first, rows);
        net->backend->mem_download(out, network_at(net, BUFFER_LOGITS, 0), n * bytes, net->stream);
        if (bytes == 2) widen_bf16(out, n);
        out += n;
    }
}

/* ---- the KV cache ---- */

static int32_t *lengths(const struct network *net)
{
    return network_at(net, BUFFER_CACHE_LENGTHS, 0);
}

int network_cached(const struct network *net, int slot)
{
    assert(slot >= 0 && slot < net->plan->input.cache_slots);
    return lengths(net)[slot];
}

void network_truncate(struct network *net, int slot, int length)
{
    assert(length >= 0 && length <= network_cached(net, slot));
    lengths(net)[slot] = length;
}

/* Uploads slots and positions of N rows, in pieces, as the host keeps no copy of them, and adds the rows to
 * their sequences. slots NULL: all rows are `slot`'s. Returns the length of the longest sequence. */
static int upload_rows(struct network *net, const int32_t *slots, int slot, int N)
{
    enum { PIECE = 512 };
    int32_t of[PIECE], at[PIECE], *to = network_at(net, BUFFER_ROW_SLOTS, 0);
    int32_t *positions = network_at(net, BUFFER_ROW_POSITIONS, 0);
    int longest = 0;
    for (int from = 0, count; from < N; from += count) {
        count = N - from < PIECE ? N - from : PIECE;
        for (int i = 0; i < count; i++) {
            of[i] = slots ? slots[from + i] : slot;
            at[i] = network_cached(net, of[i]);
            assert(at[i] < net->plan->input.cache_length);
            lengths(net)[of[i]] = at[i] + 1;
            if (at[i] >= longest) longest = at[i] + 1;
        }
        upload(net, to + from, of, 1, count);
        upload(net, positions + from, at, 1, count);
    }
    return longest;
}

/* The work of the row graph. */
static void forward_few_rows(void *context)
{
    struct network *net = context;
    forward_rows(net, net->row_graph.rows, net->row_graph.longest, false);
}

void network_replay_rows(struct network *net)
{
    net->row_graph.on = net->backend->queues;
}

/* slots as for upload_rows; fresh: the rows are the beginning of one sequence. */
static void append_rows(struct network *net, const int32_t *tokens, const int32_t *slots, int slot, int N,
                        bool fresh)
{
    bool observed = net->table != net->backend;
    assert(N >= 1 && N <= net->plan->input.B * net->plan->input.T);
    int longest = upload_rows(net, slots, slot, N);
    upload(net, network_batch(net, 0), tokens, 1, N);
    if (!net->row_graph.on || fresh || observed || N > ROW_GRAPH_ROWS_MAX)
        forward_rows(net, N, longest, fresh);
    else
        row_graph_run(&net->row_graph, net->backend, net->stream, N,
                      row_graph_bound(longest, net->plan->input.cache_length), forward_few_rows, net);
}

void network_append_rows(struct network *net, const int32_t *tokens, const int32_t *slots, int N)
{
    append_rows(net, tokens, slots, 0, N, false);
}

int network_append(struct network *net, int slot, const int32_t *tokens, int count)
{
    int most = net->plan->input.B * net->plan->input.T, rows = 0;
    for (int from = 0; from < count; from += rows) {
        rows = count - from < most ? count - from : most;
        append_rows(net, tokens + from, NULL, slot, rows, network_cached(net, slot) == 0);
    }
    return rows - 1;
}
