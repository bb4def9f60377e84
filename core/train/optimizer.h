/* The optimizer: gradients of all ranks, their norm, clipping, and one of kernels/optimizers.h over the flat
 * arenas of a network, in one launch; Muon then updates its matrices one by one (core/network/muon.h). A
 * table on the device gives the weight decay and the rate of each range of the arenas; without parameter
 * groups it has two ranges: matrices, which decay, and vectors (norms, biases), which do not; with Muon's
 * matrices a third. The average of the weights (train.ema_decay) is taken after the update. Formulas:
 * headers of kernels/. */
#ifndef ANNEAL_CORE_TRAIN_OPTIMIZER_H
#define ANNEAL_CORE_TRAIN_OPTIMIZER_H

#include "core/model/config.h"
#include "core/model/param_group.h"
#include "core/network/muon.h"

struct optimizer {
    enum optimizer_kind kind;
    double beta1, beta2;
    double eps;           /* AdamW */
    double max_grad_norm; /* 0: no clipping */
    double ema_decay;     /* of the average of the weights; 0: there is none */
    struct muon muon;
    struct update_defaults defaults;
    int range_count;       /* set by optimizer_lay_ranges */
    int elementwise_count; /* likewise: those before Muon's matrices */
};

/* The optimizer of a configuration, without its ranges. */
struct optimizer optimizer_of(const struct config *config);

/* Before the first step: writes the table of update ranges to the device; groups NULL: none. */
enum status optimizer_lay_ranges(struct optimizer *optimizer, struct network *network,
                                 const struct param_groups *groups, struct err *err);

/* Queues one update of the weights from the network's gradients, at the learning rate of the network's
 * control. The clip state of the step's result has the norm, the applied scale (0: nothing was changed, as
 * the norm was not finite, or the loss above its limit) and the number of updates so far. */
void optimizer_step(const struct optimizer *optimizer, struct network *network);

/* Sets how many updates there were so far; 0 in a new network. */
void optimizer_resume(struct network *network, int64_t updates);

#endif
