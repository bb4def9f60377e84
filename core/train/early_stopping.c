/* See early_stopping.h. */
#include "core/train/early_stopping.h"

#include <math.h>

void early_stopping_init(struct early_stopping *stopping, int64_t patience, double min_delta, bool highest)
{
    *stopping = (struct early_stopping){.min_delta = min_delta,
                                        .patience = patience,
                                        .highest = highest,
                                        .best = highest ? -INFINITY : INFINITY,
                                        .best_step = -1,
                                        .reference = highest ? -INFINITY : INFINITY};
}

void early_stopping_adopt(struct early_stopping *loaded, const struct early_stopping *wanted)
{
    loaded->patience = wanted->patience;
    loaded->min_delta = wanted->min_delta;
    loaded->highest = wanted->highest;
    if (!isfinite(loaded->best)) loaded->best = wanted->best;
    if (!isfinite(loaded->reference)) loaded->reference = wanted->reference;
}

/* Whether the value is better than `than` by more than `by`; NaN never is. */
static bool is_better(const struct early_stopping *stopping, double value, double than, double by)
{
    return stopping->highest ? value > than + by : value < than - by;
}

struct stopping_record early_stopping_judge(struct early_stopping *stopping, int64_t step, double value,
                                            bool extra)
{
    enum stopping_verdict verdict = VERDICT_ORDERED;
    bool improved = is_better(stopping, value, stopping->best, 0);
    if (improved) {
        stopping->best = value;
        stopping->best_step = step;
    }
    if (!extra && is_better(stopping, value, stopping->reference, stopping->min_delta)) {
        stopping->reference = value;
        stopping->used = 0;
        verdict = VERDICT_IMPROVED;
    } else if (!extra) {
        stopping->used++;
        bool stop = stopping->patience > 0 && stopping->used >= stopping->patience;
        verdict = stop ? VERDICT_STOP : VERDICT_WAITING;
    }
    return (struct stopping_record){.step = step,
                                    .val_loss = value,
                                    .best_val_loss = stopping->best,
                                    .best_step = stopping->best_step,
                                    .min_delta = stopping->min_delta,
                                    .improved = improved,
                                    .patience_used = stopping->used,
                                    .patience = stopping->patience,
                                    .verdict = verdict};
}
