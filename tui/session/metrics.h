/* A thread that records the state of the device while a run trains: a row of gpu_samples every two seconds.
 * It has its own connection to the store and reads the device from outside, so it and training never wait for
 * each other. Without a store it does nothing, since missing metrics must not fail a run; for a GPU that
 * cannot be observed it records the host's values. A run leaves the thread behind if its device hangs. */
#ifndef ANNEAL_TUI_SESSION_METRICS_H
#define ANNEAL_TUI_SESSION_METRICS_H

#include "kernels/device/backend.h"

struct metrics;

enum { METRICS_PATIENCE = 5 }; /* seconds */

/* Borrows nothing. Only the thread queries the device. */
enum status metrics_start(const char *home, const char *run_id, const struct device_info *device,
                          struct metrics **out, struct err *err);
/* Takes a last sample and waits at most `seconds` for the thread. STATUS_BUSY: the thread hangs and is left
 * behind; once it continues, it ends without a sample. NULL is harmless. */
enum status metrics_stop(struct metrics *metrics, double seconds, struct err *err);

#endif
