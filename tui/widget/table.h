/* A table: which columns fit into a width, and how wide each becomes; which of its rows are shown. */
#ifndef ANNEAL_TUI_TABLE_H
#define ANNEAL_TUI_TABLE_H

#include <stdbool.h>

#include "tui/widget/grid.h"

struct table_column {
    const char *title;
    int min, max; /* columns of text; what is left over is shared up to max */
    int rank;     /* 0 is never dropped; the highest goes first */
    bool right;   /* numbers: aligned to the right */
};

/* Sets widths[count] for a total of `width` with `gap` columns between; 0: dropped. */
void table_fit(const struct table_column *columns, int count, int width, int gap, int *widths);

/* The titles of the columns in row y from column x on. */
void table_draw_titles(struct grid *grid, int x, int y, const struct table_column *columns, int count,
                       int gap, const int *widths, int attr);

/* Moves the first row that is shown so that row `at` of `count` is on a page of `page` rows and no page ends
 * in blank rows for want of scrolling. */
void table_scroll(size_t *first, size_t at, size_t count, size_t page);

#endif
