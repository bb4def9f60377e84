/* Bars and curves of one row: a gauge, a stacked bar, a sparkline. */
#ifndef ANNEAL_TUI_WIDGET_BARS_H
#define ANNEAL_TUI_WIDGET_BARS_H

#include "runs/series.h"
#include "tui/widget/grid.h"

/* A progress bar, exact to an eighth of a cell if the terminal has such blocks. Clamps `fraction` to [0, 1];
 * NaN draws an empty bar. Full only at 1, empty only at 0. */
void gauge_draw(struct grid *grid, int x, int y, int width, enum style style, double fraction);

/* Draws a series: one cell per column, eight heights (four in ASCII). A column shows the mean of its values,
 * on a scale from the lowest to the highest mean, so a noisy curve reads as its trend. A cross marks a column
 * with only NaN or infinity, and the newest column if it has any. */
void sparkline_draw(struct grid *grid, int x, int y, int width, enum style style,
                    const struct series_point *points, size_t count);

/* A part of a stacked bar, identified without colour by its glyph and, if three cells wide, by its letter; on
 * an ASCII terminal the letter is the glyph. */
struct stack_part {
    double amount;  /* no cells unless positive */
    uint32_t glyph; /* fills its cells */
    char letter;
    enum style style;
};

/* Draws parts one after another; `scale` is the amount for the whole width. Each part ends at the nearest
 * cell to the sum so far; a bar of any amount has a cell. An arrow marks amounts cut off beyond the scale;
 * the rest of the width is left as it is. Returns the columns used. */
int stack_draw(struct grid *grid, int x, int y, int width, const struct stack_part *parts, int count,
               double scale);

/* Draws the legend of a part, two cells: its glyph, and its letter if that differs. */
void stack_key(struct grid *grid, int x, int y, const struct stack_part *part);

#endif
