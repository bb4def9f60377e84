/* Reads the series that charts show, at the requested resolution, for runs of any length. */
#ifndef ANNEAL_RUNS_SERIES_H
#define ANNEAL_RUNS_SERIES_H

#include <stddef.h>
#include <stdint.h>

#include "runs/rollup.h"

struct series {
    struct series_point *points; /* in step order; owned by the series; grows in series_update */
    size_t count, capacity;
    enum metric metric;
    const char *measure; /* the name of a METRIC_MEASURE, set before series_read; borrowed */
    int level; /* steps per point, a power of two; point k·level covers steps [k·level, (k+1)·level) */
    int64_t first_step, last_step; /* requested range; last_step -1: to the end */
    size_t max_points;             /* requested */
    int64_t cursor;                /* private: the newest step read so far; first_step - 1 for none */
    int segment;                   /* private: the newest segment with a step when it was read */
};

/* Reads steps first..last (last -1: to the end) at the finest level that needs at most about `max_points`
 * points, from rollups where there are any: the newest, incomplete bucket is made from raw steps, so the end
 * is always current. Of a resumed run, earlier segments count only up to the first step of the newer one.
 * Steps without a value (mfu unknown) have no point. Zero `series` before its first use; call it again to
 * start over. On failure the series is empty. */
enum status series_read(struct store *store, const char *run_id, enum metric metric, int64_t first_step,
                        int64_t last_step, size_t max_points, struct series *series, struct err *err);

/* Appends the steps committed since the last call, drops those that a new segment replaces, and coarsens when
 * there are more than twice max_points points. */
enum status series_update(struct store *store, const char *run_id, struct series *series, struct err *err);
void series_release(struct series *series);

#endif
