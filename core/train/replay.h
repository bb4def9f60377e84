/* A step's work as graphs: forward and backward pass of a micro-batch, one graph for each of the network's
 * two places for a batch, and the update. Recorded once; all that differs from step to step is in device
 * memory (struct step_control, struct step_result), so a repetition is right as it is.
 *
 * A graph pays where the host takes long to queue a step beside what the device takes to do it; `auto` finds
 * out. After replay_prepare has recorded or decided against it, nothing is allocated. */
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
    int place;                           /* whose pass is queued or recorded */
    struct graph *passes[2], *update;    /* owned; all NULL until they are recorded */
    struct event *begin, *end;           /* owned; around a measured micro-batch */
    double host_seconds, device_seconds; /* the least so far, of the measured ones */
    int measured, steps;
};

/* The struct must stay where it is. */
enum status replay_open(struct replay *replay, struct network *network, const struct optimizer *optimizer,
                        enum replay_mode mode, float dropout, struct err *err);
void replay_close(struct replay *replay); /* before the network; harmless on a zeroed struct */

/* Before each step. Records the graphs once it is known that they are wanted. STATUS_FAILED: the device would
 * not record them, and steps go on without; it is reported once. Other failures are the device's. */
enum status replay_prepare(struct replay *replay, struct err *err);

/* Whether the next micro-batch is measured: then nothing may be queued before it. */
bool replay_measures(const struct replay *replay);

/* Queues forward and backward pass over the batch in `place`, or the update, as a graph or call by call. */
void replay_micro_batch(struct replay *replay, int place, bool graph);
void replay_update(struct replay *replay, bool graph);

/* After a measured step is done. */
void replay_judge(struct replay *replay);

#endif
