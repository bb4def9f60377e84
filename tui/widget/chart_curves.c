/* See chart_drawing.h: bands and markers of the curves of several runs in one chart. */
#include <math.h>

#include "tui/widget/chart_drawing.h"

enum { MARKER_GAP = 8 /* columns between two markers of a curve, at least */ };

/* Fills the cells of one column between two values. */
static void fill_column(const struct drawing *d, int x, double low, double high, enum style style)
{
    if (x < d->plot.x || x >= d->plot.x + d->plot.w || !isfinite(low) || !isfinite(high)) return;
    int bottom = chart_cell_y(d, low);
    for (int y = chart_cell_y(d, high); y <= bottom; y++) grid_put(d->grid, x, y, 0x2591, style, ATTR_NONE);
}

/* Between two points the edges are straight lines; a point without a value interrupts the band. */
static void draw_band(const struct drawing *d, const struct chart_trace *trace)
{
    size_t i, end = chart_visible(d->chart, trace, &i);
    bool begun = false;
    int last_x = 0;
    double last_low = 0, last_high = 0;
    for (; i < end; i++) {
        const struct series_point *p = &trace->points[i];
        int x = chart_cell_x(d, chart_middle(p));
        double low = chart_shown(d->chart, p->min), high = chart_shown(d->chart, p->max);
        bool known = isfinite(low) && isfinite(high);
        for (int c = known && begun ? last_x + 1 : x; known && c <= x; c++) {
            double t = begun ? (double)(c - last_x) / (x - last_x) : 1;
            fill_column(d, c, last_low + t * (low - last_low), last_high + t * (high - last_high),
                        trace->style);
        }
        begun = known;
        last_x = x;
        last_low = low;
        last_high = high;
    }
}

void chart_draw_bands(const struct drawing *d)
{
    for (int t = d->chart->trace_count - 1; t >= 0; t--)
        if (d->chart->trace[t].band) draw_band(d, &d->chart->trace[t]);
}

/* Whether a cell of the plot is free of markers. */
static bool is_free(const struct drawing *d, int x, int y)
{
    uint32_t glyph = d->grid->cells[(size_t)y * (size_t)d->grid->w + (size_t)x].glyph;
    return glyph < '0' || glyph > '9';
}

void chart_draw_markers(const struct drawing *d)
{
    int count = d->chart->trace_count, gap = d->plot.w / 4 > MARKER_GAP ? d->plot.w / 4 : MARKER_GAP;
    for (int t = 0; t < count; t++) {
        const struct chart_trace *trace = &d->chart->trace[t];
        /* the curves have theirs at different places */
        int next = d->plot.x + (2 * t + 1) * gap / (2 * count), free_x = -1, free_y = 0;
        bool any = false;
        size_t i, end = chart_visible(d->chart, trace, &i);
        for (; i < end && trace->marker; i++) {
            const struct series_point *p = &trace->points[i];
            double value = chart_shown(d->chart, p->mean);
            int x = chart_cell_x(d, chart_middle(p)), y = isfinite(value) ? chart_cell_y(d, value) : -1;
            if (y < 0 || x < d->plot.x || x >= d->plot.x + d->plot.w || !is_free(d, x, y)) continue;
            free_x = x;
            free_y = y;
            if (x < next) continue;
            grid_put(d->grid, x, y, trace->marker, trace->style, ATTR_BOLD);
            any = true;
            next = x + gap;
        }
        if (!any && free_x >= 0) grid_put(d->grid, free_x, free_y, trace->marker, trace->style, ATTR_BOLD);
    }
}
