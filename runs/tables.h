/* Private to runs/: the CSV's tables as lists of columns, for what writes them and for what reads them back.
 *
 * Always: columns stand in the order of the CSV, the first one is `run`; a column's name is that of the
 * database, but `run`, which is run_id there, and in `runs` id. */
#ifndef ANNEAL_RUNS_TABLES_H
#define ANNEAL_RUNS_TABLES_H

#include <stdbool.h>

#include "runs/exchange/export.h"

enum column_kind { INTEGER, REAL, TEXT, STATUS };

enum { COLUMNS_MAX = 18 };

struct column {
    const char *name;
    enum column_kind kind;
    int nan_bit; /* of the table's column `nan`; 0: NULL is absent */
};

struct table {
    const char *name, *sql_name, *order;
    int keys; /* this many columns after `run` tell the rows of a run apart; 0: nothing does */
    bool has_nan;
    int first; /* columns of the first release, which its files have; 0: all. Later ones may be absent */
    struct column columns[COLUMNS_MAX]; /* ends with a NULL name */
};

extern const struct table tables[EXPORT_TABLE_COUNT];

#endif
