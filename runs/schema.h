/* The tables of the run store and how a database of an earlier version becomes one of today.
 *
 * Always: PRAGMA user_version is the number of migrations applied; a migration is one transaction; a
 * published migration never changes, a new one is appended. Columns and their names are those of the CSV
 * files, with run_id for `run`; columns that only the store needs come after them. */
#ifndef ANNEAL_RUNS_SCHEMA_H
#define ANNEAL_RUNS_SCHEMA_H

#include <stddef.h>

#include "runs/database.h"

enum { SCHEMA_APPLICATION_ID = 0x414e4e4c }; /* "ANNL", in PRAGMA application_id */

/* Which REAL columns of a row are NaN, as bits of its column `nan`: SQLite stores NaN as NULL, so a NULL
 * whose bit is set is NaN, one whose bit is not set is absent. Infinities are stored as they are. */
enum {
    NAN_STEP_EPOCH = 1 << 0,
    NAN_STEP_WALL_TIME = 1 << 1,
    NAN_STEP_STEP_MS = 1 << 2,
    NAN_STEP_LOSS = 1 << 3,
    NAN_STEP_LR = 1 << 4,
    NAN_STEP_GRAD_NORM = 1 << 5,
    NAN_STEP_CLIP_SCALE = 1 << 6,
    NAN_STEP_TOKENS_PER_SEC = 1 << 7,

    NAN_EVAL_WALL_TIME = 1 << 0,
    NAN_EVAL_VAL_LOSS = 1 << 1,
    NAN_EVAL_VAL_PERPLEXITY = 1 << 2,
    NAN_EVAL_EVAL_MS = 1 << 3,

    NAN_STOPPING_VAL_LOSS = 1 << 0,
    NAN_STOPPING_BEST_VAL_LOSS = 1 << 1,
    NAN_STOPPING_MIN_DELTA = 1 << 2,

    NAN_RUN_FINAL_LOSS = 1 << 0,
    NAN_RUN_BEST_VAL_LOSS = 1 << 1,
    NAN_RUN_TOKENS_PER_SEC = 1 << 2,
};

/* The migrations of this version of anneal, SQL scripts; script i leads from version i to i + 1. */
extern const char *const schema_migrations[];
extern const int schema_version; /* how many there are */

/* STATUS_CORRUPT for a database that is not a run store, STATUS_FAILED for one with more than `count`
 * migrations, that is, from a newer anneal. Only reads. *version (may be NULL) is how many it has. */
enum status schema_check(struct store *store, int count, int64_t *version, struct err *err);

/* Applies what is missing of `count` migrations. What schema_check refuses is not touched. Several processes
 * may call it at once. */
enum status schema_migrate(struct store *store, const char *const *migrations, int count, struct err *err);

#endif
