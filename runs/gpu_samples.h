/* Device metrics of a run: what kernels/gauge.h reads, in time. */
#ifndef ANNEAL_RUNS_GPU_SAMPLES_H
#define ANNEAL_RUNS_GPU_SAMPLES_H

#include <stddef.h>

#include "core/base/record.h"
#include "runs/store.h"

enum status gpu_samples_add(struct store *store, const char *run_id, const struct gpu_record *record,
                            struct err *err);

/* The newest sample of a run; STATUS_NOT_FOUND: it has none. */
enum status gpu_samples_last(struct store *store, const char *run_id, struct gpu_record *out,
                             struct err *err);

#endif
