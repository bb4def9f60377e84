/* The memory plan: every buffer that training needs, with its category, layer, size and offset, worked out
 * from the configuration before anything is allocated. Each category is one allocation; the plan's totals are
 * the bytes that are really allocated, to the byte. `anneal estimate` prints the same plan.
 *
 * What is never needed at the same time shares a place: every buffer of the workspace says in which stages of
 * a step its content counts, and two that have none in common may overlap. What the backward pass reads
 * (activations) and what lives from step to step shares with nothing. */
#ifndef ANNEAL_CORE_NETWORK_PLAN_H
#define ANNEAL_CORE_NETWORK_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/memory/allocator.h"
#include "core/model/model.h"
#include "kernels/device/backend.h"

enum plan_category {
    PLAN_WEIGHTS,     /* the flat parameter arena; in bf16 also what the network computes with */
    PLAN_GRADIENTS,   /* mirrors it */
    PLAN_MOMENTS,     /* of the optimizer: m, and v for AdamW */
    PLAN_ACTIVATIONS, /* saved by the forward pass for the backward pass; without one, none */
    PLAN_WORKSPACE,   /* reused within a step: scratch of operations, gradients of activations, batch, loss */
    PLAN_HOST,        /* memory of the host (CUDA: pinned) through which copies to and from the device go */
    PLAN_SNAPSHOT,    /* on the host: the copy that a checkpoint is written from while training goes on */
    PLAN_CATEGORIES
};
const char *plan_category_name(enum plan_category category); /* "weights", … */
bool plan_category_is_host(enum plan_category category);

/* What a step does with the workspace, one bit each, in the order of the first layer that does it. */
enum plan_stage {
    STAGE_QKV = 1 << 0,             /* the normalised stream to q, k, v */
    STAGE_ATTENTION = 1 << 1,       /* q, k, v to the output of attention */
    STAGE_JOIN = 1 << 2,            /* its projection joins the stream, which is normalised */
    STAGE_GATE = 1 << 3,            /* that to gate and up */
    STAGE_ACTIVATE = 1 << 4,        /* gate and up to the feed-forward activation */
    STAGE_DOWN = 1 << 5,            /* its projection */
    STAGE_NEXT = 1 << 6,            /* joins the stream, which is normalised for the next layer or the head */
    STAGE_LOSS = 1 << 7,            /* logits, losses, their gradient */
    STAGE_FINAL = 1 << 8,           /* sum of the losses; back through the last norm */
    STAGE_BACK_DOWN = 1 << 9,       /* back to gate and up */
    STAGE_BACK_GATE = 1 << 10,      /* back to the normalised stream */
    STAGE_BACK_NORM = 1 << 11,      /* back through either norm of a layer */
    STAGE_BACK_JOIN = 1 << 12,      /* back to the output of attention */
    STAGE_BACK_ATTENTION = 1 << 13, /* back to q, k, v as projected */
    STAGE_BACK_QKV = 1 << 14,       /* back to the normalised stream */
    STAGE_UPDATE = 1 << 15,         /* back to the embedding; the optimizer's reductions */
    STAGE_ALWAYS = (1 << 16) - 1
};

struct plan_buffer {
    const char *name; /* static text */
    enum plan_category category;
    int layer;            /* -1: of no layer */
    size_t bytes, offset; /* offset within the category */
    unsigned stages;      /* enum plan_stage: when its content is needed */
};

enum { PLAN_FLIGHTS = 2 }; /* training steps that may be under way */
/* Batches that may be on their way to the device: those of as many steps, but no more than this. */
enum { PLAN_HOST_BATCHES_MAX = 16 };

/* What a training step leaves on the device for the host to read. */
struct step_result {
    double loss_sum; /* over the micro-batches so far, unscaled */
    struct clip_state clip;
};
/* How the head's loss goes over the rows: a chunk at a time, or with all (N, V) logits at once. */

/* What the plan is made for. */
struct plan_input {
    const struct model *model; /* borrowed; must outlive the plan */
    int B, T;                  /* sequences of a micro-batch, tokens of a sequence */
    int micro_batches;         /* of a training step; 0 counts as 1 */
    int moments;               /* 2 AdamW, 1 Lion, 0 no training */
    enum precision precision;  /* of weights as computed with, activations and their gradients */
    int activation_interval;   /* layers 0, n, 2n, … save only what enters them; 0: all save everything */
    size_t gemm_workspace;     /* bytes that the device's matrix products want: backend->gemm_workspace */
    enum plan_loss loss;
    bool host_counts; /* the device computes in the host's memory: the host's buffers are its own, too */
    enum allocator_kind allocator;  /* what the network's memory is cut from */
    size_t pool_unit;               /* of the device, where the allocator is its pool: backend->pool_unit */
    struct allocator_listener full; /* hears who holds what, and what was planned, when there is no room */
    int snapshot; /* arenas that a checkpoint's snapshot holds: 1 weights, + moments; 0: none */
};

