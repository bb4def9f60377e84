/* Device metrics of a run: what kernels/gauge.h reads, in time. */
#ifndef ANNEAL_RUNS_GPU_SAMPLES_H
#define ANNEAL_RUNS_GPU_SAMPLES_H

#include <stddef.h>

#include "core/base/record.h"
#include "runs/store.h"

enum status gpu_samples_add(struct store *store, const char *run_id, const struct gpu_record *record,
                            struct err *err);

#endif
