/* Early stopping: when evaluations stop improving. The best is the lowest validation loss, whoever asked for
 * the evaluation; its weights are kept. Patience is used up by evaluations that are due and do not fall below
 * the one that gave it back last by more than min_delta. NaN never improves. */
#ifndef ANNEAL_CORE_TRAIN_EARLY_STOPPING_H
#define ANNEAL_CORE_TRAIN_EARLY_STOPPING_H

#include "core/base/record.h"

struct early_stopping {
    double min_delta;
    int64_t patience; /* 0: never stops, but still keeps the history */
    double best;      /* the lowest loss; infinity before the first evaluation */
    int64_t best_step;
    double reference; /* the loss that gave the patience back last; infinity before */
    int64_t used;     /* evaluations that were due since then */
};

void early_stopping_init(struct early_stopping *stopping, int64_t patience, double min_delta);

/* Takes one evaluation into account and returns the decision as the row to record. One that is `ordered`
 * leaves the patience as it is. */
struct stopping_record early_stopping_judge(struct early_stopping *stopping, int64_t step, double val_loss,
                                            bool ordered);

#endif
