/* When a run first reached a value, such as a validation loss of 3: after which step, how many tokens, how
 * much time. */
#ifndef ANNEAL_RUNS_REACH_H
#define ANNEAL_RUNS_REACH_H

#include "runs/pace.h"
#include "runs/series.h"

struct reach_request {
    enum metric metric; /* with name and device as in struct series */
    const char *name;
    int device;
    double target;   /* NaN: none */
    bool from_below; /* more is better: the first value that is not less; else the first that is not more */
};

struct reach {
    int64_t step;          /* -1: never, and the rest is NaN */
    double at[PACE_UNITS]; /* NaN: not recorded */
};

/* Reads it from the steps that count, those of a fork's parents before its own. `pace` is that of the run. */
enum status reach_read(struct store *store, const char *run_id, const struct reach_request *request,
                       const struct pace *pace, struct reach *out, struct err *err);

#endif
