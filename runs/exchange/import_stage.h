/* Private to runs/: an import in progress. Readers put rows into temporary tables, which are outside the
 * database and block no other process; when all files are read, import.c makes the run from them in short
 * transactions. The tables stay for the next import with the same handle. */
#ifndef ANNEAL_RUNS_EXCHANGE_IMPORT_STAGE_H
#define ANNEAL_RUNS_EXCHANGE_IMPORT_STAGE_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

#include "runs/database.h"
#include "runs/exchange/import.h"
#include "runs/exchange/import_metrics.h"
#include "runs/exchange/import_turns.h"

enum import_kind { IMPORT_NOTHING, IMPORT_CSV, IMPORT_TENSORBOARD, IMPORT_LLMC, IMPORT_WANDB, IMPORT_NAMED };

/* The last second of the year 9999: a larger number is not a time. */
#define IMPORT_TIME_MAX 253402300799.0

/* A larger number is a damaged value, not a step. The limit also keeps arithmetic on steps from
 * overflowing. */
#define IMPORT_STEP_MAX INT64_C(1000000000000000)

struct record_file;

struct import {
    struct store *store;
    enum import_kind kind;
    const char *path;          /* the file being read */
    int64_t line;              /* the line, or the number of the record, being read, from 1 */
    bool staged[TABLE_COUNT];  /* the temporary table temp.stage_NAME is of this import */
    char run[RUN_ID_MAX];      /* the run's id in one of our CSV files; "": none yet */
    char run_path[128];        /* the file with that id, for messages */
    char folder[PATH_MAX];     /* that of the logs being read; "": none yet */
    char part[200];            /* its name, which begins those of its metrics; "": they have their own */
    int segment;               /* in which the metrics of this folder are staged */
    bool several, strangers;   /* the files are in several folders; these are not parts of one run */
    int64_t left_out;          /* values of steps that are none */
    double began, ended;       /* the first and the last time of a log's values; 0: they have none */
    char remark[300];          /* about something left out; "": all was read */
    struct import_turns turns; /* the transactions that store the run */
    struct err *err;
    struct import_spelling { /* the word under which a file had the values of a column */
        const struct column_info *column;
        char word[SCALAR_NAME_MAX];
    } spelled[24];
    int spelled_count;
    struct import_metrics metrics; /* as logs name them */
    bool steps_done;               /* the log's steps count those done: the first one is 1 */
    int64_t step, turn;            /* that of the newest value, and how often it has changed */
    int64_t again;                 /* values for a step that had another one already */
};

/* Fills the error "path:line: …" and returns STATUS_CORRUPT. */
enum status import_bad(struct import *import, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Remarks that the line being read was left out, as its writer was killed or still writes. */
void import_half_line(struct import *import);

/* STATUS_USAGE if an earlier file was of another kind. */
enum status import_set_kind(struct import *import, enum import_kind kind);

/* Makes a temporary table, or empties that of an earlier import: a new table would let SQLite parse all
 * statements of the handle again, which takes longer than a small import. */
enum status import_temporary(struct import *import, const char *name, const char *create);

/* Makes temp.stage_NAME unless this import did: it has the columns of the table, with run_id empty. If the
 * table has a key, the key is unique. */
enum status import_stage(struct import *import, enum store_table which);

/* The rows of one file for one table. */
struct import_rows {
    struct import *import;
    enum store_table table;
    const struct column_info *columns[COLUMNS_MAX]; /* in the order of the fields, then NULL */
    const struct column_info *value; /* NULL: a second row with the same key is refused; else it replaces this
                                        value, and the wall time if the row has one */
    int count;                       /* of columns */
    sqlite3_stmt *insert;
    int nan; /* bits of the row being read */
};

/* Prepares the insert; the caller has set all members but the last three. */
enum status import_rows_begin(struct import_rows *rows);
/* Checks and binds field `i` of a row; `text` NULL: absent. */
enum status import_rows_field(struct import_rows *rows, int i, const char *text);
/* Ends a row. */
enum status import_rows_store(struct import_rows *rows);
/* Both for a whole row, `fields` (count). */
enum status import_rows_add(struct import_rows *rows, const char *const *fields);

/* Whether this is YYYYMMDD-HHMMSS-name with a name that run_create would not change. */
bool import_is_id(const char *text);

/* Whether a relative path stays in its folder. */
bool import_stays_inside(const char *path);

/* The readers. The stream is at the start of the file, or after its byte order mark. */
enum status import_read_csv(struct import *import, FILE *file);
enum status import_read_llmc(struct import *import, FILE *file);
enum status import_read_json(struct import *import);
enum status import_read_events(struct import *import, struct record_file *file);
enum status import_read_wandb(struct import *import, struct record_file *file);

#endif
