/* See plan.h. Here: the table of buffers, which of them a plan has, and whose part of the
 * trainable parameters they hold. */
#include "core/network/plan.h"

const char *plan_category_name(enum plan_category category)
{
    static const char *const names[PLAN_CATEGORIES] = {"weights",  "frozen weights", "gradients",
                                                       "moments",  "activations",    "workspace",
                                                       "KV cache", "host",           "snapshot"};
    return names[category];
}

bool plan_category_is_host(enum plan_category category)
{
    return category == PLAN_HOST || category == PLAN_SNAPSHOT;
}

bool plan_has_category(const struct plan *plan, enum plan_category category)
{
    return (category != PLAN_FROZEN && category != PLAN_CACHE) || plan->category_bytes[category];
}

const struct buffer_fact buffer_facts[BUFFERS] = {
#define BUFFER(id, name, kind, category, bytes) {name, "shared " name, BUFFER_##kind, category},
#include "core/network/buffers.def"
};

bool plan_recomputes(const struct plan *plan, int layer)
{
    int interval = plan->input.activation_interval;
    if (plan->input.moments == 0 || plan->input.model->lowest > param_place(layer, PLACE_DOWN)) return true;
    return interval > 0 && layer % interval == 0 && layer < plan->input.model->config.num_layers;
}

bool plan_saves(const struct plan *plan, enum buffer buffer, int layer)
{
    bool streams = buffer == BUFFER_X, last = layer == plan->input.model->config.num_layers;
    if (plan->input.moments == 0 || buffer_facts[buffer].kind != BUFFER_LAYER) return false;
    if (last) return streams || buffer == BUFFER_ATTN_RSTD;
    return streams || !plan_recomputes(plan, layer);
}

enum buffer plan_alias(const struct plan *plan, enum buffer buffer)
{
    if (plan->bytes[buffer]) return buffer;
    if (buffer == BUFFER_COMPUTE_WEIGHTS) return BUFFER_WEIGHTS;
    if (buffer == BUFFER_QKV_RAW) return BUFFER_QKV;
    if (buffer == BUFFER_X_MID) return BUFFER_X;
    return buffer;
}

/* Where the slice of a rank begins, or for the number of ranks where the last one ends. A slice begins at a
 * multiple of 64 elements, for kernels that read vectors: so a packed matrix that does not begin at one stays
 * with the matrix before it. */
static size_t slice_boundary(const struct plan_input *in, int rank)
{
    const struct model *model = in->model;
    size_t all = model->elements, at = (size_t)rank * slice_elements(all, in->ranks), nearest = all;
    if (at >= all || at <= model->elementwise || !model->orthogonal) return at < all ? at : all;
    for (size_t i = 0; i < model->param_count; i++) {
        const struct param *p = &model->params[i];
        size_t distance = p->offset < at ? at - p->offset : p->offset - at;
        size_t least = nearest < at ? at - nearest : nearest - at;
        if (p->orthogonal && p->offset % 64 == 0 && distance < least) nearest = p->offset;
    }
    return nearest;
}

struct slice plan_slice(const struct plan_input *in, int rank)
{
    return (struct slice){slice_boundary(in, rank), slice_boundary(in, rank + 1)};
}

size_t plan_slice_most(const struct plan_input *in)
{
    size_t most = 0;
    for (int rank = 0; rank == 0 || rank < in->ranks; rank++) {
        size_t count = slice_count(plan_slice(in, rank));
        if (count > most) most = count;
    }
    return most;
}

size_t plan_slice_run(const struct plan_input *in, size_t at, size_t n, int *owner)
{
    *owner = (int)(at / slice_elements(in->model->elements, in->ranks)); /* it, or one near it */
    while (plan_slice(in, *owner).begin > at) --*owner;
    while (plan_slice(in, *owner).end <= at) ++*owner;
    size_t left = plan_slice(in, *owner).end - at;
    return n < left ? n : left;
}

/* All ranks together send at most 16 MiB for a piece. With very many ranks it may be more. */
size_t plan_piece(const struct plan_input *in)
{
    size_t piece = ((size_t)1 << 22) / (size_t)(in->ranks > 1 ? in->ranks : 1);
    return piece < (size_t)1 << 16 ? (size_t)1 << 16 : piece;
}

struct slice plan_owned(const struct plan_input *in)
{
    return in->shard ? plan_slice(in, in->rank) : (struct slice){0, in->model->elements};
}

struct slice plan_with_moment(const struct plan_input *in, enum moment which)
{
    bool has = which == MOMENT_AVERAGE ? in->averages : (int)which < in->moments;
    if (!has) return (struct slice){0, 0};
    return (struct slice){0, which == MOMENT_SECOND ? in->model->elementwise : in->model->elements};
}

size_t plan_moment_bytes(const struct plan_input *in, enum moment which, size_t elements)
{
    bool coded = in->moments_8bit && which != MOMENT_AVERAGE;
    return coded ? moment_bytes(elements) : elements * sizeof(float);
}

struct slice plan_held(const struct plan_input *in)
{
    return precision_bytes(in->precision) < 4 ? plan_owned(in) : (struct slice){0, in->model->elements};
}
