/* See early_stopping.h. */
#include "core/train/early_stopping.h"

#include <math.h>

void early_stopping_init(struct early_stopping *stopping, int64_t patience, double min_delta)
{
    *stopping = (struct early_stopping){.min_delta = min_delta,
                                        .patience = patience,
                                        .best = INFINITY,
                                        .best_step = -1,
                                        .reference = INFINITY};
}

struct stopping_record early_stopping_judge(struct early_stopping *stopping, int64_t step, double val_loss,
                                            bool extra)
{
    enum stopping_verdict verdict = VERDICT_ORDERED;
    bool improved = val_loss < stopping->best;
    if (improved) {
        stopping->best = val_loss;
        stopping->best_step = step;
    }
    if (!extra && val_loss < stopping->reference - stopping->min_delta) {
        stopping->reference = val_loss;
        stopping->used = 0;
        verdict = VERDICT_IMPROVED;
    } else if (!extra) {
        stopping->used++;
        bool stop = stopping->patience > 0 && stopping->used >= stopping->patience;
        verdict = stop ? VERDICT_STOP : VERDICT_WAITING;
    }
    return (struct stopping_record){.step = step,
                                    .val_loss = val_loss,
                                    .best_val_loss = stopping->best,
                                    .best_step = stopping->best_step,
                                    .min_delta = stopping->min_delta,
                                    .improved = improved,
                                    .patience_used = stopping->used,
                                    .patience = stopping->patience,
                                    .verdict = verdict};
}
