/* See chart_drawing.h. */
#include "tui/widget/chart_drawing.h"

#include <math.h>

/* Index of the first point that ends at or after `step`. */
static size_t lower_bound(const struct chart_trace *trace, int64_t step)
{
    size_t lo = 0, hi = trace->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (trace->points[mid].last_step < step)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

size_t chart_points_until(const struct chart_trace *trace, int64_t step)
{
    size_t end = lower_bound(trace, step);
    return end < trace->count && trace->points[end].first_step <= step ? end + 1 : end;
}

size_t chart_visible(const struct chart *chart, const struct chart_trace *trace, size_t *begin)
{
    *begin = lower_bound(trace, chart->first_step);
    return chart_points_until(trace, chart->last_step);
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
