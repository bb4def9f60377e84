/* Bars and curves in one row: a gauge, a stacked bar, a sparkline. */
#ifndef ANNEAL_TUI_WIDGET_BARS_H
#define ANNEAL_TUI_WIDGET_BARS_H

#include "runs/series.h"
#include "tui/widget/grid.h"

/* A progress bar, exact to an eighth of a cell where the terminal has such blocks. `fraction` in [0, 1],
 * clamped; NaN: unknown, an empty bar. Full only at 1, empty only at 0. */
void gauge_draw(struct grid *grid, int x, int y, int width, enum style style, double fraction);

/* A series: one cell a column, eight heights (four in ASCII). A column shows the mean of the values in it, on
 * a scale from the lowest to the highest mean, so a noisy curve reads as its trend. A cross stands for a
 * column that holds only NaN or infinity, and for the newest one as soon as it holds any. */
void sparkline_draw(struct grid *grid, int x, int y, int width, enum style style,
                    const struct series_point *points, size_t count);

/* A part of a stacked bar. Its glyph identifies it and, where it is three cells wide, the letter in it, so
 * that colour is not needed; where the terminal has only ASCII the letter is the glyph. */
struct stack_part {
    double amount;  /* what is not positive has no cells */
    uint32_t glyph; /* fills its cells */
    char letter;
    enum style style;
};

/* Parts of a whole one after another; `scale` is the amount that the whole width stands for. Each part ends
 * where the sum so far lies, to the nearest cell; a bar of any amount has a cell. Amounts beyond the scale
 * are cut, marked by an arrow; the rest of the width is left as it is. Returns the columns used. */
int stack_draw(struct grid *grid, int x, int y, int width, const struct stack_part *parts, int count,
               double scale);

/* The legend of a part, two cells: its glyph, and its letter where that is another. */
void stack_key(struct grid *grid, int x, int y, const struct stack_part *part);

#endif
