/* The learning rate that a configuration plans, as points of a chart and at the steps worth naming. What the
 * form of a new run and `anneal train --dry-run` show: the trainer's own schedule, so neither is a copy. */
#ifndef ANNEAL_TUI_SESSION_SCHEDULE_PLAN_H
#define ANNEAL_TUI_SESSION_SCHEDULE_PLAN_H

#include "core/model/config.h"
#include "runs/series.h"

enum { SCHEDULE_MOMENTS_MAX = 5 };

/* Fills at most `most` points over steps 0 … total_steps - 1, each with the extremes of what it covers;
 * returns how many. `config` is finished. */
size_t schedule_plan_points(const struct config *config, struct series_point *points, size_t most);

struct schedule_moment {
    int64_t step;
    double lr;
    const char *what; /* "the end of the warm-up" */
};

/* The first step, the end of the warm-up, half of the run, the last step: those there are, in step order, no
 * step twice; returns how many. */
size_t schedule_plan_moments(const struct config *config,
                             struct schedule_moment moments[SCHEDULE_MOMENTS_MAX]);

#endif
