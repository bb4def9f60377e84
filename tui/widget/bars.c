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

struct column {
    double sum;
    int64_t finite, non_finite; /* steps */
};

/* The points that begin before `end`, from *next on: they are in order, so each column takes the next few. */
static struct column gather(const struct series_point *points, size_t count, size_t *next, int64_t end)
{
    struct column column = {0};
    for (; *next < count && points[*next].first_step < end; ++*next) {
        const struct series_point *point = &points[*next];
        int64_t finite = point->count - point->non_finite;
        column.non_finite += point->non_finite;
        if (finite <= 0 || !isfinite(point->mean)) continue;
        column.sum += point->mean * (double)finite;
        column.finite += finite;
    }
    return column;
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
    int newest = 0;                        /* a wide last point lies where it begins, not in the last cell */
    for (int pass = 0; pass < 2; pass++) { /* first the scale, then the cells */
        size_t next = 0;
        for (int c = 0; c < width; c++) {
            int64_t end = c == width - 1 ? INT64_MAX : first + (int64_t)((double)steps * (c + 1) / width);
            struct column column = gather(points, count, &next, end);
            double mean = column.finite ? column.sum / (double)column.finite : NAN;
            if (pass == 0) {
                lo = fmin(lo, mean); /* the number where the other is NaN */
                hi = fmax(hi, mean);
                if (column.finite || column.non_finite) newest = c;
            } else if (column.non_finite && (!column.finite || c == newest)) {
                grid_put(grid, x + c, y, 0x2717, STYLE_BAD, ATTR_NONE);
            } else if (column.finite) {
                draw_level(grid, x + c, y, style, hi > lo ? (mean - lo) / (hi - lo) : 0.5);
            }
        }
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
    /* half a cell more than the width would round to it */
    if (sum > scale * (1 + 0.5 / width)) grid_put(grid, x + width - 1, y, 0x25B6, STYLE_WARN, ATTR_BOLD);
    return at;
}

void stack_key(struct grid *grid, int x, int y, const struct stack_part *part)
{
    grid_put(grid, x, y, glyph_of(grid, part), part->style, ATTR_NONE);
    if (grid->level == GLYPHS_ASCII) return;
    grid_put(grid, x + 1, y, (unsigned char)part->letter, part->style, ATTR_REVERSE | ATTR_BOLD);
}
