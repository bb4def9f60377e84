/* The network: forward and backward pass of a Llama-family decoder, written once against the backend's table.
 * Owns the device memory of a plan; allocates it in network_open, one block a category, and never again.
 *
 * Shapes as in kernels/device/backend.h. Sequences and their length may be smaller than planned, never
 * larger. */
#ifndef ANNEAL_CORE_NETWORK_NETWORK_H
#define ANNEAL_CORE_NETWORK_NETWORK_H

#include <stdint.h>

#include "core/model/model.h"
#include "core/network/operation.h"
#include "core/network/plan.h"
#include "core/train/profiler.h"
#include "kernels/device/backend.h"

struct network {
    const struct backend *backend;          /* borrowed */
    struct device *device;                  /* borrowed */
    struct allocator *allocator;            /* owned */
    struct stream *stream;                  /* owned */
    const struct model *model;              /* borrowed */
    const struct plan *plan;                /* borrowed */
    unsigned char *memory[PLAN_CATEGORIES]; /* of the device, or of the host; NULL for an empty one */
    size_t allocated[PLAN_CATEGORIES];      /* bytes of it, as asked of the allocator */
    float *weights, *gradients;             /* (elements) fp32, into memory */
    void *compute_weights;        /* (elements) weights in the plan's precision; weights where fp32 */
    struct profiler *profiler;    /* of the step under way; NULL: it is not profiled; borrowed */
    struct operation_shape shape; /* of the newest forward pass */
};

/* Where dropout draws its masks; probability 0 for evaluation and generation. Of a network that trains. */
struct network_dropout {
    float probability;
    uint64_t seed;
    uint32_t step, micro_batch;
};

/* Allocates and prepares everything; weights are left uninitialised. On failure nothing is left.
 * STATUS_DEVICE: the device has failed, or cannot compute this model. */
enum status network_open(struct network *network, const struct backend *backend, struct device *device,
                         const struct model *model, const struct plan *plan, struct err *err);
void network_close(struct network *network); /* harmless on a zeroed struct */

/* A new stream in the place of one that found no memory (STATUS_NO_MEMORY from stream_wait): all memory can
 * be read again. On failure the network is only good for being closed. */
enum status network_renew_stream(struct network *network, struct err *err);

/* Operations that a micro-batch marks at most, by layer and beside them, the optimizer's among these. */
enum { NETWORK_MARKS_A_LAYER = 48, NETWORK_MARKS_BESIDE = 24 };

/* Here begins an operation, of layer `layer` (-1: of none), and ends the one before: for the profiler, where
 * the step is profiled. */
void network_mark(struct network *network, enum phase phase, int layer, enum operation operation);

enum { NETWORK_PRODUCTS_MAX = 24 };

/* Every matrix product of a training step, an evaluation's full batch and the next token's logits, each once:
 * what pre-warming is for. Returns how many. An evaluation's last batch, where it is smaller, and generation
 * have others. */
int network_gemm_shapes(const struct plan *plan, struct gemm_shape out[NETWORK_PRODUCTS_MAX]);

/* After anyone but the optimizer wrote `weights`: what the network computes with follows them. */
void network_weights_written(struct network *network);

/* ---- a training step, of what is in device memory already: queues work and waits for nothing ---- */

/* Where batch `slot`, 0 or 1, lies: (2,B,T) int32 in device memory, inputs and then targets. */
int32_t *network_batch(struct network *network, int slot);

/* What the step's operations read: seed, step and micro-batch of dropout, loss scale, learning rate. */
void network_control(struct network *network, struct step_control control);

/* Before a step's first micro-batch: gradients and the sum of losses are zero. */
void network_clear(struct network *network);

/* Forward and backward pass over tokens (2,B,T) in device memory: adds the gradients of the control's
 * loss_scale · Σ losses to `gradients` and Σ losses to the step's result. */
void network_micro_batch(struct network *network, const int32_t *tokens, int B, int T, float dropout);

/* ---- from host memory ---- */

/* Forward pass over inputs (B,T) on the host; the normalised final stream (N,C) stays in the plan's `norm`.
 */
void network_forward(struct network *network, const int32_t *inputs, int B, int T,
                     struct network_dropout dropout);

/* After network_forward: the sum of the losses at targets (B,T) on the host, −100 ignored. Waits for the
 * device. */
double network_loss(struct network *network, const int32_t *targets, int B, int T);

/* After network_forward: adds the gradients of loss_scale · Σ losses to `gradients`, and the sum of the
 * losses (unscaled) to the step's result. Same dropout as in the forward pass. Writes the control, so the
 * learning rate of an update comes after it. */
void network_backward(struct network *network, const int32_t *targets, int B, int T, float loss_scale,
                      struct network_dropout dropout);

/* The step's result so far. Waits for the device. */
void network_result(struct network *network, struct step_result *out);

/* After network_forward: the logits (V) that follow row `row` of the (N, C) stream, to the host. Waits. */
void network_logits(struct network *network, int row, float *logits);

#endif
