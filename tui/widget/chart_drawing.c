/* See chart_drawing.h. */
#include "tui/widget/chart_drawing.h"

#include <math.h>

size_t chart_lower_bound(const struct series_point *points, size_t count, int64_t step)
{
    size_t lo = 0, hi = count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (points[mid].last_step < step)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

size_t chart_visible(const struct chart *chart, const struct chart_trace *trace, size_t *begin)
{
    *begin = chart_lower_bound(trace->points, trace->count, chart->first_step);
    size_t end = chart_lower_bound(trace->points, trace->count, chart->last_step);
    return end < trace->count && trace->points[end].first_step <= chart->last_step ? end + 1 : end;
}

double chart_middle(const struct series_point *point)
{
    return ((double)point->first_step + (double)point->last_step) / 2;
}

double chart_shown(const struct chart *chart, double value)
{
    return chart->exponential ? exp(value) : chart->scale > 0 ? value * chart->scale : value;
}

int chart_dot_of(const struct drawing *d, double x)
{
    double least = d->x.log ? 0 : -1; /* logarithms leave no room before the first step */
    double at = axis_position(&d->x, x) * (d->raster.columns - 1); /* NaN: before it */
    return (int)lround(fmin(fmax(at, least), (double)d->raster.columns));
}

int chart_dot_x(const struct drawing *d, double step)
{
    return chart_dot_of(d, d->chart->x_scale > 0 ? step / d->chart->x_scale : step);
}

int chart_dot_y(const struct drawing *d, double value)
{
    return raster_row(&d->raster, axis_position(&d->y, value)); /* log: zero lies below everything */
}

int chart_cell_x(const struct drawing *d, double step)
{
    return d->plot.x + chart_dot_x(d, step) / d->raster.dot_w;
}

int chart_cell_y(const struct drawing *d, double value)
{
    return d->plot.y + chart_dot_y(d, value) / d->raster.dot_h;
}