/* Byte offsets of one layer's activations. Of a layer that saves only what enters it, all but x are shared
 * with the others of its kind and lie in the workspace. Without a backward pass there is one residual stream,
 * to which every layer adds in place: x and x_mid are the same, of all layers. N = B·T, Q = (NH+2·NKV)·HS.
 * Elements are of the plan's precision, rstd and lse fp32. */
struct layer_plan {
    enum plan_category inner; /* where all but x are: activations or workspace */
    size_t x;         /* (N, C) the residual stream entering the layer, where `stream` of the plan says */
    size_t attn_rstd; /* (N) */
    size_t qkv;       /* (B, T, NH+2*NKV, HS) rotated */
    size_t qkv_raw;   /* the same before QK-norm; equals qkv without */
    size_t qk_rstd;   /* (N, NH+NKV), only with QK-norm */
    size_t attn;      /* (B, T, NH, HS) */
    size_t lse;       /* (B, NH, T) */
    size_t x_mid;     /* (N, C) the residual stream between attention and feed-forward */
    size_t mlp_rstd;  /* (N) */
    size_t gate_up;   /* (N, 2*F) */
};

struct plan {
    struct plan_input input;
    struct arena arena; /* owns buffers and layers */
    struct plan_buffer *buffers;
    size_t buffer_count, buffer_capacity;
    size_t category_bytes[PLAN_CATEGORIES];
    size_t total_bytes; /* of the device: all categories but the host's, and that too where host_counts */

    /* byte offsets within their category */
    size_t weights, gradients;  /* (elements) fp32: the master weights */
    size_t compute_weights;     /* (elements) of the plan's precision; equals weights where that is fp32 */
    size_t moment1, moment2;    /* (elements); moment2 only with two moments */
    struct layer_plan *layers;  /* (L) */
    size_t snapshot[3];         /* (elements) each: weights, moments; as many as input.snapshot says */
    enum plan_category stream;  /* where the residual stream is: activations; without training, workspace */
    size_t x_final, final_rstd; /* (N, C), (N), in the same */
    /* workspace; fp32 are rope, losses and what an operation says of its scratch */
    size_t rope;     /* (T, HS/2, 2) */
    size_t batch[2]; /* (2, N) int32: inputs, then targets; one is computed on while the other is filled */
    size_t losses;   /* (N) */
    size_t loss_sum; /* double: of an evaluation */
    size_t control;  /* struct step_control */
    size_t result;   /* struct step_result */
    size_t weights_clip; /* struct clip_state: of the weights, to see whether they are finite */
    size_t ranges;       /* (params of the model) struct update_range: as many as there could be */
    size_t norm;         /* (N, C) the normalised residual stream, recomputed in the backward pass */
    size_t branch;       /* (N, C) output of a projection before it joins the stream; gradient of norm */
    size_t act;          /* (N, F), and its gradient */
    size_t dx;           /* (N, C) gradient of the residual stream */
    size_t dattn;        /* (N, NH*HS) */
    size_t dqkv;         /* (N, Q) */
    size_t scratch, scratch_bytes; /* the largest workspace any single operation asks for */
    size_t logits;                 /* (loss_chunk, V); all N rows where the loss is plain */
    size_t gemm_workspace;         /* lent to the stream; only where it wants any */
    int loss_chunk;                /* rows the fused linear cross-entropy works on at a time */
    /* host */
    size_t host_logits;            /* (V) fp32, of the next token */
    size_t host_context;           /* (T) int32, what comes before it */
    size_t host_batches;           /* (host_batch_count, 2, N) int32, on their way to `batch` */
    int host_batch_count;          /* even */
    size_t host_results;           /* (PLAN_FLIGHTS) struct step_result, on their way from `result` */
    size_t staging, staging_bytes; /* through which weights come a piece at a time */
};

/* Of the categories that the device's own memory holds: all but the host's. */
size_t plan_device_bytes(const struct plan *plan);

/* What a network that is opened with this plan takes of the device: total_bytes, and what the plan's
 * allocator takes more to cut them from. */
enum status plan_reserved(const struct plan *plan, size_t *out, struct err *err);

/* Whether the backward pass computes the activations of this layer again. Without training there is no
 * backward pass, and all layers share theirs. */
bool plan_recomputes(const struct plan *plan, int layer);

/* The precision that train.precision names; auto is the device's best. */
enum precision plan_precision(enum precision_choice choice, enum precision best);

enum status plan_init(struct plan *plan, const struct plan_input *input, struct err *err);
void plan_release(struct plan *plan); /* harmless on a zeroed struct */

#endif
