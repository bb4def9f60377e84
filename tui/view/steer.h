/* Orders from the keys of a view: what may be asked of a run in its state, in words, and sent through the
 * store. */
#ifndef ANNEAL_TUI_STEER_H
#define ANNEAL_TUI_STEER_H

#include "runs/run.h"
#include "tui/view/view.h"

/* ACTION_PAUSE, STOP, CHECKPOINT, EVALUATE, SAMPLE or TRACE on `run`: asks first where that is due, otherwise
 * sends the order and says so. A run that is not training is told in the last row. Returns the order's id, 0
 * when none was sent. */
int64_t steer_run(struct workbench *workbench, const struct run_info *run, enum action action);

/* Orders the scheduled learning rate times `factor`; the same answers. */
int64_t steer_lr_factor(struct workbench *workbench, const struct run_info *run, double factor);

/* The same after the question was answered with yes. */
int64_t steer_confirmed(struct workbench *workbench, const struct run_info *run, enum action action);

#endif
