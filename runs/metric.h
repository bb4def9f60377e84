/* The metrics that charts show: columns of `steps`, and val_loss of `evals`. */
#ifndef ANNEAL_RUNS_METRIC_H
#define ANNEAL_RUNS_METRIC_H

#include "runs/columns.h"

enum metric {
    METRIC_LOSS,
    METRIC_LR,
    METRIC_GRAD_NORM,
    METRIC_CLIP_SCALE,
    METRIC_TOKENS_PER_SEC,
    METRIC_STEP_MS,
    METRIC_MFU,
    METRIC_VAL_LOSS, /* from evals */
    METRIC_COUNT
};

const struct column_info *metric_column(enum metric metric);
const char *metric_name(enum metric metric); /* the column: "loss", … "val_loss" */

#endif
