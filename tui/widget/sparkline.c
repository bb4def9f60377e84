/* See sparkline.h. */
#include "tui/widget/sparkline.h"

#include <math.h>

struct column {
    double min, max, sum;
    int64_t count, non_finite;
};

static double shown_value(const struct column *column)
{
    double mean = column->sum / (double)column->count;
    return column->max - mean > mean - column->min ? column->max : column->min;
}

static void draw_level(struct grid *grid, int x, int y, enum style style, double position)
{
    static const uint32_t eighths[8] = {0x2581, 0x2582, 0x2583, 0x2584, 0x2585, 0x2586, 0x2587, 0x2588};
    static const char heights[4] = {'_', '.', '-', '\''};
    position = fmin(fmax(position, 0), 1);
    if (grid->level == GLYPHS_BRAILLE)
        grid_put(grid, x, y, eighths[(int)lround(position * 7)], style, ATTR_NONE);
    else
        grid_put(grid, x, y, (unsigned char)heights[(int)lround(position * 3)], style, ATTR_NONE);
}

void sparkline_draw(struct grid *grid, int x, int y, int width, enum style style,
                    const struct series_point *points, size_t count)
{
    if (count == 0 || width <= 0) return;
    int64_t first = points[0].first_step, steps = points[count - 1].last_step - first + 1;
    double lo = INFINITY, hi = -INFINITY;
    for (size_t i = 0; i < count; i++) {
        if (points[i].min < lo) lo = points[i].min;
        if (points[i].max > hi) hi = points[i].max;
    }
    size_t i = 0;
    for (int c = 0; c < width; c++) { /* the points are in order, so each column takes the next few */
        struct column column = {INFINITY, -INFINITY, 0, 0, 0};
        int64_t end = first + (int64_t)((double)steps * (c + 1) / width);
        for (; i < count && (points[i].first_step < end || c == width - 1); i++) {
            column.non_finite += points[i].non_finite;
            if (!isfinite(points[i].min) || !isfinite(points[i].max)) continue;
            column.min = fmin(column.min, points[i].min);
            column.max = fmax(column.max, points[i].max);
            column.sum += isfinite(points[i].mean) ? points[i].mean : points[i].max;
            column.count++;
        }
        if (column.count)
            draw_level(grid, x + c, y, style, hi > lo ? (shown_value(&column) - lo) / (hi - lo) : 0.5);
        else if (column.non_finite)
            grid_put(grid, x + c, y, 0x2717, STYLE_BAD, ATTR_NONE);
    }
}
