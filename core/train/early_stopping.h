/* Early stopping: when evaluations stop improving. Improved means val < best − min_delta; NaN never improves.
 */
#ifndef ANNEAL_CORE_TRAIN_EARLY_STOPPING_H
#define ANNEAL_CORE_TRAIN_EARLY_STOPPING_H

#include "core/base/record.h"

struct early_stopping {
    double min_delta;
    int64_t patience; /* 0: never stops, but still keeps the history */
    double best;      /* infinity before the first evaluation */
    int64_t best_step;
    int64_t used; /* evaluations since the best */
};

void early_stopping_init(struct early_stopping *stopping, int64_t patience, double min_delta);

/* Takes one evaluation into account and returns the decision as the row to record. */
struct stopping_record early_stopping_judge(struct early_stopping *stopping, int64_t step, double val_loss);

#endif
