/* Private to runs/: decides when a writer's thread commits. Pure arithmetic: times are monotonic seconds. */
#ifndef ANNEAL_RUNS_WRITER_PACE_H
#define ANNEAL_RUNS_WRITER_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "runs/writer.h"

enum { WRITER_BATCH = 1000 /* most records in one commit */ };

#define WRITER_COMMIT_EVERY    0.25
#define WRITER_HEARTBEAT_EVERY 5.0 /* seconds, when there is nothing else to write */
#define WRITER_RETRY_AFTER     0.5 /* seconds after a failed attempt */

struct writer_pace {
    double last; /* time of the last attempt to commit */
    bool failed; /* that attempt failed */
    uint64_t looks;
};

/* The records that wait for a commit. */
struct writer_demand {
    uint64_t records;
    bool lost, flush, closing; /* records were lost; a caller waits; the run ends */
    uint64_t looks;            /* writer_looks */
};

/* Without records a commit is due as a heartbeat, but only if the trainer has called writer_lives since the
 * last commit, as it does when it polls for orders: a trainer that hangs sends no heartbeat. */
static inline bool writer_commit_due(const struct writer_pace *pace, const struct writer_demand *demand,
                                     double now)
{
    double since = now - pace->last;
    if (pace->failed) return since >= WRITER_RETRY_AFTER;
    if (demand->records >= WRITER_BATCH || demand->flush) return true;
    if (demand->records || demand->lost) return demand->closing || since >= WRITER_COMMIT_EVERY;
    return demand->looks != pace->looks && since >= WRITER_HEARTBEAT_EVERY;
}

/* The number of calls of writer_lives. */
uint64_t writer_looks(struct writer *writer);

#endif
