/* See metric.h. */
#include "runs/metric.h"

static const enum column_id columns[METRIC_COUNT] = {
    [METRIC_LOSS] = COLUMN_STEPS_loss,
    [METRIC_LR] = COLUMN_STEPS_lr,
    [METRIC_GRAD_NORM] = COLUMN_STEPS_grad_norm,
    [METRIC_CLIP_SCALE] = COLUMN_STEPS_clip_scale,
    [METRIC_TOKENS_PER_SEC] = COLUMN_STEPS_tokens_per_sec,
    [METRIC_STEP_MS] = COLUMN_STEPS_step_ms,
    [METRIC_MFU] = COLUMN_STEPS_mfu,
    [METRIC_VAL_LOSS] = COLUMN_EVALS_val_loss,
};

const struct column_info *metric_column(enum metric metric)
{
    return &store_columns[columns[metric]];
}

const char *metric_name(enum metric metric)
{
    return metric_column(metric)->name;
}
