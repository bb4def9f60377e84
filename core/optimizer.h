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

/* One update of the weights from the network's gradients, at the learning rate of the network's control. The
 * clip state of the step's result tells the norm, the scale that was applied (0: the norm was not finite and
 * nothing was changed) and how many updates there were; nobody waits for it. */
void optimizer_step(const struct optimizer *optimizer, struct network *network);

/* So many updates there were before the next one; 0 in a new network. */
void optimizer_resume(struct network *network, int64_t updates);

#endif
