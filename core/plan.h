/* The memory plan: every buffer that training needs, with its category, layer, size and offset, worked out
 * from the configuration before anything is allocated. Each category is one allocation; the plan's totals are
 * the bytes that are really allocated, to the byte. `anneal estimate` prints the same plan. */
#ifndef ANNEAL_CORE_PLAN_H
#define ANNEAL_CORE_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "core/allocator.h"
#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/model.h"
#include "kernels/backend.h"

enum plan_category {
    PLAN_WEIGHTS,     /* the flat parameter arena; in bf16 also what the network computes with */
    PLAN_GRADIENTS,   /* mirrors it */
    PLAN_MOMENTS,     /* of the optimizer: m, and v for AdamW */
    PLAN_ACTIVATIONS, /* saved by the forward pass for the backward pass */
    PLAN_WORKSPACE,   /* reused within a step: scratch of operations, gradients of activations, batch, loss */
    PLAN_CATEGORIES
};
const char *plan_category_name(enum plan_category category); /* "weights", … */

struct plan_buffer {
    const char *name; /* static text */
    enum plan_category category;
    int layer;            /* -1: of no layer */
    size_t bytes, offset; /* offset within the category */
};

/* What a training step leaves on the device for the host to read. */
struct step_result {
    double loss_sum; /* over the micro-batches so far, unscaled */
    struct clip_state clip;
};

/* What the plan is made for. */
struct plan_input {
    const struct model *model; /* borrowed; must outlive the plan */
    int B, T;                  /* sequences of a micro-batch, tokens of a sequence */
    int moments;               /* 2 AdamW, 1 Lion, 0 no training */
    enum precision precision;  /* of weights as computed with, activations and their gradients */
    int activation_interval;   /* layers 0, n, 2n, … save only what enters them; 0: all save everything */
    size_t gemm_workspace;     /* bytes that the device's matrix products want: backend->gemm_workspace */
    enum allocator_kind allocator; /* what the network's memory is cut from */
};

/* Byte offsets of one layer's activations. Of a layer that saves only what enters it, all but x are shared
 * with the others of its kind. N = B·T, Q = (NH+2·NKV)·HS. Elements are of the plan's precision, rstd and lse
 * fp32. */
struct layer_plan {
    size_t x;         /* (N, C) the residual stream entering the layer */
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
    size_t total_bytes;
    size_t host_bytes; /* page-locked memory of the host beside it; 0 without training */

    /* byte offsets within their category */
    size_t weights, gradients;  /* (elements) fp32: the master weights */
    size_t compute_weights;     /* (elements) of the plan's precision; equals weights where that is fp32 */
    size_t moment1, moment2;    /* (elements); moment2 only with two moments */
    struct layer_plan *layers;  /* (L), activations */
    size_t x_final, final_rstd; /* (N, C), (N), activations */
    /* workspace; fp32 are rope, losses and what an operation says of its scratch */
    size_t rope;         /* (T, HS/2, 2) */
    size_t batch[2];     /* (2, N) int32 each: inputs, then targets */
    size_t losses;       /* (N) */
    size_t loss_sum;     /* double: of an evaluation */
    size_t control;      /* struct step_control */
    size_t result;       /* struct step_result */
    size_t weights_clip; /* struct clip_state: of the weights */
    size_t ranges;       /* (params of the model) struct update_range: as many as there could be */
    size_t norm;         /* (N, C) the normalised residual stream, recomputed in the backward pass */
    size_t branch;       /* (N, C) output of a projection before it joins the stream; gradient of norm */
    size_t act;          /* (N, F), and its gradient */
    size_t dx;           /* (N, C) gradient of the residual stream */
    size_t dattn;        /* (N, NH*HS) */
    size_t dqkv;         /* (N, Q) */
    size_t scratch, scratch_bytes; /* the largest workspace any single operation asks for */
    size_t logits;                 /* (loss_chunk, V) */
    size_t gemm_workspace;         /* lent to the stream; only where it wants any */
    int loss_chunk;                /* rows the fused linear cross-entropy works on at a time */
};

/* Whether the backward pass computes the activations of this layer again. Without training there is no
 * backward pass, and all layers share theirs. */
bool plan_recomputes(const struct plan *plan, int layer);

/* The precision that train.precision names; "auto" is the device's best. */
enum precision plan_precision(const char *name, enum precision best);

enum status plan_init(struct plan *plan, const struct plan_input *input, struct err *err);
void plan_release(struct plan *plan); /* harmless on a zeroed struct */

#endif
