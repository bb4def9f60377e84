/* A step's work as graphs: forward and backward pass of a micro-batch, one graph for each of the network's
 * two slots for a batch (and as many again if a step has several micro-batches: the later ones add to the
 * gradients of the first), and the update. They are recorded once; everything that differs from step to step
 * is in device memory (struct step_control, struct step_result), so a replay is correct as it is.
 *
 * A graph pays off if the host needs long to queue a step, compared with the device's time for it; `auto`
 * measures that. Nothing is allocated after replay_prepare has recorded or rejected the graphs. */
#ifndef ANNEAL_CORE_TRAIN_REPLAY_H
#define ANNEAL_CORE_TRAIN_REPLAY_H

#include <stdbool.h>

#include "core/base/err.h"
#include "core/network/network.h"
#include "core/train/optimizer.h"

struct replay {
    struct network *network;           /* borrowed */
    const struct optimizer *optimizer; /* borrowed */
    float dropout;
    enum replay_mode mode;
    int place;                           /* the slot whose pass is queued or recorded */
    struct graph *passes[2][2], *update; /* owned; all NULL until recorded; [network->adds][place] */
    struct event *begin, *end;           /* owned; around a measured micro-batch */
    double host_seconds, device_seconds; /* the least of the measured steps so far */
    int measured, steps;
};

/* The struct must not move. */
enum status replay_open(struct replay *replay, struct network *network, const struct optimizer *optimizer,
                        enum replay_mode mode, float dropout, struct err *err);
void replay_close(struct replay *replay); /* before the network; harmless on a zeroed struct */

/* Call before each step. Records the graphs once they are known to pay off. STATUS_FAILED, reported once: the
 * device cannot record them, and steps continue without them. Other failures are the device's. */
enum status replay_prepare(struct replay *replay, struct err *err);

/* Whether the next micro-batch is measured: then queue nothing before it. */
bool replay_measures(const struct replay *replay);

/* Queues forward and backward pass over the batch in `place`, or the update, as a graph or call by call. */
void replay_micro_batch(struct replay *replay, int place, bool graph);
void replay_update(struct replay *replay, bool graph);

/* Call after a measured step is done. */
void replay_judge(struct replay *replay);

#endif
