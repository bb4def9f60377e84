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

#endif
