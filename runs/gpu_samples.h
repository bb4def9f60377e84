/* Device metrics of a run: what kernels/device/gauge.h reads, in time. */
#ifndef ANNEAL_RUNS_GPU_SAMPLES_H
#define ANNEAL_RUNS_GPU_SAMPLES_H

#include <stddef.h>

#include "core/base/arena.h"
#include "core/base/record.h"
#include "runs/store.h"

/* Its processes (by pid) are written where they, or what they hold, are others than in the run's sample
 * before of this device; else the sample refers to those of then. */
enum status gpu_samples_add(struct store *store, const char *run_id, const struct gpu_record *record,
                            struct err *err);

/* The newest sample of a run, with its processes by pid in `arena`; *found: there is one. */
enum status gpu_samples_last(struct store *store, const char *run_id, struct arena *arena,
                             struct gpu_record *out, bool *found, struct err *err);

#endif
