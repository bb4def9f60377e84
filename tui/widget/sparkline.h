/* A series in one row: one cell a column, eight heights (three in ASCII). A column shows the value in it that
 * lies farthest from its mean, so a spike of one step shows; columns with only NaN or infinity show a cross.
 */
#ifndef ANNEAL_TUI_SPARKLINE_H
#define ANNEAL_TUI_SPARKLINE_H

#include "runs/series.h"
#include "tui/widget/grid.h"

void sparkline_draw(struct grid *grid, int x, int y, int width, enum style style,
                    const struct series_point *points, size_t count);

#endif
