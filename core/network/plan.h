/* The memory plan: every buffer that training needs, with its category, layer, size and offset, computed from
 * the configuration before anything is allocated. Each category is one allocation; the plan's totals are the
 * bytes that are really allocated, to the byte. `anneal estimate` prints the same plan.
 *
 * buffers.def lists the buffers. Workspace buffers whose contents are never needed at the same time share
 * memory; their lifetimes come from a recorded run of the passes (record.h). Buffers that the backward pass
 * reads (activations) and buffers that live from step to step share with no other. */
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
    PLAN_WEIGHTS,     /* the flat arena of trainable parameters; in bf16 also the bf16 copy for computing */
    PLAN_FROZEN,      /* weights that are not trained, in the types that they are stored in */
    PLAN_GRADIENTS,   /* same layout as the weights */
    PLAN_MOMENTS,     /* of the optimizer: m, v for AdamW, and the averages of the weights */
    PLAN_ACTIVATIONS, /* saved by the forward pass for the backward pass; without one, none */
    PLAN_WORKSPACE,   /* reused within a step: scratch of operations, gradients of activations, batch, loss */
    PLAN_CACHE,       /* keys and values of the sequences that are continued token by token; or none */
    PLAN_HOST,        /* host memory (CUDA: pinned) for copies to and from the device */
    PLAN_SNAPSHOT,    /* host copy from which a checkpoint is written while training continues */
    PLAN_CATEGORIES
};
const char *plan_category_name(enum plan_category category); /* "weights", … */
bool plan_category_is_host(enum plan_category category);

/* How the memory of a buffer is assigned: see buffers.def. */
enum buffer_kind { BUFFER_OWN, BUFFER_SHARED, BUFFER_LAYER, BUFFER_EACH };

enum buffer {
#define BUFFER(id, ...) BUFFER_##id,
#include "core/network/buffers.def"
    BUFFERS
};

extern const struct buffer_fact {
    const char *name, *shared_name; /* the second for a copy that layers share */
    enum buffer_kind kind;
    enum plan_category category;
} buffer_facts[BUFFERS];

/* One place of a buffer: for one layer, for all layers that share it, or the only one. */
struct plan_buffer {
    const char *name; /* static text */
    enum buffer buffer;
    enum plan_category category;
    int layer;            /* -1: not part of any layer */
    size_t bytes, offset; /* offset within the category */
};

enum { PLAN_PIECE = 1 << 20 }; /* bytes of weights that are copied at a time, of BUFFER_STAGING */
enum { PLAN_FLIGHTS = 2 };     /* training steps that may be queued at a time */
/* Batches that may be queued for the device: those of as many steps, but at most this many. */
enum { PLAN_HOST_BATCHES_MAX = 16 };

/* The result of a training step, in device memory until the host reads it. */
struct step_result {
    double loss_sum; /* over the micro-batches so far, unscaled */
    double squares;  /* sum of the squared gradients */
    struct clip_state clip;
};

/* Elements [begin, end) of the arena of trainable parameters. */
struct slice {
    size_t begin, end;
};

static inline size_t slice_count(struct slice slice)
{
    return slice.end - slice.begin;
}

/* The elements that are in both slices; begin == end: none. */
static inline struct slice slice_common(struct slice a, struct slice b)
{
    struct slice c = {a.begin > b.begin ? a.begin : b.begin, a.end < b.end ? a.end : b.end};
    if (c.end < c.begin) c.end = c.begin;
    return c;
}

/* The numbers that training keeps beside each weight, in the order of their buffers. */
enum moment { MOMENT_FIRST, MOMENT_SECOND, MOMENT_AVERAGE, MOMENT_KINDS };

/* Everything that determines a plan. Ranks plan the same sizes, but for the snapshot. */
struct plan_input {
    const struct model *model; /* borrowed; must outlive the plan */
    int B, T;                  /* sequences of a micro-batch, tokens of a sequence */
    int micro_batches;         /* of a training step; 0 counts as 1 */
    int ranks, rank;           /* that train together, 0 counts as 1; this one's number */
    bool packed;               /* rows may hold several sequences: batches have positions */
    int moments;               /* 2 AdamW, 1 Lion, 0 no training */
    bool moments_8bit;         /* they are held as kernels/moments.h says, not in fp32; not the average */
    bool averages;             /* the weights are averaged over the updates, see core/train/optimizer.h */
    int cache_slots;           /* sequences in the KV cache; 0: the plan has none */
    int cache_length;          /* tokens of each, at least 1 if there is a cache; may be longer than T */
    enum precision precision;  /* of activations, their gradients, and the weights for computing */
    int activation_interval;   /* layers 0, n, 2n, … save only their input; 0: all layers save everything */
    size_t library_workspace;  /* bytes for the libraries of the device: backend->library_workspace */
    enum attention_choice attention; /* whose kernels compute it on a GPU */
    enum plan_loss loss;             /* whether the head's loss is computed in chunks of rows */
    int64_t loss_chunk;              /* their rows; 0: chosen, and `loss` auto may mean plain */
    bool host_counts;                /* the device is the CPU: host buffers count as device memory */
    enum allocator_kind allocator;   /* provides the network's memory */
    size_t pool_unit;                /* for the pool allocator: backend->pool_unit */
    struct allocator_listener full;  /* receives the table of allocations when memory runs out */
    bool rough;                      /* only sizes and places must be right, not products, calls, FLOPs */
    int snapshot;  /* arenas in a checkpoint's snapshot: 1 weights, + moments; 0: none. The average
                    * of the weights comes with them */
    bool shard;    /* each rank has the masters and moments of its slice alone */
    bool gathered; /* the snapshot of rank 0 has the slices of all, and the others have none */
};

