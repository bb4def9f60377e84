/* Private to runs/: when a writer's thread commits. Arithmetic alone: times are monotonic seconds. */
#ifndef ANNEAL_RUNS_WRITER_PACE_H
#define ANNEAL_RUNS_WRITER_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "runs/writer.h"

enum { WRITER_BATCH = 1000 /* most records of one commit */ };

#define WRITER_COMMIT_EVERY    0.25
#define WRITER_HEARTBEAT_EVERY 5.0 /* when there is nothing else to write */
#define WRITER_RETRY_AFTER     0.5 /* an attempt that has failed */

struct writer_pace {
    double last; /* attempt to commit */
    bool failed; /* it did */
    uint64_t looks;
};

/* The records that wait for a commit. */
struct writer_demand {
    uint64_t records;
    bool lost, flush, closing; /* records were lost; somebody waits; the run ends */
    uint64_t looks;            /* writer_looks */
};

/* Without records a commit is due as a sign of life, but only when the trainer has looked for orders since
 * the last one: one that hangs falls silent. */
static inline bool writer_commit_due(const struct writer_pace *pace, const struct writer_demand *demand,
                                     double now)
{
    double since = now - pace->last;
    if (pace->failed) return since >= WRITER_RETRY_AFTER;
    if (demand->records >= WRITER_BATCH) return true;
    if (demand->records || demand->lost)
        return demand->flush || demand->closing || since >= WRITER_COMMIT_EVERY;
    return demand->looks != pace->looks && since >= WRITER_HEARTBEAT_EVERY;
}

/* How often the trainer has asked for orders. */
uint64_t writer_looks(struct writer *writer);

#endif
