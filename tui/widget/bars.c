/* See bars.h. */
#include "tui/widget/bars.h"

#include <math.h>

/* --- gauge --- */

void gauge_draw(struct grid *grid, int x, int y, int width, enum style style, double fraction)
{
    static const uint32_t eighths[8] = {' ', 0x258F, 0x258E, 0x258D, 0x258C, 0x258B, 0x258A, 0x2589};
    if (width <= 0) return;
    if (isnan(fraction)) fraction = 0;
    fraction = fmin(fmax(fraction, 0), 1);
    int parts = grid->level == GLYPHS_BRAILLE ? 8 : grid->level == GLYPHS_BLOCK ? 2 : 1;
    int filled = (int)floor(fraction * width * parts);
    if (filled == 0 && fraction > 0) filled = 1;
    if (filled == width * parts && fraction < 1) filled--;
    for (int c = 0; c < width; c++) {
        int part = filled - c * parts;
        if (part >= parts)
            grid_put(grid, x + c, y, 0x2588, style, ATTR_NONE);
        else if (part > 0)
            grid_put(grid, x + c, y, eighths[part * 8 / parts], style, ATTR_NONE);
        else
            grid_put(grid, x + c, y, grid->level == GLYPHS_ASCII ? '.' : 0x2591, STYLE_RULE, ATTR_NONE);
    }
}

/* --- sparkline --- */

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
    enum { WIDTH_MAX = 256 };
    struct {
        double sum;
        int64_t finite, non_finite; /* steps */
    } columns[WIDTH_MAX] = {0};
    double lo = INFINITY, hi = -INFINITY;
    int newest = 0; /* the first column of the last point, which may span several */
    if (width > WIDTH_MAX) width = WIDTH_MAX;
    for (size_t i = 0; i < count && width > 0; i++) {
        const struct series_point *point = &points[i];
        double steps = (double)(points[count - 1].last_step - points[0].first_step + 1);
        int64_t finite = isfinite(point->mean) ? point->count - point->non_finite : 0;
        newest = (int)((double)(point->first_step - points[0].first_step) / steps * width);
        columns[newest].non_finite += point->non_finite;
        if (finite > 0) columns[newest].sum += point->mean * (double)finite;
        if (finite > 0) columns[newest].finite += finite;
    }
    for (int c = 0; c < width; c++) {
        columns[c].sum = columns[c].finite ? columns[c].sum / (double)columns[c].finite : NAN; /* the mean */
        lo = fmin(lo, columns[c].sum); /* fmin returns the number if one is NaN */
        hi = fmax(hi, columns[c].sum);
    }
    for (int c = 0; c < width; c++) {
        double mean = columns[c].sum;
        if (columns[c].non_finite && (isnan(mean) || c == newest))
            grid_put(grid, x + c, y, 0x2717, STYLE_BAD, ATTR_NONE);
        else if (!isnan(mean))
            draw_level(grid, x + c, y, style, hi > lo ? (mean - lo) / (hi - lo) : 0.5);
    }
}

/* --- stacked bar --- */

static uint32_t glyph_of(const struct grid *grid, const struct stack_part *part)
{
    return grid->level == GLYPHS_ASCII ? (unsigned char)part->letter : part->glyph;
}

int stack_draw(struct grid *grid, int x, int y, int width, const struct stack_part *parts, int count,
               double scale)
{
    double sum = 0;
    int at = 0;
    if (width <= 0 || !(scale > 0)) return 0;
    for (int i = 0; i < count; i++) {
        if (!(parts[i].amount > 0)) continue;
        sum += parts[i].amount;
        int end = (int)fmin(round(sum / scale * width), width);
        if (end == 0) end = 1;
        for (int c = at; c < end; c++)
            grid_put(grid, x + c, y, glyph_of(grid, &parts[i]), parts[i].style, ATTR_NONE);
        if (end - at >= 3)
            grid_put(grid, x + at + (end - at) / 2, y, (unsigned char)parts[i].letter, parts[i].style,
                     ATTR_REVERSE | ATTR_BOLD);
        if (end > at) at = end;
    }
    /* an excess under half a cell rounds to the width */
    if (sum > scale * (1 + 0.5 / width)) grid_put(grid, x + width - 1, y, 0x25B6, STYLE_WARN, ATTR_BOLD);
    return at;
}

void stack_key(struct grid *grid, int x, int y, const struct stack_part *part)
{
    grid_put(grid, x, y, glyph_of(grid, part), part->style, ATTR_NONE);
    if (grid->level == GLYPHS_ASCII) return;
    grid_put(grid, x + 1, y, (unsigned char)part->letter, part->style, ATTR_REVERSE | ATTR_BOLD);
}
