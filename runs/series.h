/* Reads the series that charts show, at the requested resolution, for runs of any length. */
#ifndef ANNEAL_RUNS_SERIES_H
#define ANNEAL_RUNS_SERIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runs/rollup.h"

/* A larger number is not a step, though a store may hold it. */
#define SERIES_LAST_STEP (INT64_C(1) << 60)

struct series {
    struct series_point *points; /* in step order; owned by the series; grows in series_update */
    double *smooth;              /* count values while `decay` is not 0; else NULL */
    size_t count, capacity;
    enum metric metric;
    const char *name;  /* of a metric that is not counted: the measure or column; set before series_read,
                          borrowed */
    int device;        /* of METRIC_DEVICE: gpu_samples.gpu; set before series_read */
    double decay;      /* of an exponential moving average per step, set before series_read; 0: none */
    bool inherits;     /* a fork begins with the steps of the run that it continues; set before series_read */
    bool fine_start;   /* points are finer towards step 0, for logarithmic steps; set before series_read */
    int64_t fork_step; /* with `inherits`: steps before it are those of other runs; 0: none are */
    int level; /* steps per point, a power of two; point k·level covers steps [k·level, (k+1)·level); with
                  `fine_start` at most that */
    int64_t first_step, last_step; /* requested range; last_step -1: to the end */
    size_t max_points;             /* requested */
    int64_t cursor;                /* private: the newest step read so far; first_step - 1 for none */
    double newest;                 /* private: the newest value that was read from a row, as it is recorded */
    int segment;                   /* private: the newest segment with a step when it was read */
    size_t smooth_capacity;        /* private */
    double ema, ema_weight;        /* private: after the newest step; the weight is 1 - decay^n */
};

/* Reads steps first..last (last -1: to the end) at the finest level that needs at most about `max_points`
 * points, from rollups where there are any: the newest, incomplete bucket is made from raw steps, so the end
 * is always current. Of a resumed run, earlier segments count only up to the first step of the newer one.
 * Steps without a value (mfu unknown) have no point. Zero `series` before its first use; call it again to
 * start over. On failure the series is empty.
 *
 * With `inherits`, the series of a fork begins with the steps that its parent had done before the fork, as
 * the parent shows them now, and those of the parent's own parents.
 *
 * With `fine_start`, a point has at most a SERIES_FINE-th of the steps before it (of those recorded by time
 * or by rank a SERIES_FINE_SLOTS-th), so that on a logarithmic axis it takes no more room than there; the
 * points that this adds, so many for each doubling of the level, do not count in max_points.
 *
 * Values recorded by time or by rank (METRIC_DEVICE, METRIC_RANKS) are those recorded during the steps of a
 * point, and there are at most SERIES_SLOTS points; of more than SERIES_SLOT_ROWS rows the newest count.
 *
 * smooth[i] is the average at the end of points[i]: acc_t / (1 - decay^t) with acc_t = decay·acc + (1 -
 * decay)·x_t, over the finite values of the run in the order of steps; NaN where a point has none, so that
 * the line breaks. The division corrects the start, as Adam does for its moments. The steps before first_step
 * count as far as they matter. It is exact where the store has the sums of `decay` (rollup.h) or the range is
 * at most SERIES_EXACT_STEPS long; else, in a store of an older version, a bucket counts as equal values. */
enum {
    SERIES_EXACT_STEPS = 1 << 20,
    SERIES_SLOTS = 256,
    SERIES_SLOT_ROWS = 32,
    SERIES_FINE = 64, /* powers of two */
    SERIES_FINE_SLOTS = 16
};
enum status series_read(struct store *store, const char *run_id, enum metric metric, int64_t first_step,
                        int64_t last_step, size_t max_points, struct series *series, struct err *err);

/* Appends the steps committed since the last call, drops those that a new segment replaces, and coarsens when
 * there are more than twice max_points points. */
enum status series_update(struct store *store, const char *run_id, struct series *series, struct err *err);
void series_release(struct series *series);

/* A value as it was recorded, infinite or NaN too. */
struct series_value {
    bool known; /* false: there is none */
    double value;
    double average; /* the moving average after it; NaN: without one, or at a value that is not finite */
};

/* Reads the newest value of the run at or before `step`, whatever the level of `series`, which says the
 * metric and the average. Of what is recorded by time or by rank it is that of the point at the step. */
enum status series_value_read(struct store *store, const char *run_id, const struct series *series,
                              int64_t step, struct series_value *out, struct err *err);

#endif
