/* The optimizer: gradient norm, clipping, and AdamW or Lion over the flat arenas of a network. Matrices
 * decay, vectors (norms, biases) do not: the arena keeps them apart, so one launch knows where decay ends.
 * Formulas are in kernels/adamw.h and lion.h. */
#ifndef ANNEAL_CORE_OPTIMIZER_H
#define ANNEAL_CORE_OPTIMIZER_H

#include "core/network.h"

enum optimizer_kind { OPTIMIZER_ADAMW, OPTIMIZER_LION };

struct optimizer {
    enum optimizer_kind kind;
    double beta1, beta2;
    double eps; /* AdamW */
    double weight_decay;
    double max_grad_norm; /* 0: no clipping */
};

/* Moments per parameter: 2 or 1. */
int optimizer_moments(enum optimizer_kind kind);

/* One update of the weights from the network's gradients. `updates` counts the ones before, from 0. *clip
 * tells the norm and the scale that was applied (0: the norm was not finite and nothing was changed). Waits
 * for the device. */
void optimizer_step(const struct optimizer *optimizer, struct network *network, double lr, int64_t updates,
                    struct clip_state *clip);

#endif
