/* Copies batches to the device: from the task through page-locked memory, over a separate stream, into one of
 * the network's two slots for a batch, while the network computes on the other.
 *
 * The device orders the work: a slot is filled after the work queued on it before, and work queued later
 * waits for the copy. The host waits only for a free page-locked buffer. There are enough of them for two
 * steps, so that one is free when the step before the last is done; with many micro-batches at most sixteen,
 * and the host waits when it is sixteen ahead of the device. Nothing is allocated after feed_open. */
#ifndef ANNEAL_CORE_TRAIN_FEED_H
#define ANNEAL_CORE_TRAIN_FEED_H

#include <stdint.h>

#include "core/base/err.h"
#include "core/network/network.h"
#include "core/train/task.h"

struct feed {
    struct network *network;                      /* borrowed */
    struct task_data *data;                       /* borrowed */
    struct stream *stream;                        /* owned, for the copies */
    struct event *arrived[PLAN_HOST_BATCHES_MAX]; /* owned, by slot of the page-locked memory */
    struct event *consumed[2];                    /* owned, by the network's slot */
    int32_t *host;                                /* (host_batch_count,parts,B,T), page-locked, of the plan */
    int next; /* page-locked slot of the next batch; modulo 2, the network's slot */
};

/* For batches (B,T) of the network's plan. On failure feed_close is still harmless. */
enum status feed_open(struct feed *feed, struct network *network, struct task_data *data, struct err *err);
/* Call before the network is closed; harmless on a zeroed struct. */
void feed_close(struct feed *feed);

/* Queues the copy of the batch at `cursor` and returns its slot, for network_batch: work queued on the
 * network's stream from now on finds it there. Labels count in the first `rows` rows alone. */
int feed_take(struct feed *feed, uint64_t cursor, int rows);

/* Call when all work on the batch in `place` is queued: the slot may be filled after that work. */
void feed_release(struct feed *feed, int place);

#endif
