/* A thread that records what the device is doing while a run trains: every two seconds a row of gpu_samples.
 * It has its own connection to the store and reads the device from outside, so it never waits for training
 * and training never for it; without a store or a gauge it is silent, since no run should fail for want of
 * its metrics. */
#ifndef ANNEAL_TUI_METRICS_H
#define ANNEAL_TUI_METRICS_H

#include "core/base/err.h"

struct metrics;

/* uuid as in gauge.h. Borrows nothing. */
enum status metrics_start(const char *home, const char *run_id, const char *uuid, struct metrics **out,
                          struct err *err);
/* Takes a last sample and waits for the thread; NULL is harmless. */
void metrics_stop(struct metrics *metrics);

#endif
