/* The range of values that a chart shows: rare outliers do not flatten the rest, nor does a diverged run
 * flatten those beside it. */
#ifndef ANNEAL_TUI_ROBUST_H
#define ANNEAL_TUI_ROBUST_H

#include <stddef.h>

/* An end of the range is cut off when at most one value in ROBUST_RARE lies beyond it and takes more than
 * ROBUST_WASTE times the room of the others. */
enum { ROBUST_RARE = 40, ROBUST_WASTE = 2 };

/* Narrows *lo..*hi, the smallest of lows[count] and the largest of highs[count], to the range of the frequent
 * values and a quarter of it beyond each end that is cut off. Changes nothing where the frequent values are
 * all equal, so that nothing is flattened. All numbers are finite; reorders both arrays. */
void robust_range(double *lows, double *highs, size_t count, double *lo, double *hi);

/* How far a curve reaches: its lowest value, and its highest or newest, without rare ones; lo > hi: none. */
struct reach {
    double lo, hi;
};

/* A curve is far above others when it reaches higher than theirs by more than ROBUST_FAR times their largest
 * magnitude. */
enum { ROBUST_FAR = 4 };

/* Returns the height that the other curves reach where some of them, at most half, are far above; INFINITY:
 * none is. */
double robust_ceiling(const struct reach *curves, int count);

#endif
