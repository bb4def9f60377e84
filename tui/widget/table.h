/* Columns of a table: which of them fit into a width, and how wide each becomes. The least important go
 * first. */
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

#endif
