/* Private to runs/: values that are recorded by time or by rank, not by step, gathered for the steps during
 * which they were recorded. */
#ifndef ANNEAL_RUNS_SLOTS_H
#define ANNEAL_RUNS_SLOTS_H

#include "runs/series.h"

struct slots {
    struct store *store;
    const char *run_id;
    const struct series *series; /* its metric, name and device say which values */
    int64_t newest_step;         /* of the run */
    double since; /* Unix seconds of the last step before the next slot; NaN: not known, at first */
};

/* Whether slots_read reads the values of this metric. */
bool slots_hold(enum metric metric);

/* Fills the rest of `point`, whose steps are set; a count of 0: nothing was recorded. Call it for one point
 * after the other, in the order of steps. */
enum status slots_read(struct slots *slots, struct series_point *point, struct err *err);

#endif
