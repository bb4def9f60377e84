/* Private to runs/: an import under way. Readers put rows into temporary tables, which lie outside the
 * database and lock nobody; when all files are read, import.c makes the run of them in one transaction. */
#ifndef ANNEAL_RUNS_EXCHANGE_IMPORT_STAGE_H
#define ANNEAL_RUNS_EXCHANGE_IMPORT_STAGE_H

#include <stdbool.h>
#include <stdio.h>

#include "runs/database.h"
#include "runs/exchange/import.h"

enum import_kind { IMPORT_NOTHING, IMPORT_CSV, IMPORT_TENSORBOARD, IMPORT_LLMC };

struct import {
    struct store *store;
    enum import_kind kind;
    const char *path;         /* of the file being read */
    int64_t line;             /* of the record being read, from 1 */
    bool staged[TABLE_COUNT]; /* the temporary table temp.stage_NAME exists */
    char run[RUN_ID_MAX];     /* the id that an own CSV gives; "": none yet */
    char run_path[128];       /* which file gave it, for messages */
    struct err *err;
};

/* STATUS_CORRUPT: "path:line: …". */
enum status import_bad(struct import *import, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* STATUS_USAGE when a file before was of another kind. */
enum status import_set_kind(struct import *import, enum import_kind kind);

/* Makes temp.stage_NAME, where it is not there yet: the columns of the table, run_id without a value. Rows of
 * a table that has a key are told apart by it. */
enum status import_stage(struct import *import, enum store_table which);

/* The rows of one file for one table. */
struct import_rows {
    struct import *import;
    enum store_table table;
    const struct column_info *columns[COLUMNS_MAX]; /* in the order of the fields */
    int count;
    const struct column_info *value; /* NULL: a second row of a place is refused; else it replaces this value,
                                        and the wall time when it has one */
    sqlite3_stmt *insert;
    int nan; /* of the row being read */
};

/* Makes ready for rows; all members but the last two are set. */
enum status import_rows_begin(struct import_rows *rows);
/* Field `i` of a row, checked; `text` NULL: absent. */
enum status import_rows_field(struct import_rows *rows, int i, const char *text);
/* Ends a row. */
enum status import_rows_store(struct import_rows *rows);

/* The readers. The stream is at the file's beginning, or after its byte order mark. */
enum status import_read_csv(struct import *import, FILE *file);
enum status import_read_llmc(struct import *import, FILE *file);

#endif
