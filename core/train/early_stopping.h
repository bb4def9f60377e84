/* Early stopping, when evaluations stop improving. The best is the lowest validation loss of all evaluations,
 * also ordered ones; its weights are kept. An evaluation that is due uses up patience unless its loss is more
 * than min_delta below the reference, the last loss that reset the patience. NaN never improves. */
#ifndef ANNEAL_CORE_TRAIN_EARLY_STOPPING_H
#define ANNEAL_CORE_TRAIN_EARLY_STOPPING_H

#include "core/base/record.h"

struct early_stopping {
    double min_delta;
    int64_t patience; /* 0: never stops, but still keeps the history */
    double best;      /* the lowest loss; infinity before the first evaluation */
    int64_t best_step;
    double reference; /* the last loss that reset the patience; infinity before */
    int64_t used;     /* due evaluations since then */
};

void early_stopping_init(struct early_stopping *stopping, int64_t patience, double min_delta);

/* Judges one evaluation; returns the row to record. An `extra` one, which was ordered or is early
 * (eval.early), does not change the patience. */
struct stopping_record early_stopping_judge(struct early_stopping *stopping, int64_t step, double val_loss,
                                            bool extra);

#endif
