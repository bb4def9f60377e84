/* The network: forward and backward pass of a Llama-family decoder, written once against the backend's table.
 * Owns the device memory of a plan; allocates it in network_open, one block a category, and never again.
 *
 * Shapes as in kernels/device/backend.h. Batches and sequences may be smaller than planned, never larger. */
#ifndef ANNEAL_CORE_NETWORK_NETWORK_H
#define ANNEAL_CORE_NETWORK_NETWORK_H

#include <stdint.h>

#include "core/model/model.h"
#include "core/network/plan.h"
#include "core/network/row_graph.h"
#include "kernels/device/backend.h"
#include "kernels/device/observed.h"
#include "kernels/device/world.h"

enum phase {
    PHASE_DATA, /* copies the batch to where the forward pass reads it */
    PHASE_FORWARD,
    PHASE_BACKWARD,
    PHASE_RECOMPUTE, /* recomputes activations, within the backward pass */
    PHASE_OPTIMIZER,
    PHASES
};
const char *phase_name(enum phase phase); /* "data", "forward", … */

/* The matrices of a projection that a product multiplies with. */
enum weight_part { PART_BASE, PART_ADAPTER_A, PART_ADAPTER_B, WEIGHT_PARTS };

struct pass_place {
    enum phase phase;
    int layer;          /* -1: not part of any layer */
    enum weight weight; /* of the last matrix product */
    enum weight_part part;
    bool trains; /* a micro-batch: adapters drop elements of their input */
    bool infers; /* the results are for generating: products of few rows may round differently */
};

enum { EXCHANGE_PARTS = 8 }; /* of the weights, each of which passes may wait for */

/* How far the exchange of slices is: see exchange.h. */
struct exchange {
    const struct world *world; /* the network's, or what is beside it */
    struct stream *stream;     /* owned; exchanges while the network computes; NULL: it does not */
    struct event *turn,
        *arrived[EXCHANGE_PARTS]; /* owned, with `stream`; when parts of the weights are here */
    bool last;     /* the micro-batch is the last of its step: its gradients are sent as they become final */
    int final;     /* gradients of matrices that are used from this place on are sent */
    double waited; /* seconds that the network has waited for what is exchanged beside it */
    struct event *sums[2]; /* owned: before and after the wait for a step's sums; NULL: no device waits */
    int parts_ahead; /* of the weights, that no pass has waited for: from EXCHANGE_PARTS - parts_ahead on */
};

struct network {
    const struct backend *backend;          /* borrowed */
    struct device *device;                  /* borrowed */
    struct allocator *allocator;            /* owned */
    struct stream *stream;                  /* owned */
    const struct model *model;              /* borrowed */
    const struct plan *plan;                /* borrowed */
    unsigned char *memory[PLAN_CATEGORIES]; /* of the device or the host; NULL for an empty category */
    struct slice slice, owned; /* this rank's: see plan_slice and plan_owned; all in a world of one */
    float *weights;            /* (owned) fp32 masters, a pointer into memory */
    float *gradients;          /* (elements) fp32, likewise */
    bool adds;             /* the next micro-batch adds to the gradients of all weights, see network_clear */
    void *compute_weights; /* (elements) weights in the plan's precision; weights where fp32 */
    void *frozen;          /* (frozen_bytes): each parameter in its own type */
    const struct backend *table; /* the passes call this: the backend, or the observing table around it */
    struct stream *calls;        /* of `table` */
    struct pass_place where;     /* the part of a step that is running */
    struct row_graph row_graph;  /* see network_replay_rows */
    const struct world *world;   /* borrowed; network_open: a world of one */
    struct exchange exchange;    /* of slices, with several ranks */
};

/* B rows of T tokens, in host or in device memory; borrowed. */
struct batch_view {
    const int32_t *inputs;    /* (B,T) */
    const int32_t *labels;    /* (B,T), −100 ignored; a forward pass does not read them */
    const int32_t *positions; /* (B,T): of each token in its sequence, where rows hold several sequences one
                               * after the other, each from position 0 on; NULL: a row is one sequence */
    int B, T;
};

