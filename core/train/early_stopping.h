/* Early stopping, when evaluations stop improving. The best is the lowest value of val_loss, or the best of
 * the measure that eval.metric names (task.h), of all evaluations, also ordered ones; its weights are kept.
 * An evaluation that is due uses up patience unless its value is better by more than min_delta than the
 * reference, the last value that reset the patience. NaN never improves. */
#ifndef ANNEAL_CORE_TRAIN_EARLY_STOPPING_H
#define ANNEAL_CORE_TRAIN_EARLY_STOPPING_H

#include "core/base/record.h"

struct early_stopping {
    double min_delta;
    int64_t patience; /* 0: never stops, but still keeps the history */
    bool highest;     /* the highest value is the best, not the lowest */
    double best;      /* value; not finite before the first evaluation */
    int64_t best_step;
    double reference; /* the last value that reset the patience; not finite before */
    int64_t used;     /* due evaluations since then */
};

void early_stopping_init(struct early_stopping *stopping, int64_t patience, double min_delta, bool highest);

/* Gives a history that was loaded the settings of `wanted`, which has none yet. */
void early_stopping_adopt(struct early_stopping *loaded, const struct early_stopping *wanted);

/* Judges one evaluation; returns the row to record. An `extra` one, which was ordered or is early
 * (eval.early), does not change the patience. */
struct stopping_record early_stopping_judge(struct early_stopping *stopping, int64_t step, double value,
                                            bool extra);

#endif
