/* Private to runs/: rows of the table `runs` as struct run_info. */
#ifndef ANNEAL_RUNS_RUN_ROW_H
#define ANNEAL_RUNS_RUN_ROW_H

#include "runs/database.h"
#include "runs/run.h"

/* The statement "select … from runs t TAIL", whose rows run_row_read takes. */
enum status run_row_select(struct store *store, const char *tail, sqlite3_stmt **out, struct err *err);

/* Its current row, with liveness folded into the status. */
void run_row_read(struct store *store, sqlite3_stmt *row, struct run_info *out);

/* The run with exactly this id; STATUS_NOT_FOUND. */
enum status run_row_find(struct store *store, const char *id, struct run_info *out, struct err *err);

/* Begins a write transaction and, in it, makes the row and the folder of a new run; the caller commits, or
 * gives up with run_row_abandon. The id is `stem` (NULL: made from the time and the name), with -2, -3, …
 * where that is taken. When it fails nothing is left. Parameters below 0 are absent. */
enum status run_row_create(struct store *store, const struct run_new *run, double created_at,
                           const char *stem, char id[RUN_ID_MAX], struct err *err);

/* Rolls back and removes the folder; `id` "": there is none. */
void run_row_abandon(struct store *store, const char *id);

#endif
