/* A thread that records what the device is doing while a run trains: every two seconds a row of gpu_samples.
 * It has its own connection to the store and reads the device from outside, so it never waits for training
 * and training never for it; without a store it is silent, since no run should fail for want of its metrics,
 * and of a GPU that nobody can look at it records what the host reports. Nor does a run wait for a device
 * that hangs when it is asked: the thread is then left behind. */
#ifndef ANNEAL_TUI_SESSION_METRICS_H
#define ANNEAL_TUI_SESSION_METRICS_H

#include "kernels/device/backend.h"

struct metrics;

enum { METRICS_PATIENCE = 5 }; /* seconds */

/* Borrows nothing, and asks nothing of the device: the thread does. */
enum status metrics_start(const char *home, const char *run_id, const struct device_info *device,
                          struct metrics **out, struct err *err);
/* Takes a last sample and waits for the thread, `seconds` at most. STATUS_BUSY: it hangs, and is left behind;
 * when it comes back it ends without a sample. NULL is harmless. */
enum status metrics_stop(struct metrics *metrics, double seconds, struct err *err);

#endif
