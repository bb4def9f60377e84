/* From the staged rows to a run, see import_stage.h: one transaction, so that the run is there whole or not
 * at all. What the trainer would have written about the whole run (segments, rollups, the row in `runs`) is
 * counted from the rows. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"
#include "runs/exchange/import_stage.h"
#include "runs/journal.h"
#include "runs/run_row.h"
#include "runs/table.h"

/* The last second of the year 9999: what follows is no time. */
#define TIME_MAX 253402300799.0

/* Seconds that can be shown as a date. */
static bool is_time(double seconds)
{
    return seconds >= 0 && seconds <= TIME_MAX;
}

/* A number of the first row of `sql`, whose ?1 is the run's id; NaN for none. Not kept: `sql` may be made
 * here. */
static enum status read_number(struct import *import, const char *sql, const char *id, double *out)
{
    sqlite3_stmt *select = NULL;
    bool row = false;
    *out = NAN;
    if (sqlite3_prepare_v2(import->store->db, sql, -1, &select, NULL) != SQLITE_OK)
        return store_error(import->store, import->err);
    if (id) store_bind_text(select, 1, id);
    enum status status = store_step(import->store, select, &row, import->err);
    if (!status && row) *out = store_column_double(select, 0);
    sqlite3_finalize(select);
    return status;
}

/* Runs `sql`, whose ?1 is the run's id and ?2 `number`. */
static enum status execute(struct import *import, const char *sql, const char *id, double number)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(import->store->db, sql, -1, &statement, NULL) != SQLITE_OK)
        return store_error(import->store, import->err);
    store_bind_text(statement, 1, id);
    if (sqlite3_bind_parameter_count(statement) > 1) store_bind_double(statement, 2, number);
    enum status status = store_run(import->store, statement, import->err);
    sqlite3_finalize(statement);
    return status;
}

static enum status copy_table(struct import *import, enum store_table which, const char *id)
{
    const struct table_info *table = &store_tables[which];
    const struct column_info *csv[COLUMNS_MAX];
    char sql[1024], columns[400] = "";
    int n = 0, count = table_csv_columns(which, csv);
    for (int i = 1; i < count; i++)
        n += snprintf(columns + n, sizeof columns - (size_t)n, ", %s", csv[i]->name);
    const char *nan = table_column(which, "nan") ? ", nan" : "";
    snprintf(sql, sizeof sql, "insert into main.%s(run_id%s%s) select ?1%s%s from temp.stage_%s order by %s",
             table->name, columns, nan, columns, nan, table->name, table->keyed ? table->order : "rowid");
    return execute(import, sql, id, 0);
}

/* One row a segment that any table names. A run without steps has its evaluations shown all the same: there a
 * segment begins with the first of them. */
static enum status make_segments(struct import *import, const char *id, double now)
{
    enum status status = execute(
        import,
        "insert into segments(run_id, segment, first_step, started_at, ended_at, status)"
        " select ?1, g.segment,"
        "  (select min(s.step) from steps s where s.run_id = ?1 and s.segment = g.segment),"
        "  coalesce((select s.wall_time - coalesce(s.step_ms, 0) / 1e3 from steps s where"
        "   s.run_id = ?1 and s.segment = g.segment order by s.step limit 1),"
        "   (select min(e.wall_time) from evals e where e.run_id = ?1 and e.segment = g.segment), ?2),"
        "  max(coalesce((select s.wall_time from steps s where s.run_id = ?1 and"
        "   s.segment = g.segment order by s.step desc limit 1), -1e308),"
        "   coalesce((select max(e.wall_time) from evals e where e.run_id = ?1 and"
        "    e.segment = g.segment), -1e308)), 'finished'"
        " from (select segment from steps where run_id = ?1"
        "  union select segment from evals where run_id = ?1"
        "  union select segment from early_stopping where run_id = ?1"
        "  union select segment from samples where run_id = ?1"
        "  union select segment from memory where run_id = ?1"
        "  union select segment from layer_profile where run_id = ?1) g",
        id, now);
    if (!status)
        status = execute(import,
                         "update segments set ended_at = max(started_at, ended_at), first_step ="
                         " case when exists(select 1 from steps where run_id = ?1) then first_step else"
                         "  (select max(0, min(e.step) - 1) from evals e where e.run_id = ?1 and"
                         "   e.segment = segments.segment) end where run_id = ?1",
                         id, 0);
    return status;
}

