/* See network.h. Here: opening, closing and memory; the passes are in network_pass.c. */
#include "core/network/network.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/half.h"
#include "core/base/thread.h"
#include "core/network/exchange.h"

const char *phase_name(enum phase phase)
{
    static const char *const names[PHASES] = {"data", "forward", "backward", "recompute", "optimizer"};
    return names[phase];
}

/* cos and sin of position · model_rotary_frequency, times model_rotary_scale, (longest, HS/2, 2). */
static enum status upload_rope_table(struct network *net, struct err *err)
{
    const struct model_config *c = &net->model->config;
    const struct plan_input *in = &net->plan->input;
    int T = in->cache_slots > 0 && in->cache_length > in->T ? in->cache_length : in->T,
        half = c->head_dim / 2;
    size_t count = (size_t)T * (size_t)half * 2;
    double scale = model_rotary_scale(c);
    float *table = malloc(count * sizeof *table);
    if (!table) return err_no_memory(err, "the rotary table of %d positions", T);
    for (int t = 0; t < T; t++)
        for (int i = 0; i < half; i++) {
            double angle = t * model_rotary_frequency(c, i);
            float *entry = table + ((size_t)t * (size_t)half + (size_t)i) * 2;
            entry[0] = (float)(scale * cos(angle));
            entry[1] = (float)(scale * sin(angle));
        }
    net->backend->mem_upload(network_at(net, BUFFER_ROPE, 0), table, count * sizeof *table, net->stream);
    enum status status = net->backend->stream_wait(net->stream, err);
    free(table);
    return status;
}

/* Gives the stream its workspace for matrix products. */
static void lend_workspace(struct network *net)
{
    size_t bytes = net->plan->input.library_workspace;
    if (bytes) net->backend->workspace_lend(net->stream, network_at(net, BUFFER_LIBRARY_WORKSPACE, 0), bytes);
}

/* Allocates and clears the memory of a category. A snapshot is not cleared: it is written before it is read,
 * and untouched pages cost nothing. */
static enum status allocate(struct network *net, enum plan_category category, struct err *err)
{
    struct allocator_scope *root = allocator_root(net->allocator);
    const char *tag = plan_category_name(category);
    size_t bytes = net->plan->category_bytes[category];
    void *memory = NULL;
    bool host = plan_category_is_host(category);
    enum status status = host ? allocator_alloc_host(root, tag, bytes, &memory, err)
                              : allocator_alloc(root, tag, bytes, NULL, &memory, err);
    if (status) return status;
    if (category == PLAN_HOST)
        memset(memory, 0, bytes);
    else if (!host)
        net->backend->mem_zero(memory, bytes, net->stream);
    net->memory[category] = memory;
    return STATUS_OK;
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
            "a smaller model.head_dim)",
            model->config.head_dim, info.short_name, info.max_head_dim);
    *net = (struct network){
        .backend = backend, .device = device, .model = model, .plan = plan, .world = world_of_one()};
    net->exchange.world = net->world;
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
    if (!status) status = upload_rope_table(net, err);
    if (status) {
        network_close(net);
        return status;
    }
    network_point(net);
    network_observe(net, NULL);
    lend_workspace(net);
    return STATUS_OK;
}

enum status network_renew_stream(struct network *net, struct err *err)
{
    row_graph_forget(&net->row_graph, net->backend);
    net->backend->stream_close(net->stream);
    net->stream = NULL;
    allocator_trim(net->allocator); /* memory cached by the allocator may be what was missing */
    enum status status =
        net->backend->stream_open(net->device, net->plan->input.precision, &net->stream, err);
    if (!status) lend_workspace(net);
    if (!status) network_observe(net, NULL);
    return status;
}

void network_close(struct network *net)
{
    exchange_close(net);
    if (net->stream) net->backend->stream_wait(net->stream, NULL); /* for work that still uses the memory */
    row_graph_forget(&net->row_graph, net->backend);
    if (net->allocator) allocator_scope_end(allocator_root(net->allocator));
    if (net->stream) net->backend->stream_close(net->stream);
    allocator_close(net->allocator);
    *net = (struct network){0};
}

/* Rounds to the nearest, ties to even, like the device's cast. In place and front to back, so that no value
 * is overwritten before it is read. */
static void narrow_to_bf16(float *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t narrow = bf16_of_float(values[i]);
        memcpy((unsigned char *)values + i * sizeof narrow, &narrow, sizeof narrow);
    }
}

enum status network_store_parameter(struct network *net, const struct param *p, size_t first,
                                    const void *stored, size_t count, struct err *err)
{
    const struct backend *be = net->backend;
    size_t width = element_bytes(p->element);
    void *to = p->frozen ? (unsigned char *)net->frozen + p->offset + first * width
                         : (unsigned char *)(network_all_weights(net) + p->offset + first);
    be->mem_upload(to, stored, count * width, net->stream);
    return be->stream_wait(net->stream, err);
}

/* Quantises a piece of an NF4 parameter. The scales are kept until the last piece: their mean is needed
 * before they can be nested. */
