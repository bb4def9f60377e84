/* Smoothing for charts: an exponential moving average, corrected for its start (as Adam corrects its
 * moments), so that the first value is the first value. It runs on the points as read, before any reduction
 * to columns; a bucket of n steps counts as n equal steps. Values that are not finite are skipped and do not
 * poison the rest. */
#ifndef ANNEAL_TUI_SMOOTH_H
#define ANNEAL_TUI_SMOOTH_H

#include <stddef.h>

#include "runs/series.h"

/* out (count): acc_t = decay·acc + (1 − decay)·x_t, out_t = acc_t / (1 − decay^t). decay in [0, 1), per step.
 * Before the first finite value out is NaN. */
void smooth_points(const struct series_point *points, size_t count, double decay, double *out);

#endif
