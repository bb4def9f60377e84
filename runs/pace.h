/* How far a run had come at each step: tokens, time. A fork continues where its parent was at that step, so
 * that its curve can be drawn behind its parent's over any of them. */
#ifndef ANNEAL_RUNS_PACE_H
#define ANNEAL_RUNS_PACE_H

#include "core/base/arena.h"
#include "runs/store.h"

enum pace_unit {
    PACE_TOKENS, /* trained on, this step included */
    PACE_WALL,   /* seconds since the first step began, pauses and evaluations included */
    PACE_ACTIVE, /* seconds that the steps took themselves */
    PACE_UNITS
};

struct pace_point {
    int64_t step;
    double at[PACE_UNITS]; /* at its end; never falls; NaN: not recorded */
};

struct pace {
    struct pace_point *points; /* in step order */
    size_t count;
};

/* Reads about 128 points, in `arena`, at even distances; tokens and wall time are those of their steps. An
 * unknown run has none. */
enum status pace_read(struct store *store, const char *run_id, struct arena *arena, struct pace *out,
                      struct err *err);

/* The value at the end of a step, between two points on a straight line; before the first and after the last
 * point theirs. NaN: not recorded. */
double pace_at(const struct pace *pace, enum pace_unit unit, double step);

/* The last step of a point before `value` is reached (`after` false), or the first of one after it. */
int64_t pace_step(const struct pace *pace, enum pace_unit unit, double value, bool after);

#endif