/* The input for training `model` with this configuration on `device`, which is queried but not kept. */
struct plan_input plan_input_of(const struct config *config, const struct model *model,
                                const struct backend *backend, struct device *device);
/* Changes the input into that of one of `ranks` processes: its part of a step's batch, and by world.shard its
 * slice. One rank: changes nothing. */
void plan_input_share(struct plan_input *input, const struct config *config, int rank, int ranks);
/* Whether a training with this input may have attention computed by cuDNN, if the device has it. */
bool plan_cudnn(const struct plan_input *input);
/* Sets the device's properties that matter for a plan with this input's allocator. */
void plan_input_for(struct plan_input *input, const struct backend *backend, struct device *device);

/* The slice of a rank: all slices are of one length, a multiple of 256 elements, as far as there are
 * elements. Where Muon updates matrices, a slice that would end within them ends at the nearest beginning of
 * one, so that each is in one slice: they are of about one length, and a few may be empty. */
struct slice plan_slice(const struct plan_input *input, int rank);

/* Elements of the longest slice. */
size_t plan_slice_most(const struct plan_input *input);

/* The elements from `at` on, at most n, that are in the same slice as the first of them; *owner: whose. */
size_t plan_slice_run(const struct plan_input *input, size_t at, size_t n, int *owner);

/* Elements that this rank has masters and moments of, and updates: its slice, or all. */
struct slice plan_owned(const struct plan_input *input);

/* Elements of the arena that have this moment, none where the plan has no such moments. Muon's matrices have
 * no second one. */
struct slice plan_with_moment(const struct plan_input *input, enum moment which);

/* Bytes of this moment, or of the average, of so many elements of the arena, which begin at a slice. */
size_t plan_moment_bytes(const struct plan_input *input, enum moment which, size_t elements);

/* Those of BUFFER_WEIGHTS: all where they are also the weights for computing, else the owned ones. */
struct slice plan_held(const struct plan_input *input);

/* Slices are exchanged between ranks in pieces of so many elements, the last one in what is left. */
size_t plan_piece(const struct plan_input *input);

/* Tokens of the longest sample, and of the cache that plan_input_of asks for: at most train.seq_len. */
int plan_sample_length(const struct config *config);

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
    size_t total_bytes; /* device memory: all but host categories, or with host_counts all */

    size_t bytes[BUFFERS];       /* 0: none, or another buffer replaces it: plan_alias */
    struct buffer_place *places; /* (L+1, BUFFERS): one per layer, or the same for all */
    uint64_t conflicts[BUFFERS]; /* a bit for each buffer that is live at the same time */

    int loss_chunk;              /* rows the fused linear cross-entropy works on at a time */
    int logits_stride;           /* elements from one of these rows to the next */
    int host_batch_count;        /* even: room in BUFFER_HOST_BATCHES */
    struct gemm_shape *products; /* every matrix product of a training step, a full evaluation batch, and
                                  * prompts and next tokens of a cache, each once, for warming up */
    int product_count, attention_count;
    struct attention_problem *attentions; /* likewise every attention that cuDNN may compute */
    int64_t step_calls[2];                /* in a step's profile: per micro-batch, and outside of them */
    double recomputed_flops;              /* per micro-batch: to recompute activations in the backward pass */
};

/* Every plan has every category, except for frozen weights and the KV cache. */
bool plan_has_category(const struct plan *plan, enum plan_category category);

/* Arrays of a batch: inputs, labels and, if it is packed, positions. */
int plan_batch_parts(const struct plan_input *input);

/* Bytes in the device's own memory: all categories except the host's. */
size_t plan_device_bytes(const struct plan *plan);

/* Bytes of the device that a network with this plan takes: total_bytes and the allocator's overhead. */
enum status plan_reserved(const struct plan *plan, size_t *out, struct err *err);

/* Whether the layer saves only its input, because the backward pass recomputes the rest or ends above the
 * layer. Without training there is no backward pass, and all layers share one copy. */
bool plan_recomputes(const struct plan *plan, int layer);

/* Whether this layer has its own copy of a buffer. */
bool plan_saves(const struct plan *plan, enum buffer buffer, int layer);

/* The same buffer, or the one that replaces it if the plan does not have it. */
enum buffer plan_alias(const struct plan *plan, enum buffer buffer);

/* The precision that train.precision names; auto is the device's best. */
enum precision plan_precision(enum precision_choice choice, enum precision best);

/* A buffer to place among others, some of which are live at different times. */
struct placement {
    size_t bytes;       /* a multiple of the alignment, so that offsets are, too */
    uint64_t conflicts; /* a bit for each `number` that it must not overlap */
    int number;
    size_t offset; /* the result */
};
/* Places up to BUFFERS buffers, largest first, each as low as the earlier ones allow. Returns the height, the
 * largest offset + bytes: at least the largest sum of live bytes, and not always the least possible. */
size_t placement_solve(struct placement *at, size_t count);

/* STATUS_USAGE: the sizes are too large to count. */
enum status plan_init(struct plan *plan, const struct plan_input *input, struct err *err);
void plan_release(struct plan *plan); /* harmless on a zeroed struct */

#endif
