/* The optimizer: gradient norm (local sum, combined over the world), clipping, and one of
 * kernels/optimizers.h over the flat arenas of a network, in one launch. Which stretch of them decays how
 * much and at which rate says a table on the device; without parameter groups it has two ranges: matrices,
 * which decay, and vectors (norms, biases), which do not. Formulas are in the headers of kernels/. */
#ifndef ANNEAL_CORE_TRAIN_OPTIMIZER_H
#define ANNEAL_CORE_TRAIN_OPTIMIZER_H

#include "core/model/choices.h"
#include "core/model/param_group.h"
#include "core/network/network.h"
#include "core/train/world.h"

struct optimizer {
    const struct world *world; /* whose ranks' gradients make one norm */
    enum optimizer_kind kind;
    double beta1, beta2;
    double eps;           /* AdamW */
    double max_grad_norm; /* 0: no clipping */
    int range_count;      /* set by optimizer_lay_ranges */
};

/* Before the first step: lays the table of update ranges on the device; groups NULL: none. `weight_decay` is
 * of matrices that no group decays otherwise. */
enum status optimizer_lay_ranges(struct optimizer *optimizer, struct network *network,
                                 const struct param_groups *groups, double weight_decay, struct err *err);

/* One update of the weights from the network's gradients, at the learning rate of the network's control. The
 * clip state of the step's result reports the norm, the scale that was applied (0: the norm was not finite
 * and nothing was changed) and how many updates there were; nobody waits for it. */
void optimizer_step(const struct optimizer *optimizer, struct network *network);

/* So many updates there were before the next one; 0 in a new network. */
void optimizer_resume(struct network *network, int64_t updates);

#endif
