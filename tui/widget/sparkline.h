/* A series in one row: one cell a column, eight heights (four in ASCII). A column shows the mean of what
 * falls into it, on a scale from the lowest to the highest mean, so a noisy curve reads as its trend. A cross
 * stands for a column that holds only NaN or infinity, and for the newest one as soon as it holds any. */
#ifndef ANNEAL_TUI_SPARKLINE_H
#define ANNEAL_TUI_SPARKLINE_H

#include "runs/series.h"
#include "tui/widget/grid.h"

void sparkline_draw(struct grid *grid, int x, int y, int width, enum style style,
                    const struct series_point *points, size_t count);

#endif