/* Allocates and prepares everything but the values of the weights. On failure nothing stays allocated.
 * STATUS_DEVICE: the device failed or cannot compute this model. */
enum status network_open(struct network *network, const struct backend *backend, struct device *device,
                         const struct model *model, const struct plan *plan, struct err *err);
void network_close(struct network *network); /* harmless on a zeroed struct */

/* Replaces a stream that ran out of memory (STATUS_NO_MEMORY from stream_wait), so that memory can be read
 * again. After a failure the network can only be closed. */
enum status network_renew_stream(struct network *network, struct err *err);

/* The weights for computing from element `at` on. */
static inline void *network_compute_weights(const struct network *network, size_t at)
{
    return (unsigned char *)network->compute_weights + at * precision_bytes(network->plan->input.precision);
}

/* The address of a buffer of the plan; `layer` matters for LAYER buffers. */
static inline void *network_at(const struct network *network, enum buffer buffer, int layer)
{
    const struct buffer_place *at = &network->plan->places[layer * BUFFERS + (int)buffer];
    return network->memory[at->category] + at->offset;
}

/* Floats, or with plan_input.moments_8bit blocks of kernels/moments.h; averages are always floats. */
static inline void *network_moment(const struct network *network, enum moment which)
{
    return network_at(network, BUFFER_MOMENT1 + (enum buffer)which, 0);
}

/* Sets the observer that records the operations of the passes; NULL: none. Sets its table, stream and
 * precision. Work replayed as a graph is not recorded. */
void network_observe(struct network *network, struct observer *observer);

/* The name of this call in a profile, static text; NULL: profiles leave it out. */
const char *network_label(const struct network *network, const struct operation_call *call);
/* Whether ranks exchange memory in this operation. */
bool network_is_collective(enum operation operation);

/* Sets the part of a step that comes next. */
static inline void network_enter(struct network *network, enum phase phase, int layer)
{
    network->where.phase = phase;
    network->where.layer = layer;
}

/* For the planner: sets the parameter pointers into `memory`; and calls the operations of a step and an
 * evaluation, or of a prompt and of next tokens, one after the other, in an order that can occur. */
void network_point(struct network *network);
void network_walk(struct network *network, float dropout);
void network_walk_rows(struct network *network);

/* Sets elements [first, first + count) of a parameter to `values`, fp32 on the host, which it may overwrite.
 * An NF4 parameter is quantised: it is written whole, in order, in pieces of whole blocks of at most
 * PLAN_PIECE bytes. Waits. Call network_weights_written afterwards. */
enum status network_write_parameter(struct network *network, const struct param *param, size_t first,
                                    float *values, size_t count, struct err *err);

/* The same for values in the type that the parameter is stored in, fp32 or bf16, which are not changed. */
enum status network_store_parameter(struct network *network, const struct param *param, size_t first,
                                    const void *stored, size_t count, struct err *err);

/* Sets elements [first, first + count) of a moment, or of the average, from where this rank's begin, to
 * `values`, fp32 on the host, which it may overwrite. `first` is a multiple of MOMENT_BLOCK; `count` is, too,
 * unless the moment ends there. Waits. */
enum status network_write_moment(struct network *network, enum moment which, size_t first, float *values,
                                 size_t count, struct err *err);

/* Fresh weights, see model_initialise_param; of a model with a base only of the adapters. Waits. */
enum status network_initialise(struct network *network, uint64_t seed, struct err *err);

/* The fp32 values of all trainable parameters, from their writing until the first step or evaluation. A rank
 * with slices in bf16, which keeps its own slice alone, has them where later the gradients are. */
float *network_all_weights(struct network *network);

/* Call after writing parameters: updates this rank's weights, and those for computing. */
void network_weights_written(struct network *network);

/* Between two steps: from now on passes compute with the averages of the weights, which go to the memory of
 * the gradients, or again with the weights. All ranks call it. */
