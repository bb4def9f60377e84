/* Orders from the keys of a view: what may be asked of a run in its state, in words, and sent through the
 * store. Each returns the order's id; 0 when none was sent, and the last row says why. */
#ifndef ANNEAL_TUI_VIEW_STEER_H
#define ANNEAL_TUI_VIEW_STEER_H

#include "runs/run.h"
#include "tui/view/workbench.h"

/* ACTION_PAUSE, STOP, CHECKPOINT, EVALUATE, SAMPLE or TRACE on `run`. To stop it asks first, unless the user
 * has `confirmed`. */
int64_t steer_run(struct workbench *workbench, const struct run_info *run, enum action action,
                  bool confirmed);

/* Orders the scheduled learning rate times `factor`. */
int64_t steer_lr_factor(struct workbench *workbench, const struct run_info *run, double factor);

#endif
