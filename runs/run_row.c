/* Reading the table `runs`, see run_row.h and run.h. */
#include "runs/run_row.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "runs/table.h"

enum { LOCKED_WITHIN_SECONDS = 10 };

/* How long a run's trainers lived. A segment whose trainer ended without a word lasted until the run's
 * heartbeat when it is the newest, else until its last recorded step. */
#define ELAPSED                                                                                              \
    "(select sum(max(0.0, coalesce(s.ended_at, case when s.segment = t.segment then t.heartbeat else"        \
    "  (select w.wall_time from steps w where w.run_id = s.run_id and w.segment = s.segment"                 \
    "   order by w.step desc limit 1) end, s.started_at) - s.started_at))"                                   \
    " from segments s where s.run_id = t.id)"

enum { ELAPSED_COLUMN, LOSS_RECORDED_COLUMN, FIELDS_COLUMN };

const char *run_status_name(enum run_status status)
{
    return status_words[status];
}

enum status run_row_select(struct store *store, const char *tail, sqlite3_stmt **out, struct err *err)
{
    char fields[600], sql[1500];
    table_fields(TABLE_RUNS, fields, sizeof fields);
    snprintf(sql, sizeof sql, "select " ELAPSED ", t.final_loss is not null or t.nan & %d, %s from runs t %s",
             store_columns[COLUMN_RUNS_final_loss].null, fields, tail);
    return store_prepare(store, sql, out, err);
}

void run_row_read(struct store *store, sqlite3_stmt *row, struct run_info *out)
{
    *out = (struct run_info){.loss_recorded = sqlite3_column_int(row, LOSS_RECORDED_COLUMN) != 0};
    table_read(TABLE_RUNS, row, FIELDS_COLUMN, NULL, out);       /* all its texts lie in the record */
    if (sqlite3_column_type(row, ELAPSED_COLUMN) != SQLITE_NULL) /* else no trainer yet */
        out->elapsed = sqlite3_column_double(row, ELAPSED_COLUMN);
    /* between its row and its lock lie milliseconds: one that has only the row has died there */
    bool began = out->status == RUN_RUNNING || out->status == RUN_PAUSED ||
                 (out->status == RUN_CREATED && clock_wall() - out->created_at > LOCKED_WITHIN_SECONDS);
    if (began && !run_is_alive(store, out->id)) out->status = RUN_CRASHED;
}

enum status run_row_find(struct store *store, const char *id, struct run_info *out, struct err *err)
{
    sqlite3_stmt *select;
    bool found;
    enum status status = run_row_select(store, "where id = ?1", &select, err);
    if (status) return status;
    store_bind_text(select, 1, id);
    status = store_step(store, select, &found, err);
    if (status) return status;
    if (!found) return err_set(err, STATUS_NOT_FOUND, "run %s: there is no such run", id);
    run_row_read(store, select, out);
    sqlite3_reset(select);
    return STATUS_OK;
}

enum status run_list(struct store *store, struct arena *arena, struct run_info **out, size_t *count,
                     struct err *err)
{
    sqlite3_stmt *select;
    void *runs = NULL;
    size_t used = 0;
    bool row;
    enum status status = run_row_select(store, "order by created_at desc, rowid desc", &select, err);
    while (!status && !(status = store_step(store, select, &row, err)) && row) {
        struct run_info *info = array_grow(arena, &runs, used, sizeof *info);
        if (!info) {
            sqlite3_reset(select);
            return err_set(err, STATUS_NO_MEMORY, "listing runs: not enough memory");
        }
        run_row_read(store, select, info);
        used++;
    }
    if (status) return status;
    *out = runs;
    *count = used;
    return STATUS_OK;
}

enum status run_config(struct store *store, const char *id, char **out, struct err *err)
{
    sqlite3_stmt *statement;
    bool row;
    enum status status = store_prepare(store, "select config from runs where id = ?1", &statement, err);
    if (status) return status;
    store_bind_text(statement, 1, id);
    status = store_step(store, statement, &row, err);
    if (status) return status;
    if (!row) return err_set(err, STATUS_NOT_FOUND, "run %s: there is no such run", id);
    const char *config = (const char *)sqlite3_column_text(statement, 0);
    char *copy = strdup(config ? config : "");
    sqlite3_reset(statement);
    if (!copy) return err_set(err, STATUS_NO_MEMORY, "run %s: not enough memory", id);
    *out = copy;
    return STATUS_OK;
}
