/* See robust.h. */
#include "tui/widget/robust.h"

#include <math.h>

/* Returns the value at index k of the sorted values; reorders them. Hoare's quickselect, as sorting thousands
 * of values in each frame is too slow. */
static double select_value(double *values, size_t count, size_t k)
{
    size_t left = 0, right = count - 1;
    while (left < right) {
        double pivot = values[left + (right - left) / 2];
        size_t i = left, j = right;
        for (;;) {
            while (values[i] < pivot) i++;
            while (pivot < values[j]) j--;
            if (i >= j) break;
            double swapped = values[i];
            values[i++] = values[j];
            values[j--] = swapped;
        }
        /* values[left..j] <= pivot <= values[j + 1..right] */
        if (k <= j)
            right = j;
        else
            left = j + 1;
    }
    return values[k];
}

void robust_range(double *lows, double *highs, size_t count, double *lo, double *hi)
{
    size_t rare = count / ROBUST_RARE;
    if (rare == 0) return;
    double low = select_value(lows, count, rare), high = select_value(highs, count, count - 1 - rare);
    double span = high - low; /* infinite values cut nothing off */
    if (!(span > 0)) return;
    if (low - *lo > ROBUST_WASTE * span) *lo = low - span / 4;
    if (*hi - high > ROBUST_WASTE * span) *hi = high + span / 4;
}

double robust_ceiling(const struct reach *curves, int count)
{
    double ceiling = INFINITY;
    int shown = 0;
    for (int i = 0; i < count; i++) shown += curves[i].lo <= curves[i].hi;
    for (int c = 0; c < count; c++) { /* the lowest of the curves that are left out */
        int above = 0;
        double lo = INFINITY, hi = -INFINITY;
        for (int i = 0; i < count; i++) {
            if (!(curves[i].lo <= curves[i].hi)) continue;
            above += curves[i].hi >= curves[c].hi;
            if (curves[i].hi >= curves[c].hi) continue;
            lo = fmin(lo, curves[i].lo);
            hi = fmax(hi, curves[i].hi);
        }
        double size = fmax(fabs(lo), fabs(hi));
        if (2 * above <= shown && size > 0 && curves[c].hi - hi > ROBUST_FAR * size)
            ceiling = fmin(ceiling, hi);
    }
    return ceiling;
}
