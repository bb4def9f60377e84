/* Every optimizer, once: a word of train.optimizer, how many moments it keeps of a parameter, train.beta2
 * where that is not set, and its FLOPs a parameter. kernels/NAME.h says what it computes; the slot is
 * NAME_step. */
#ifndef ANNEAL_KERNELS_OPTIMIZERS_H
#define ANNEAL_KERNELS_OPTIMIZERS_H

#define OPTIMIZER_LIST(OPTIMIZER)                                                                            \
    OPTIMIZER(ADAMW, adamw, 2, 0.95, 17)                                                                     \
    OPTIMIZER(LION, lion, 1, 0.99, 11)

#endif
