/* Private to runs/: a row of the table `runs` as a struct run_info. */
#ifndef ANNEAL_RUNS_RUN_ROW_H
#define ANNEAL_RUNS_RUN_ROW_H

#include "runs/database.h"
#include "runs/run.h"

/* A segment whose trainer ended without a word lasted until the run's heartbeat when it is the newest, else
 * until its last recorded step. */
#define RUN_ROW_SELECT                                                                                       \
    "select id, name, status, created_at, ended_at, device, precision, parameters, steps, tokens, "          \
    "coalesce(final_loss, case when nan & 1 then 'nan' end),"                                                \
    " best_val_loss, best_step, tokens_per_sec, total_steps, segment, pid, heartbeat, message,"              \
    " (select sum(max(0.0, coalesce(s.ended_at,"                                                             \
    "   case when s.segment = runs.segment then runs.heartbeat else"                                         \
    "    (select t.wall_time from steps t where t.run_id = s.run_id and t.segment = s.segment"               \
    "     order by t.step desc limit 1) end, s.started_at) - s.started_at))"                                 \
    "  from segments s where s.run_id = runs.id), parent_id, parent_step from runs"

/* final_loss is NULL where none was recorded, and the text "nan" where NaN was. The current row of a
 * RUN_ROW_SELECT, with liveness folded into the status. */
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
