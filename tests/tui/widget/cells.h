/* Grids for the tests of drawing. */
#ifndef ANNEAL_TESTS_TUI_WIDGET_CELLS_H
#define ANNEAL_TESTS_TUI_WIDGET_CELLS_H

#include "tui/widget/grid.h"

/* An empty grid; grid_release it. */
struct grid make_grid(int w, int h, enum glyph_level level);
/* Row y without its trailing blanks is `expected`, or the test fails. */
void assert_row(const struct grid *grid, int y, const char *expected);

#endif
