/* Draws a configuration from a seed and compares its plan with the real allocations: by category, in sum, and
 * as requested from the backend; before, during and after training, evaluating and generating. */
#ifndef ANNEAL_TESTS_CORE_NETWORK_PLAN_TRIAL_H
#define ANNEAL_TESTS_CORE_NETWORK_PLAN_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/network/plan.h"

struct plan_trial {
    struct model_config config;
    struct plan_input input;        /* its model is NULL */
    int micro_batches;              /* of a step */
    bool padding, two_groups;       /* labels that do not count; two groups of parameters */
    struct adapter_config adapters; /* rank 0: none */
    char story[240];                /* all of it, for the message of a failure */
};

/* model_init and the adapters. Fails the running test if it cannot. */
void plan_trial_model(const struct plan_trial *trial, struct model *out);

/* Draws a small valid configuration. `host`: for a device that computes in the host's memory, in fp32; else
 * in any precision. */
void plan_trial_draw(uint64_t seed, bool host, struct plan_trial *out);

/* Fails the running test if anything differs. */
void plan_trial_run(const struct backend *backend, const struct plan_trial *trial);

#endif
