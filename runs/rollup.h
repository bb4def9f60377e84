/* The metrics that charts show, their points, and rollups: summaries of 64 and 4,096 steps, so that a run of
 * any length opens at once.
 *
 * Always: a bucket covers steps [k·level, (k+1)·level) of the history that counts (table_history); it is
 * written in the transaction that records its last step, or the first step after it; all buckets of a level
 * before the last one of the metric `loss` have been written. A bucket without a value of a metric has no
 * row. */
#ifndef ANNEAL_RUNS_ROLLUP_H
#define ANNEAL_RUNS_ROLLUP_H

#include <stdint.h>

#include "core/base/record.h"
#include "runs/columns.h"
#include "runs/store.h"

/* Columns of `steps`, and val_loss of `evals`. */
enum metric {
    METRIC_LOSS,
    METRIC_LR,
    METRIC_GRAD_NORM,
    METRIC_CLIP_SCALE,
    METRIC_TOKENS_PER_SEC,
    METRIC_STEP_MS,
    METRIC_MFU,
    METRIC_VAL_LOSS,
    METRIC_COUNT,
    /* not one metric each, so they are not counted: series.name says which */
    METRIC_MEASURE = METRIC_COUNT, /* a measure of the evaluations */
    METRIC_INFERENCE,              /* a column of inference */
    METRIC_RANKS,                  /* a column of ranks */
    METRIC_DEVICE                  /* a column of gpu_samples */
};

const struct column_info *metric_column(enum metric metric);
const char *metric_name(enum metric metric); /* the name of the column: "loss", … "val_loss" */

/* One raw step or a bucket of them. A bucket keeps its extremes, so a spike survives any reduction. */
struct series_point {
    int64_t first_step, last_step; /* the steps that it covers; equal for a raw point */
    double min, max, mean, last;   /* over finite values; all NaN when there is none */
    int64_t count;                 /* values in it */
    int64_t non_finite;            /* values that were NaN or infinite */
};

/* Makes a point of one value. */
struct series_point series_point_of(int64_t step, double value);
/* Merges `next` into `into`: it is of the same metric and covers later steps. */
void series_point_merge(struct series_point *into, const struct series_point *next);

enum { ROLLUP_LEVELS = 2, ROLLUP_METRICS = METRIC_VAL_LOSS }; /* the metrics of steps */

static const int64_t rollup_level[ROLLUP_LEVELS] = {64, 4096};

/* Exponential moving averages: acc = decay·acc + (1 - decay)·x, over finite values. For a bucket of n of them
 * that is decay^n·acc + ema, where ema = sum over i < n of (1 - decay)·decay^(n-1-i)·x_i is stored with the
 * bucket: so an average over any number of steps is computed from buckets, as exact as from the steps. */
enum { ROLLUP_DECAYS = 3 };

static const double rollup_decay[ROLLUP_DECAYS] = {0.9, 0.99, 0.999};

struct rollup {
    int64_t first_step[ROLLUP_LEVELS]; /* first step of the open bucket; -1: none */
    struct rollup_bucket {
        struct series_point point;
        double ema[ROLLUP_DECAYS];
    } open[ROLLUP_LEVELS][ROLLUP_METRICS];
};

/* The column of a factor's `ema`; NULL: it is none of rollup_decay. */
const char *rollup_ema_column(double decay);

/* Sets *end to the first step after the written buckets of rollup_level[level]; 0 if there are none. */
enum status rollup_end(struct store *store, const char *run_id, int level, int64_t *end, struct err *err);

/* Prepares to add `first_step` as the first step of a new segment: removes the buckets that it replaces,
 * writes those that a crash or an import left unwritten, and fills the open ones from the rows. Call it
 * inside a transaction. */
enum status rollup_begin(struct rollup *rollup, struct store *store, const char *run_id, int64_t first_step,
                         struct err *err);

/* Adds a step and writes the buckets that it completes. Call it inside a transaction. An absent mfu (NaN)
 * adds nothing. When rollup_begin reads rows, it skips every absent value. */
enum status rollup_add(struct rollup *rollup, struct store *store, const char *run_id,
                       const struct step_record *record, struct err *err);

#endif