/* What the trainer counts while it records. */
static enum status make_summaries(struct import *import, const char *id)
{
    struct rollup rollup;
    double last;
    enum status status = execute(import, "update runs set tokens = null where id = ?1", id, 0);
    if (!status) status = read_number(import, "select max(step) from steps where run_id = ?1", id, &last);
    if (!status && !isnan(last))
        status = rollup_begin(&rollup, import->store, id, (int64_t)last + 1, import->err);
    if (!status) status = journal_count_steps(import->store, id, import->err);
    return status ? status : journal_count_evals(import->store, id, import->err);
}

static enum status update_row(struct import *import, const char *id, const char *message, double now)
{
    char sql[TABLE_HISTORY_MAX + 400], evals[TABLE_HISTORY_MAX];
    snprintf(sql, sizeof sql,
             "update runs set status = 'finished', message = ?2,"
             " steps = max(steps, ifnull((select max(step) %s), 0)),"
             " ended_at = ifnull((select max(ended_at) from segments where run_id = ?1"
             "  having max(ended_at) between 0 and ?3), ?4),"
             " segment = ifnull((select max(segment) from segments where run_id = ?1), 1) where id = ?1",
             table_history(TABLE_EVALS, evals));
    enum status status = store_do(import->store, import->err, sql, "ssdd", id, message, TIME_MAX, now);
    if (status) return status;
    return store_do(import->store, import->err,
                    "update runs set heartbeat = ended_at, total_steps = steps where id = ?1", "s", id);
}

/* ---- the run ---- */

/* YYYYMMDD-HHMMSS-name, the name of letters that run_create leaves as they are. */
static bool is_id(const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    for (int i = 0; i < 16; i++)
        if (i == 8 || i == 15 ? text[i] != '-' : text[i] < '0' || text[i] > '9') return false;
    size_t n = strlen(text + 16);
    return n > 0 && n < RUN_NAME_MAX - 8 && text[16] != '.' && text[16] != '-' &&
           strspn(text + 16, plain) == n && strcmp(text + 16, "latest") != 0;
}

/* When the history begins, as it says itself; `now` when it does not. */
static enum status find_start(struct import *import, double now, double *start)
{
    double first = NAN, eval = NAN;
    enum status status = STATUS_OK;
    if (import->staged[TABLE_STEPS])
        status = read_number(import,
                             "select wall_time - coalesce(step_ms, 0) / 1e3 from temp.stage_steps"
                             " where wall_time is not null order by segment, step limit 1",
                             NULL, &first);
    if (!status && import->staged[TABLE_EVALS])
        status = read_number(import, "select min(wall_time) from temp.stage_evals", NULL, &eval);
    *start = is_time(first) ? first : is_time(eval) ? eval : now;
    return status;
}

static enum status count_staged(struct import *import, enum store_table which, const char *sql, int64_t *out)
{
    double count = 0;
    enum status status = import->staged[which] ? read_number(import, sql, NULL, &count) : STATUS_OK;
    *out = (int64_t)count;
    return status;
}

static enum status fill_run(struct import *import, const char *id, const char *message, double now)
{
    enum status status = STATUS_OK;
    for (int t = 0; !status && t < TABLE_COUNT; t++)
        if (import->staged[t]) status = copy_table(import, (enum store_table)t, id);
    if (!status)
        status =
            execute(import,
                    "insert into events(run_id, segment, step, wall_time, level, text)"
                    " select ?1, segment, step, null, 'info', text from temp.stage_events order by rowid",
                    id, 0);
    if (!status) status = make_segments(import, id, now);
    if (!status) status = make_summaries(import, id);
    return status ? status : update_row(import, id, message, now);
}

enum status import_store(struct import *import, const char *name, const char *fallback, const char *message,
                         struct import_outcome *out)
{
    struct import_outcome made = {0};
    double now = clock_wall(), start = now;
    enum status status =
        count_staged(import, TABLE_STEPS, "select count(*) from temp.stage_steps", &made.steps);
    if (!status)
        status = count_staged(import, TABLE_EVALS, "select count(*) from temp.stage_evals", &made.evals);
    if (!status && made.steps + made.evals == 0)
        return err_set(import->err, STATUS_CORRUPT, "%s: holds neither steps nor evaluations", import->path);
    if (!status) status = find_start(import, now, &start);
    if (status) return status;
    bool keep = !name && is_id(import->run);
    struct run_new run = {.name = name            ? name
                                  : *import->name ? import->name
                                  : keep          ? import->run + 16
                                                  : fallback,
                          .device = import->device,
                          .precision = import->precision,
                          .parameters = import->parameters,
                          .config = ""};
    status = run_row_create(import->store, &run, start, keep ? import->run : NULL, made.id, import->err);
    if (status) return status;
    status = fill_run(import, made.id, message, now);
    if (!status) status = store_commit(import->store, import->err);
    if (status)
        run_row_abandon(import->store, made.id);
    else
        *out = made;
    return status;
}
