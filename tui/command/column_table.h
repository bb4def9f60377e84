/* A table whose columns may be many: on lines of a given width it is printed in blocks, each with as many
 * columns as fit and the labels again. A cell that is wider than its column goes on below.
 *
 * Always: no line is longer than the width, from 24 on; texts are UTF-8 without control characters. */
#ifndef ANNEAL_TUI_COMMAND_COLUMN_TABLE_H
#define ANNEAL_TUI_COMMAND_COLUMN_TABLE_H

#include <stddef.h>
#include <stdio.h>

struct column_row {
    const char *label; /* at the left */
    const char *const
        *cells; /* one a column; NULL or "": empty. NULL instead of the cells: a line with a title */
};

struct column_table {
    const char *const *headings; /* one a column */
    size_t columns;
    const struct column_row *rows;
    size_t row_count;
};

/* Columns have one width, that of the widest text, at most 28. What fits stands at the right of its column,
 * what goes on below at the left; a cell that would take more than 12 lines ends with "...". */
void column_table_print(FILE *out, const struct column_table *table, int width);

#endif
