/* The training of a sweep: each run is a process of this program, `anneal train` or `anneal resume`, which
 * ends at its next rung. So a run that waits for the others holds no memory. */
#ifndef ANNEAL_TUI_COMMAND_SWEEP_RUN_H
#define ANNEAL_TUI_COMMAND_SWEEP_RUN_H

#include "tui/session/sweep.h"

/* Takes the lock of a sweep, which its trainers hold with it. If the process that held it was killed, waits
 * until its trainers have saved their work. STATUS_BUSY while that process lives. */
enum status sweep_lock(const struct sweep *sweep, int *fd, struct err *err);

/* Trains what is left to do, sweep->jobs runs at a time, each with its part of the processors, and reports on
 * standard error. Ctrl-C, SIGTERM or SIGUSR1: the runs save and stop; STATUS_INTERRUPTED, or
 * STATUS_PREEMPTED. A run that fails is left behind, and the others go on. */
enum status sweep_train(struct sweep *sweep, struct store *store, struct err *err);

/* "train.learning_rate 1e-4, train.optimizer lion" of the run with this index. Returns buf. */
char *sweep_run_words(const struct sweep *sweep, int index, char *buf, size_t size);

#endif
