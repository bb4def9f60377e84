/* The memory plan: every buffer that training needs, with its category, layer, size and offset, worked out
 * from the configuration before anything is allocated. Each category is one allocation; the plan's totals are
 * the bytes that are really allocated, to the byte. `anneal estimate` prints the same plan.
 *
 * The buffers are listed in buffers.def. Those of the workspace whose contents are never needed at the same
 * time share a place, by the lifetimes that a recorded walk over the passes shows (record.h). What the
 * backward pass reads (activations) and what lives from step to step shares with nothing. */
#ifndef ANNEAL_CORE_NETWORK_PLAN_H
#define ANNEAL_CORE_NETWORK_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/memory/allocator.h"
#include "core/model/config.h"
#include "core/model/model.h"
#include "kernels/device/backend.h"

enum plan_category {
    PLAN_WEIGHTS,   /* the flat arena of trainable parameters; in bf16 also what the network computes with */
    PLAN_FROZEN,    /* weights that are not trained, as the network computes with them */
    PLAN_GRADIENTS, /* mirrors it */
    PLAN_MOMENTS,   /* of the optimizer: m, and v for AdamW */
    PLAN_ACTIVATIONS, /* saved by the forward pass for the backward pass; without one, none */
    PLAN_WORKSPACE,   /* reused within a step: scratch of operations, gradients of activations, batch, loss */
    PLAN_HOST,        /* memory of the host (CUDA: pinned) through which copies to and from the device go */
    PLAN_SNAPSHOT,    /* on the host: the copy that a checkpoint is written from while training goes on */
    PLAN_CATEGORIES
};
const char *plan_category_name(enum plan_category category); /* "weights", … */
bool plan_category_is_host(enum plan_category category);

/* How a buffer's place comes about: see buffers.def. */
enum buffer_kind { BUFFER_OWN, BUFFER_SHARED, BUFFER_LAYER };

enum buffer {
#define BUFFER(id, ...) BUFFER_##id,
#include "core/network/buffers.def"
    BUFFERS
};

extern const struct buffer_fact {
    const char *name, *shared_name; /* the second as one of the set that layers share */
    enum buffer_kind kind;
    enum plan_category category;
} buffer_facts[BUFFERS];

/* One place of a buffer: that of a layer, of all layers that share one, or the only one. */
struct plan_buffer {
    const char *name; /* static text */
    enum buffer buffer;
    enum plan_category category;
    int layer;            /* -1: not part of any layer */
    size_t bytes, offset; /* offset within the category */
};

enum { PLAN_FLIGHTS = 2 }; /* training steps that may be under way */
/* Batches that may be on their way to the device: those of as many steps, but no more than this. */
enum { PLAN_HOST_BATCHES_MAX = 16 };

/* The result of a training step, on the device for the host to read. */
struct step_result {
    double loss_sum; /* over the micro-batches so far, unscaled */
    double squares;  /* of the gradients: their sum, which the world combines */
    struct clip_state clip;
};

/* Everything that a plan depends on. */
struct plan_input {
    const struct model *model; /* borrowed; must outlive the plan */
    int B, T;                  /* sequences of a micro-batch, tokens of a sequence */
    int micro_batches;         /* of a training step; 0 counts as 1 */
    int moments;               /* 2 AdamW, 1 Lion, 0 no training */
    enum precision precision;  /* of weights as computed with, activations and their gradients */
    int activation_interval;   /* layers 0, n, 2n, … save only what enters them; 0: all save everything */
    size_t gemm_workspace;     /* bytes that the device's matrix products want: backend->gemm_workspace */
    enum plan_loss loss;       /* how the head's loss goes over the rows: in chunks, or all at once */
    bool host_counts; /* the device computes in the host's memory: the host's buffers are its own, too */
    enum allocator_kind allocator;  /* the network's memory is cut from it */
    size_t pool_unit;               /* of the device, where the allocator is its pool: backend->pool_unit */
    struct allocator_listener full; /* receives who holds what when there is no room */
    bool rough;                     /* sizes and places alone: products, calls and FLOPs need not be right */
    int snapshot; /* arenas that a checkpoint's snapshot holds: 1 weights, + moments; 0: none */
};

/* Of training `model` with this configuration on `device`, which is asked, not kept. */
struct plan_input plan_input_of(const struct config *config, const struct model *model,
                                const struct backend *backend, struct device *device);
/* Sets the facts of the device that a plan with this input's allocator depends on. */
void plan_input_for(struct plan_input *input, const struct backend *backend, struct device *device);

struct buffer_place {
    enum plan_category category;
    size_t offset;
};

struct plan {
    struct plan_input input;
    struct arena arena; /* owns buffers, places and products */
    struct plan_buffer *buffers;
    size_t buffer_count, buffer_capacity;
    size_t category_bytes[PLAN_CATEGORIES];
    size_t total_bytes; /* of the device: all categories but the host's, and that too where host_counts */

    size_t bytes[BUFFERS];       /* 0: not there, unless another buffer stands in for it */
    struct buffer_place *places; /* (L+1, BUFFERS): a layer's own, or one for all */
    uint64_t conflicts[BUFFERS]; /* a bit for each buffer whose content is needed at the same time */

    int loss_chunk;              /* rows the fused linear cross-entropy works on at a time */
    int host_batch_count;        /* even: room in BUFFER_HOST_BATCHES */
    struct gemm_shape *products; /* every matrix product of a training step, an evaluation's full batch and
                                  * the next token's logits, each once: what pre-warming is for */
    int product_count;
    int64_t step_calls[2];   /* that a profile of a step shows: of a micro-batch, and beside them */
    double recomputed_flops; /* of a micro-batch: activations that the backward pass computes again */
};

/* All plans have all categories, but for frozen weights. */
bool plan_has_category(const struct plan *plan, enum plan_category category);

/* Of the categories that the device's own memory holds: all but the host's. */
size_t plan_device_bytes(const struct plan *plan);

/* Bytes of the device that a network opened with this plan takes: total_bytes, and what the plan's
 * allocator takes more to cut them from. */
enum status plan_reserved(const struct plan *plan, size_t *out, struct err *err);

/* Whether the layer saves only what enters it, because the backward pass computes the rest again or ends
 * above it. Without training there is no backward pass, and all layers share theirs. */
bool plan_recomputes(const struct plan *plan, int layer);

/* Whether this layer has a place of its own for a buffer. */
bool plan_saves(const struct plan *plan, enum buffer buffer, int layer);

/* The same buffer, or the one that stands in for it where it is not there. */
enum buffer plan_alias(const struct plan *plan, enum buffer buffer);

/* The precision that train.precision names; auto is the device's best. */
enum precision plan_precision(enum precision_choice choice, enum precision best);

/* Where a buffer lies beside others, some of which need not be there at the same time. */
struct placement {
    size_t bytes;       /* a multiple of the alignment that the offset is to have */
    uint64_t conflicts; /* a bit for each `number` that it must not overlap with */
    int number;
    size_t offset; /* the result */
};
/* Places up to BUFFERS, the largest first, each as low as those before it allow, and returns the height: the
 * largest offset + bytes. It is at least what is needed at the fullest moment, and not always the least there
 * could be. */
size_t placement_solve(struct placement *at, size_t count);

/* STATUS_USAGE: more than can be counted. */
enum status plan_init(struct plan *plan, const struct plan_input *input, struct err *err);
void plan_release(struct plan *plan); /* harmless on a zeroed struct */

#endif
