/* The largest batch and the longest sequence whose plan fits into a given memory, the time that recomputing
 * activations costs, and the memory that a plan leaves out. */
#ifndef ANNEAL_CORE_MEMORY_FIT_H
#define ANNEAL_CORE_MEMORY_FIT_H

#include "core/network/plan.h"

/* The bytes that a network with a plan for this input takes; see plan_reserved. */
enum status plan_bytes(const struct plan_input *input, size_t *out, struct err *err);

/* The B for the input's T that fits while B + 1 does not, up to `most` (B · T is an int); 0: not even one
 * sequence fits. Plans grow with the batch, except at a few sizes where buffers can share memory better: one
 * of those above the answer may fit, too. */
enum status fit_batch(struct plan_input input, size_t bytes, int most, int *out, struct err *err);

/* The same for T with the input's B; 0: not even one token fits. */
enum status fit_length(struct plan_input input, size_t bytes, int most, int *out, struct err *err);

/* Activation checkpointing with this checkpoint.activation_interval. */
struct activation_trade {
    int interval;
    size_t bytes;       /* of the whole plan */
    double extra_flops; /* recomputed FLOPs, as a share of a step's (model_flops_per_token) */
};
enum status fit_trade(struct plan_input input, int interval, struct activation_trade *out, struct err *err);

/* ---- the overhead: device memory that this process holds before training allocates anything ----
 *
 * On a GPU it is the driver's context, libraries' buffers and loaded code; on a CPU the program itself and
 * the data it has read. It cannot be planned, so it is measured, and stored for commands that do not train.
 */

/* Bytes now; -1: unknown (no NVML, NVML hangs, or a container hides the process from it). */
int64_t overhead_measure(const struct device_info *device);

/* Stores the overhead in a file of the folder, one per device; ignores errors. NULL: does nothing. */
void overhead_keep(const char *folder, const struct device_info *device, int64_t bytes);
int64_t overhead_recall(const char *folder, const struct device_info *device); /* -1: not stored */

#endif
