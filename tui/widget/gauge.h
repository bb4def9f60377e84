/* A progress bar in one row, exact to an eighth of a cell where the terminal has such blocks. */
#ifndef ANNEAL_TUI_GAUGE_H
#define ANNEAL_TUI_GAUGE_H

#include "tui/widget/grid.h"

/* `fraction` in [0, 1], clamped; NaN: unknown, an empty bar. Full only at 1, empty only at 0. */
void gauge_draw(struct grid *grid, int x, int y, int width, enum style style, double fraction);

#endif