void network_show_average(struct network *network, bool average);

/* ---- a training step on data in device memory: queues work, never waits ---- */

/* The address of batch `slot`, 0 or 1: (plan_batch_parts,B,T) int32 in device memory, for the plan's B and T:
 * inputs, labels and, if it is packed, positions. */
int32_t *network_batch(struct network *network, int slot);

/* Sets what the step's operations read: seed, step and micro-batch of dropout, loss scale, learning rate,
 * limit of the losses. */
void network_control(struct network *network, struct step_control control);

/* Before the first micro-batch of a step: clears the sum of losses, and those gradients that this micro-batch
 * adds to. Those that are matrix products it overwrites, which saves writing and reading zeros. */
void network_clear(struct network *network);

/* After the last micro-batch: queues the sums of gradients and losses over all ranks, and the sum of the
 * squares of those gradients, of which each rank squares its slice. */
void network_gradient_squares(struct network *network);

/* After network_gradient_squares: queues norm and clipping scale, which is 0 where the sum of losses is above
 * the control's loss_limit; returns where in the step's result they will be. */
struct clip_state *network_clip(struct network *network, float max_norm);

/* Forward and backward pass over the batch in `slot`: adds the gradients of the control's loss_scale · Σ
 * losses to `gradients` and Σ losses to the step's result. */
void network_micro_batch(struct network *network, int slot, float dropout);

/* ---- on batches in host memory, at most as large as planned; with positions only if the plan is packed ----
 */

/* Forward pass over the inputs, without dropout; the normalised final stream (N,C) stays in the plan's
 * `norm`. */
void network_forward(struct network *network, struct batch_view batch);

/* After network_forward: the sum of the losses at the labels. Waits for the device. */
double network_loss(struct network *network, struct batch_view batch);

/* Of a classifier, after network_forward: pools the sequences up to the tokens with a label of at least 0, so
 * that network_logits gives the logits of the sequence at that row. */
void network_pool(struct network *network, struct batch_view batch);

/* Of a classifier: sets how much texts of each class count in the losses, (num_labels) on the host; before
 * the first loss. */
void network_weigh_classes(struct network *network, const float *weights);

/* network_control, and forward and backward pass as of network_micro_batch. */
void network_train(struct network *network, struct batch_view batch, float dropout,
                   struct step_control control);

/* Copies the step's result so far. Waits for the device. */
void network_result(struct network *network, struct step_result *out);

/* After network_forward or network_append_rows: the logits (count, rows of the head) that follow the rows
 * `first`, `first` + 1, … of the (N, C) stream, to the host, in one product if the plan has room for them.
 * Waits. */
void network_logits(struct network *network, int first, int count, float *logits);

/* ---- sequences in the KV cache, for a plan with cache_slots ----
 *
 * A slot holds the keys and values of one sequence, so that continuing it costs a pass over the new tokens
 * alone. Slots begin empty. The lengths are known to the host: it never waits for the device to know them. */

/* Replays passes over a few rows as graphs from now on, if the device queues its work. For programs that
 * write many tokens: recording asks the device for memory, which training must not. */
void network_replay_rows(struct network *network);

/* The tokens in the slot. */
int network_cached(const struct network *network, int slot);

/* Keeps the first `length` tokens of the slot, of those it has; 0 empties it for another sequence. */
void network_truncate(struct network *network, int slot, int length);

/* Forward pass over N rows, at most B·T of the plan: token n, in [0,V), becomes the next one of the sequence
 * in slots[n], which must have room for it. So rows of several sequences of any length may be mixed: a step
 * of decoding is one row for each active sequence. Both arrays (N) are host memory. Does not wait. */
void network_append_rows(struct network *network, const int32_t *tokens, const int32_t *slots, int N);

/* Appends any number of tokens, at least 1, to one slot, in as few passes as possible. Returns the row of the
 * last token in the last pass, for network_logits. */
int network_append(struct network *network, int slot, const int32_t *tokens, int count);

#endif
