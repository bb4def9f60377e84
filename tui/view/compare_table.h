/* The table of a comparison: a row for each curve with its digit and colour, the value at the cursor, then
 * the keys that differ and what came of the runs, in columns that can be scrolled. */
#ifndef ANNEAL_TUI_COMPARE_TABLE_H
#define ANNEAL_TUI_COMPARE_TABLE_H

#include "tui/view/compare_model.h"

#define COMPARE_DIGITS "1234567890" /* of the curves */

struct compare_table {
    const struct compare_model *model;
    const struct compare_request *request;
    struct compare_value values[COMPARE_CURVES_MAX]; /* of each curve, at the cursor or the newest */
    size_t selected, first_column;                   /* row; column, of those that can be scrolled */
    size_t scroll, page;                             /* the first row shown; how many there are room for */
};

/* Draws titles and as many rows as fit; keeps first_column and scroll within what there is. */
void compare_table_draw(struct compare_table *table, struct grid *grid, struct rect area);

#endif