static enum status quantise(struct network *net, const struct param *p, size_t first, const float *values,
                            size_t count, struct err *err)
{
    unsigned char *to = (unsigned char *)net->frozen + p->offset;
    uint8_t *codes = network_at(net, BUFFER_QUANTISED, 0);
    float *scales = (float *)(codes + PLAN_PIECE / 4 / 2), *nested = scales + nf4_blocks(p->count);
    bool nests = p->element == ELEMENT_NF4_NESTED, last = first + count == p->count;
    assert(first % NF4_BLOCK == 0 && (last || count % NF4_BLOCK == 0) && count <= PLAN_PIECE / 4);
    nf4_quantise(codes, scales + first / NF4_BLOCK, values, count);
    net->backend->mem_upload(to + first / 2, codes, (count + 1) / 2, net->stream);
    if (last && nests) nf4_nest(nested, scales, nf4_mean(scales, p->count), p->count);
    if (last)
        net->backend->mem_upload(to + nf4_code_bytes(p->count), nests ? nested : scales,
                                 nf4_scale_bytes(p->count, nests), net->stream);
    return net->backend->stream_wait(net->stream, err);
}

enum status network_write_parameter(struct network *net, const struct param *p, size_t first, float *values,
                                    size_t count, struct err *err)
{
    if (element_is_nf4(p->element)) return quantise(net, p, first, values, count, err);
    if (p->element == ELEMENT_BF16) narrow_to_bf16(values, count);
    return network_store_parameter(net, p, first, values, count, err);
}

enum status network_write_moment(struct network *net, enum moment which, size_t first, float *values,
                                 size_t count, struct err *err)
{
    const struct plan_input *in = &net->plan->input;
    char *to = (char *)network_moment(net, which) + plan_moment_bytes(in, which, first);
    if (in->moments_8bit && which != MOMENT_AVERAGE)
        moments_encode((struct moment_block *)(void *)values, values, count, which == MOMENT_FIRST);
    net->backend->mem_upload(to, values, plan_moment_bytes(in, which, count), net->stream);
    return net->backend->stream_wait(net->stream, err);
}

float *network_all_weights(struct network *net)
{
    bool whole = slice_count(plan_held(&net->plan->input)) == net->model->elements;
    return whole ? network_at(net, BUFFER_WEIGHTS, 0) : net->gradients;
}

void network_weights_written(struct network *net)
{
    float *all = network_all_weights(net), *own = all + net->owned.begin;
    if (own != net->weights)
        net->backend->mem_copy(net->weights, own, slice_count(net->owned) * sizeof *own, net->stream);
    if (net->model->elements)
        net->backend->cast(network_compute_weights(net, 0), all, net->model->elements, net->stream);
}

void network_show_average(struct network *net, bool average)
{
    exchange_await(net, INT_MAX);
    net->compute_weights = average ? net->gradients : network_at(net, BUFFER_COMPUTE_WEIGHTS, 0);
    if (!average) { /* the gaps between the gradients, where these weights were, stay zero (model.h) */
        net->backend->mem_zero(net->gradients, net->model->elements * sizeof *net->gradients, net->stream);
        return;
    }
    net->backend->cast(network_compute_weights(net, net->owned.begin), network_moment(net, MOMENT_AVERAGE),
                       slice_count(net->owned), net->stream);
    exchange_weights(net);
}

void network_weigh_classes(struct network *net, const float *weights)
{
    net->backend->mem_upload(network_at(net, BUFFER_CLASS_WEIGHTS, 0), weights,
                             (size_t)net->model->config.num_labels * sizeof *weights, net->stream);
}

enum { INITIALISED_AT_LEAST = 1 << 14 }; /* weights of a thread: about a millisecond */

/* A piece of a parameter, from `first` on. Each weight depends on its place alone. */
struct piece {
    const struct model *model;
    const struct param *param;
    uint64_t seed;
    size_t first;
    float *to;
};

static void initialise(void *context, size_t from, size_t to)
{
    const struct piece *piece = context;
    model_initialise_param(piece->model, piece->param, piece->seed, piece->first + from, piece->first + to,
                           piece->to + from);
}

/* In pieces, through the staging memory: a second copy of all weights would raise the memory peak. */
enum status network_initialise(struct network *net, uint64_t seed, struct err *err)
{
    float *piece = network_at(net, BUFFER_STAGING, 0);
    size_t most = net->plan->bytes[BUFFER_STAGING] / sizeof *piece;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < net->model->param_count; i++) {
        const struct param *p = &net->model->params[i];
        if (*net->model->base.folder && !param_is_adapter(p)) continue;
        for (size_t first = 0; !status && first < p->count; first += most) {
            size_t count = p->count - first < most ? p->count - first : most;
            thread_share(count, INITIALISED_AT_LEAST, initialise,
                         &(struct piece){net->model, p, seed, first, piece});
            status = network_write_parameter(net, p, first, piece, count, err);
        }
    }
    if (!status) network_weights_written(net);
    return status ? status : net->backend->stream_wait(net->stream, err);
}
