/* Private to runs/: rollups, the summaries of 64 and 4,096 steps that let a run of any length open at once.
 *
 * Always: a bucket covers steps [k·level, (k+1)·level) of the history that counts (table_history); it is
 * written in the transaction that records its last step, or the first step after it; every bucket before the
 * last one of the metric `loss` at its level is written. A bucket without a value of a metric has no row.
 * Extremes, mean and last are over finite values; `count` is of all values, `non_finite` of those that were
 * NaN or infinite. */
#ifndef ANNEAL_RUNS_ROLLUP_H
#define ANNEAL_RUNS_ROLLUP_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/record.h"
#include "runs/database.h"
#include "runs/metric.h"

enum { ROLLUP_LEVELS = 2, ROLLUP_METRICS = METRIC_VAL_LOSS }; /* the metrics of steps */

static const int64_t rollup_level[ROLLUP_LEVELS] = {64, 4096};

struct rollup_bucket {
    double min, max, sum, last; /* of finite values; NaN (sum 0) without one */
    int64_t count, non_finite;
};

struct rollup {
    int64_t first_step[ROLLUP_LEVELS]; /* of the open bucket; -1: none */
    struct rollup_bucket open[ROLLUP_LEVELS][ROLLUP_METRICS];
};

void rollup_bucket_clear(struct rollup_bucket *bucket);
void rollup_bucket_add(struct rollup_bucket *bucket, double value);

/* Where the written buckets of rollup_level[level] end: the first step that none of them covers; 0 without
 * one. */
enum status rollup_end(struct store *store, const char *run_id, int level, int64_t *end, struct err *err);

/* Makes ready to add step `first_step` as the first one of a new segment: removes the buckets it replaces,
 * writes those that a crash or an import left unwritten, and fills the open ones from the rows. Inside a
 * transaction. */
enum status rollup_begin(struct rollup *rollup, struct store *store, const char *run_id, int64_t first_step,
                         struct err *err);

/* Adds a step and writes the buckets it completes. Inside a transaction. An absent mfu (NaN) adds nothing; of
 * rows that rollup_begin reads, no absent value does. */
enum status rollup_add(struct rollup *rollup, struct store *store, const char *run_id,
                       const struct step_record *record, struct err *err);

#endif
