/* The largest batch, and the longest sequence, whose plan fits into so much memory; and what
 * memory costs in time where activations are computed again. */
#ifndef ANNEAL_CORE_MEMORY_FIT_H
#define ANNEAL_CORE_MEMORY_FIT_H

#include "core/network/plan.h"

/* The bytes that a network with a plan for this input takes: plan_reserved. */
enum status plan_bytes(const struct plan_input *input, size_t *out, struct err *err);

/* A B for the input's T that fits while one more does not, up to `most` (B · T is an int); 0: not even one
 * sequence fits. Plans grow with the batch but for a few sizes, at which buffers find places beside each
 * other: one of these beyond the answer may fit, too. */
enum status fit_batch(struct plan_input input, size_t bytes, int most, int *out, struct err *err);

/* The same of T for the input's B; 0: not even one token fits. */
enum status fit_length(struct plan_input input, size_t bytes, int most, int *out, struct err *err);

/* Activation checkpointing every so many layers, as checkpoint.activation_interval has it. */
struct activation_trade {
    int interval;
    size_t bytes;       /* of the whole plan */
    double extra_flops; /* what is computed again, of the FLOPs of a step without (model_flops_per_token) */
};
enum status fit_trade(struct plan_input input, int interval, struct activation_trade *out, struct err *err);

/* ---- the overhead: what this process holds of a device before training allocates anything ----
 *
 * On a GPU the driver's context, the libraries' own buffers and the loaded code; on a CPU the program itself
 * and what it has read. It is not ours to plan, so it is measured, and kept for who asks without training. */

/* Bytes now; -1: nobody tells (no NVML or one that hangs, or a container that hides the process from it). */
int64_t overhead_measure(const struct device_info *device);

/* In a file of the folder, one a device; what cannot be written is measured next time. `folder` NULL:
 * nowhere. */
void overhead_keep(const char *folder, const struct device_info *device, int64_t bytes);
int64_t overhead_recall(const char *folder, const struct device_info *device); /* -1: nothing is kept */

#endif
