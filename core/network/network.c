/* See network.h. Here: what the network owns, and the small calls around a step; the passes are in
 * network_pass.c. */
#include "core/network/network_parts.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/model/rotary.h"
#include "kernels/gemm.h"

void network_mark(struct network *net, enum phase phase, int layer, enum operation operation)
{
    if (!net->profiler) return;
    struct operation_cost cost = operation_cost(operation, &net->shape);
    profiler_mark(net->profiler, phase, layer, operation_name(operation), cost.bytes, cost.flops);
}

/* cos and sin of position · rotary_frequency, (T, HS/2, 2). */
static enum status upload_rope_table(struct network *net, struct err *err)
{
    const struct model_config *c = &net->model->config;
    int T = net->plan->input.T, half = c->head_dim / 2;
    size_t count = (size_t)T * (size_t)half * 2;
    float *table = malloc(count * sizeof *table);
    if (!table) return err_set(err, STATUS_NO_MEMORY, "no memory for the rotary table of %d positions", T);
    for (int t = 0; t < T; t++)
        for (int i = 0; i < half; i++) {
            double angle = t * rotary_frequency(c, i);
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

/* Whether all of a category is fp32; the others are of several types. */
static bool holds_floats(const struct plan *plan, enum plan_category category)
{
    bool follows = category == PLAN_WEIGHTS || category == PLAN_ACTIVATIONS; /* the plan's precision */
    return category == PLAN_GRADIENTS || category == PLAN_MOMENTS ||
           (follows && precision_bytes(plan->input.precision) == sizeof(float));
}

/* One category's memory, cleared; but a snapshot is not read before it is written, and its pages are the
 * system's until then. */
static enum status allocate(struct network *net, enum plan_category category, struct err *err)
{
    struct allocator_scope *root = allocator_root(net->allocator);
    const char *tag = plan_category_name(category);
    size_t bytes = net->plan->category_bytes[category];
    void *memory = NULL;
    enum status status;
    if (plan_category_is_host(category)) {
        status = allocator_alloc_host(root, tag, bytes, &memory, err);
    } else if (holds_floats(net->plan, category)) {
        float *numbers = NULL;
        status = allocator_alloc_f32(root, tag, bytes / sizeof *numbers, NULL, &numbers, err);
        memory = numbers;
    } else {
        status = allocator_alloc(root, tag, bytes, NULL, &memory, err);
    }
    if (status) return status;
    if (category == PLAN_HOST)
        memset(memory, 0, bytes);
    else if (!plan_category_is_host(category))
        net->backend->mem_zero(memory, zeroed_bytes(net->plan, category), net->stream);
    net->memory[category] = memory;
    net->allocated[category] = bytes;
    return STATUS_OK;
}

/* To the listener, behind the allocator's table: what should have had room. */
static void tell_plan(const struct plan *plan)
{
    char line[400], bytes[32];
    size_t used = (size_t)snprintf(line, sizeof line, "planned:");
    const struct allocator_listener *full = &plan->input.full;
    for (int i = 0; i < PLAN_CATEGORIES; i++)
        if (plan->category_bytes[i])
            used += (size_t)snprintf(line + used, sizeof line - used, "%s %s %s", i ? "," : "",
                                     plan_category_name((enum plan_category)i),
                                     text_format_bytes(plan->category_bytes[i], bytes, sizeof bytes));
    if (full->line) full->line(full->context, line);
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
    struct allocator_options options = {.kind = plan->input.allocator,
                                        .backend = backend,
                                        .device = device,
                                        .arena_bytes = plan_device_bytes(plan),
                                        .report = stderr,
                                        .full = plan->input.full};
    enum status status = allocator_open(&options, &net->allocator, err);
    if (!status) status = backend->stream_open(device, plan->input.precision, &net->stream, err);
    for (int i = 0; !status && i < PLAN_CATEGORIES; i++) {
        if (plan->category_bytes[i]) status = allocate(net, (enum plan_category)i, err);
    }
    if (status == STATUS_NO_MEMORY) tell_plan(plan);
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

/* Refused while memory is asked for on it alone. */
static enum status close_stream(struct network *net, struct err *err)
{
    enum status status = allocator_stream_closes(net->allocator, net->stream, err);
    if (status) return status;
    net->backend->stream_close(net->stream);
    net->stream = NULL;
    return STATUS_OK;
}

enum status network_renew_stream(struct network *net, struct err *err)
{
    enum status status = close_stream(net, err);
    if (status) return status;
    allocator_trim(net->allocator); /* what is kept for later may be what was missing */
    status = net->backend->stream_open(net->device, net->plan->input.precision, &net->stream, err);
    if (!status) lend_workspace(net);
    return status;
}

void network_close(struct network *net)
{
    if (net->stream) net->backend->stream_wait(net->stream, NULL); /* for what still uses the memory */
    if (net->allocator) allocator_scope_end(allocator_root(net->allocator));
    if (net->stream) close_stream(net, NULL);
    allocator_close(net->allocator);
    *net = (struct network){0};
}

/* ---- the products, for pre-warming ---- */

struct shape_list {
    struct gemm_shape *at;
    int count;
};

static bool same_layout(struct gemm_layout a, struct gemm_layout b)
{
    return a.element == b.element && a.stride == b.stride;
}

static bool same_shape(const struct gemm_shape *a, const struct gemm_shape *b)
{
    return a->M == b->M && a->N == b->N && a->K == b->K && a->transpose_a == b->transpose_a &&
           a->transpose_b == b->transpose_b && a->accumulate == b->accumulate &&
           same_layout(a->out, b->out) && same_layout(a->a, b->a) && same_layout(a->b, b->b);
}

static void list_shape(struct shape_list *list, struct gemm_shape shape)
{
    for (int i = 0; i < list->count; i++)
        if (same_shape(&list->at[i], &shape)) return;
    assert(list->count < NETWORK_PRODUCTS_MAX);
    list->at[list->count++] = shape;
}

/* A projection of N rows from `in` to `out` columns: forward, and backward to its weight and its input. */
static void list_projection(struct shape_list *list, int N, int out, int in, enum element e, bool training)
{
    struct matrix x = {NULL, e, in}, y = {NULL, e, out}, w = {NULL, e, in}, dw = {NULL, ELEMENT_FP32, in};
    list_shape(list, gemm_shape_of(y, x, w, N, out, in, false, true, false));
    if (!training) return;
    list_shape(list, gemm_shape_of(dw, y, x, out, in, N, true, false, true));
    list_shape(list, gemm_shape_of(x, y, w, N, in, out, false, false, false));
}

int network_gemm_shapes(const struct plan *plan, struct gemm_shape out[NETWORK_PRODUCTS_MAX])
{
    const struct model_config *c = &plan->input.model->config;
    int N = plan->input.B * plan->input.T, C = c->hidden_dim, F = c->intermediate_dim, V = c->vocab_size;
    int heads = c->num_heads * c->head_dim, Q = heads + 2 * c->num_kv_heads * c->head_dim;
    int tail = N % plan->loss_chunk;
    enum element e = precision_element(plan->input.precision);
    bool training = plan->input.moments > 0;
    struct shape_list list = {out, 0};
    list_projection(&list, N, Q, C, e, training);
    list_projection(&list, N, C, heads, e, training);
    list_projection(&list, N, 2 * F, C, e, training);
    list_projection(&list, N, C, F, e, training);
    list_projection(&list, plan->loss_chunk, V, C, e, training);
    if (tail) list_projection(&list, tail, V, C, e, training);
    list_projection(&list, 1, V, C, e, false);
    return list.count;
}

void network_weights_written(struct network *net)
{
    net->backend->cast(net->compute_weights, net->weights, net->model->elements, net->stream);
}

int32_t *network_batch(struct network *net, int slot)
{
    return workspace(net, net->plan->batch[slot]);
}

void network_control(struct network *net, struct step_control control)
{
    net->backend->control_set(workspace(net, net->plan->control), control, net->stream);
}

void network_clear(struct network *net)
{
    struct step_result *result = workspace(net, net->plan->result);
    network_mark(net, PHASE_OPTIMIZER, -1, OP_ZERO_GRADIENTS);
    net->backend->mem_zero(net->gradients, net->model->elements * sizeof *net->gradients, net->stream);
    net->backend->mem_zero(&result->loss_sum, sizeof result->loss_sum, net->stream);
}
