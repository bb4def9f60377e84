/* Reading what charts show: series at the resolution asked for, whatever the length of the run. */
#ifndef ANNEAL_RUNS_SERIES_H
#define ANNEAL_RUNS_SERIES_H

#include <stddef.h>
#include <stdint.h>

#include "runs/rollup.h"

struct series {
    struct series_point *points; /* in step order; owned by the series; grows in series_update */
    size_t count, capacity;
    enum metric metric;
    int level; /* steps a point, a power of two; point k·level covers steps [k·level, (k+1)·level) */
    int64_t first_step, last_step; /* range asked for; last_step -1: to the end */
    size_t max_points;             /* asked for */
    int64_t cursor;                /* private: the newest step read so far; first_step - 1 for none */
    int segment;                   /* private: the newest segment with a step when it was read */
};

/* Reads steps first..last (last -1: to the end) at the finest level that needs at most about `max_points`
 * points, from rollups where there are any: the newest, incomplete bucket is made from raw steps, so the end
 * is always current. A resumed run is shown as its newest segment remembers it: from that segment's first
 * step on, what earlier segments hold does not count. Steps without a value (mfu unknown) have no point. Zero
 * `series` before its first use; call again to start anew. On failure the series is empty. */
enum status series_read(struct store *store, const char *run_id, enum metric metric, int64_t first_step,
                        int64_t last_step, size_t max_points, struct series *series, struct err *err);

/* Appends what was committed since; coarsens when there are more than twice max_points points; drops what a
 * new segment replaces. */
enum status series_update(struct store *store, const char *run_id, struct series *series, struct err *err);
void series_release(struct series *series);

#endif
