/* Private to runs/: an import under way. Readers put rows into temporary tables, which lie outside the
 * database and lock nobody; when all files are read, import_store makes the run of them in one transaction.
 */
#ifndef ANNEAL_RUNS_EXCHANGE_IMPORT_STAGE_H
#define ANNEAL_RUNS_EXCHANGE_IMPORT_STAGE_H

#include <stdbool.h>
#include <stdio.h>

#include "runs/database.h"
#include "runs/exchange/import.h"

/* Larger numbers are no counts of steps, but damage; they also keep arithmetic on steps from overflowing. */
#define IMPORT_STEP_MAX    INT64_C(1000000000000000)
#define IMPORT_SEGMENT_MAX INT64_C(1000000)

enum import_kind { IMPORT_NOTHING, IMPORT_CSV, IMPORT_TENSORBOARD, IMPORT_LLMC };

struct import {
    struct store *store;
    enum import_kind kind;
    const char *path;         /* of the file being read */
    int64_t line;             /* of the record being read, from 1 */
    bool staged[TABLE_COUNT]; /* the temporary table of it exists */
    char run[RUN_ID_MAX];     /* the id that an own CSV gives; "": none yet */
    char run_path[128];       /* which file gave it, for messages */
    /* of an own CSV's table `runs` */
    char name[RUN_NAME_MAX], device[RUN_DEVICE_MAX], precision[16];
    int64_t parameters;                  /* -1: absent */
    sqlite3_stmt *upserts[COLUMN_COUNT]; /* of import_value, where they have been prepared; owned */
    struct err *err;
};

/* STATUS_CORRUPT: "path:line: …". */
enum status import_bad(struct import *import, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The temporary table of `which`, made when it is not there: its columns but `run`, and `nan`; for events see
 * import_event. */
enum status import_stage(struct import *import, enum store_table which);

/* Stores a metric of a step; what is there already of this (segment, step) stays but for this value and the
 * wall time, when it is a number. Stages the table. */
enum status import_value(struct import *import, enum store_table which, int64_t segment, int64_t step,
                         double wall_time, const struct column_info *column, double value);

/* An event of level info. */
enum status import_event(struct import *import, int64_t segment, int64_t step, const char *text);

/* The readers. The stream is at the file's beginning, or after its byte order mark. */
enum status import_read_csv(struct import *import, FILE *file);
enum status import_read_llmc(struct import *import, FILE *file);

/* The run of what is staged; `name` as in import_files, `fallback` when nothing else names it. */
enum status import_store(struct import *import, const char *name, const char *fallback, const char *message,
                         struct import_outcome *out);

#endif
