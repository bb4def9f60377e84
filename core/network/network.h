/* The network: forward and backward pass of a Llama-family decoder, written once against the backend's table.
 * Owns the device memory of a plan; allocates it in network_open, one block a category, and never again.
 *
 * Shapes as in kernels/device/backend.h. Sequences and their length may be smaller than planned, never
 * larger. */
#ifndef ANNEAL_CORE_NETWORK_NETWORK_H
#define ANNEAL_CORE_NETWORK_NETWORK_H

#include <stdint.h>

#include "core/model/model.h"
#include "core/network/plan.h"
#include "kernels/device/backend.h"
#include "kernels/device/observed.h"

enum phase {
    PHASE_DATA, /* until the batch is where the forward pass reads it */
    PHASE_FORWARD,
    PHASE_BACKWARD,
    PHASE_RECOMPUTE, /* activations again, within the backward pass */
    PHASE_OPTIMIZER,
    PHASES
};
const char *phase_name(enum phase phase); /* "data", "forward", … */

struct pass_place {
    enum phase phase;
    int layer;          /* -1: not part of any layer */
    enum weight weight; /* of the newest product */
};

struct network {
    const struct backend *backend;          /* borrowed */
    struct device *device;                  /* borrowed */
    struct allocator *allocator;            /* owned */
    struct stream *stream;                  /* owned */
    const struct model *model;              /* borrowed */
    const struct plan *plan;                /* borrowed */
    unsigned char *memory[PLAN_CATEGORIES]; /* of the device, or of the host; NULL for an empty one */
    float *weights, *gradients;             /* (elements) fp32, into memory */
    void *compute_weights;       /* (elements) weights in the plan's precision; weights where fp32 */
    void *frozen;                /* (frozen_elements) in the plan's precision */
    const struct backend *table; /* called by the passes: the backend's, or the table that observes it */
    struct stream *calls;        /* of `table` */
    struct pass_place where;     /* which part of a step calls */
};

/* Allocates and prepares everything; weights are left uninitialised. On failure nothing is left.
 * STATUS_DEVICE: the device has failed, or cannot compute this model. */
enum status network_open(struct network *network, const struct backend *backend, struct device *device,
                         const struct model *model, const struct plan *plan, struct err *err);
void network_close(struct network *network); /* harmless on a zeroed struct */

/* A new stream in the place of one that found no memory (STATUS_NO_MEMORY from stream_wait): all memory can
 * be read again. On failure the network is only good for being closed. */
enum status network_renew_stream(struct network *network, struct err *err);

/* Where a buffer of the plan lies; `layer` of those that layers have. */
static inline void *network_at(const struct network *network, enum buffer buffer, int layer)
{
    const struct buffer_place *at = &network->plan->places[layer * BUFFERS + (int)buffer];
    return network->memory[at->category] + at->offset;
}

/* `observer` notes what the passes call, until another does, or none (NULL); its table, stream and precision
 * are set here. Work that is queued again as a graph is not noted. */
void network_observe(struct network *network, struct observer *observer);

/* The name of this call in a profile, static text; NULL: not part of one. */
const char *network_label(const struct network *network, const struct operation_call *call);

/* Which part of a step comes next. */
static inline void network_enter(struct network *network, enum phase phase, int layer)
{
    network->where.phase = phase;
    network->where.layer = layer;
}

/* For the planner: finds the parameters in `memory`; and calls what a step, an evaluation and the next
 * token's logits do, one behind the other, in the order in which they may be asked for. */
void network_point(struct network *network);
void network_walk(struct network *network, float dropout);

/* Elements [first, first + count) of a parameter become `values`, fp32 on the host, which may be overwritten.
 * Waits. What the network computes with follows after network_weights_written. */
enum status network_write_parameter(struct network *network, const struct param *param, size_t first,
                                    float *values, size_t count, struct err *err);

/* Fresh weights, see model_initialise_param. Waits. */
enum status network_initialise(struct network *network, uint64_t seed, struct err *err);

/* After anyone but the optimizer wrote `weights`: what the network computes with follows them. */
void network_weights_written(struct network *network);

/* ---- a training step, of what is in device memory already: queues work and waits for nothing ---- */

/* Where batch `slot`, 0 or 1, lies: (2,B,T) int32 in device memory, inputs and then targets. */
int32_t *network_batch(struct network *network, int slot);

/* The values that the step's operations read: seed, step and micro-batch of dropout, loss scale, learning
 * rate. */
void network_control(struct network *network, struct step_control control);

/* Before a step's first micro-batch: gradients and the sum of losses are zero. */
void network_clear(struct network *network);

/* The sum of the squares of this network's gradients, to the step's result. */
double *network_gradient_squares(struct network *network);

/* After that, and after the squares of all ranks were added up: the norm and the clipping scale, to the
 * step's result. */
struct clip_state *network_clip(struct network *network, float max_norm);

/* Forward and backward pass over tokens (2,B,T) in device memory: adds the gradients of the control's
 * loss_scale · Σ losses to `gradients` and Σ losses to the step's result. */
void network_micro_batch(struct network *network, const int32_t *tokens, int B, int T, float dropout);

/* ---- from host memory ---- */

/* Forward pass over inputs (B,T) on the host, without dropout; the normalised final stream (N,C) stays in the
 * plan's `norm`. */
void network_forward(struct network *network, const int32_t *inputs, int B, int T);

/* After network_forward: the sum of the losses at targets (B,T) on the host, −100 ignored. Waits for the
 * device. */
double network_loss(struct network *network, const int32_t *targets, int B, int T);

/* network_control and network_micro_batch, of inputs and targets (B,T) on the host. */
void network_train(struct network *network, const int32_t *inputs, const int32_t *targets, int B, int T,
                   float dropout, struct step_control control);

/* The step's result so far. Waits for the device. */
void network_result(struct network *network, struct step_result *out);

/* After network_forward: the logits (V) that follow row `row` of the (N, C) stream, to the host. Waits. */
void network_logits(struct network *network, int row, float *logits);

#endif
