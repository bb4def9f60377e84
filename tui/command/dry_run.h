/* A preview of a training: the report of `anneal train --dry-run`, the preview in
 * the form of a new run, and the learning rate that both show, which is the trainer's own schedule. */
#ifndef ANNEAL_TUI_COMMAND_DRY_RUN_H
#define ANNEAL_TUI_COMMAND_DRY_RUN_H

#include "core/model/config.h"
#include "core/network/plan.h"
#include "runs/series.h"
#include "tui/command/output.h"
#include "tui/session/training_session.h"
#include "tui/view/workbench.h"

enum { SCHEDULE_MOMENTS_MAX = 4 };

struct schedule_moment {
    int64_t step;
    double lr;
    const char *what; /* "the end of the warm-up" */
};

/* Fills at most `most` points over steps 0 … total_steps - 1, each with the extremes of what it covers;
 * returns how many. `config` is finished. */
size_t schedule_points(const struct config *config, struct series_point *points, size_t most);

/* The first step, the end of the warm-up, half of the run, the last step: those there are, in step order, no
 * step twice; returns how many. */
size_t schedule_moments(const struct config *config, struct schedule_moment moments[SCHEDULE_MOMENTS_MAX]);

/* A form_preview_function. `settings`: "section.key=value", as on the command line. */
void form_preview_make(const char *const *settings, size_t count, struct form_preview *out);

/* Printed by `estimate`, too. The list param_groups: the parameter groups of a configuration and their
 * shares of the plan's model. On a page only where there are groups: the configuration says it all. */
void parts_print_groups(struct output *output, const struct config *config, const struct plan *plan);

/* The member categories: name to bytes. */
void parts_print_categories(struct output *output, const struct plan *plan);

/* Prints what an opened session, with device, corpus and trainer, would train: every number is its own,
 * nothing is estimated. `context` points to a bool: as JSON. */
enum status dry_run_print(const struct training_session *session, void *context, struct err *err);

#endif
