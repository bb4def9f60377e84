/* Batches on their way to the device: from the task through page-locked memory, over a stream of their
 * own, into one of the network's two places for a batch, while the network computes on the other.
 *
 * Always: a place is filled only after the work that was queued on it, and work that is queued on it comes
 * after the filling; both are ordered by the device. The host waits for nothing but a page-locked buffer of
 * its own. There are as many as two steps have batches, so that it is free where the step before the last is
 * done; of many micro-batches fewer, and the host waits where it is sixteen of them ahead of the device.
 * Nothing is allocated after feed_open. */
#ifndef ANNEAL_CORE_TRAIN_FEED_H
#define ANNEAL_CORE_TRAIN_FEED_H

#include <stdint.h>

#include "core/base/err.h"
#include "core/network/network.h"
#include "core/train/task.h"

struct feed {
    struct network *network; /* borrowed */
    const struct task *task; /* borrowed, like its data */
    void *data;
    struct stream *stream;                        /* owned: of the copies */
    struct event *arrived[PLAN_HOST_BATCHES_MAX]; /* owned, by slot of the page-locked memory */
    struct event *consumed[2];                    /* owned, by place */
    int32_t *host;                                /* (host_batch_count,2,B,T), page-locked, of the plan */
    int next;                                     /* slot of the next batch; its place is that modulo 2 */
};

/* For batches (B,T) as the network's plan has them. On failure feed_close is still harmless. */
enum status feed_open(struct feed *feed, struct network *network, const struct task *task, void *data,
                      struct err *err);
/* Before the network; harmless on a zeroed struct. */
void feed_close(struct feed *feed);

/* Queues the batch at `cursor` and returns its place, for network_batch: what is queued on the network's
 * stream from here on finds it there. */
int feed_take(struct feed *feed, uint64_t cursor);

/* All work on the batch in `place` is queued: the place may be filled again after it. */
void feed_release(struct feed *feed, int place);

#endif
