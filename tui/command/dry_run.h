/* The report of `anneal train --dry-run`, and the learning rate that it and the form of a new run show, which
 * is the trainer's own schedule. */
#ifndef ANNEAL_TUI_COMMAND_DRY_RUN_H
#define ANNEAL_TUI_COMMAND_DRY_RUN_H

#include "core/model/config.h"
#include "core/network/plan.h"
#include "runs/series.h"
#include "tui/command/output.h"
#include "tui/session/training_session.h"

enum { SCHEDULE_MOMENTS_MAX = 4 };

struct schedule_moment {
    int64_t step;
    double lr;
    const char *what; /* "the end of the warm-up" */
};

/* Fills at most `most` points over steps 0 … total_steps - 1, each with the extremes of its steps; returns
 * how many. `config` is finished. */
size_t schedule_points(const struct config *config, struct series_point *points, size_t most);

/* Fills in the first step, the end of the warm-up, half of the run and the last step: those that exist, in
 * order, no step twice; returns how many. */
size_t schedule_moments(const struct config *config, struct schedule_moment moments[SCHEDULE_MOMENTS_MAX]);

/* Prints the list param_groups, also for `estimate`: a configuration's parameter groups and their shares of
 * the plan's model. A page has it only if there are groups. */
void parts_print_groups(struct output *output, const struct config *config, const struct plan *plan);

/* The member categories: name to bytes. */
void parts_print_categories(struct output *output, const struct plan *plan);

/* Prints what an opened session, with device, corpus and trainer, would train: its own numbers, no estimates.
 * `context` points to a bool: as JSON. */
enum status dry_run_print(const struct training_session *session, void *context, struct err *err);

#endif
