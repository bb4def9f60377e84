/* Private to runs/: a row of the table `runs` as a struct run_info. */
#ifndef ANNEAL_RUNS_RUN_ROW_H
#define ANNEAL_RUNS_RUN_ROW_H

#include "runs/database.h"
#include "runs/run.h"

#define RUN_ROW_SELECT                                                                                       \
    "select id, name, status, created_at, ended_at, device, precision, parameters, steps, tokens, "          \
    "final_loss,"                                                                                            \
    " best_val_loss, best_step, tokens_per_sec, total_steps, segment, pid, heartbeat, message from runs"

/* The current row of a RUN_ROW_SELECT, with liveness folded into the status. */
void run_row_read(struct store *store, sqlite3_stmt *row, struct run_info *out);

/* The run with exactly this id; STATUS_NOT_FOUND. */
enum status run_row_find(struct store *store, const char *id, struct run_info *out, struct err *err);

#endif
