/* See import.h: opens the files one after the other, recognises the format of each, and makes a run from
 * their rows. */
#include "runs/exchange/import.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "runs/exchange/import_stage.h"
#include "runs/journal.h"
#include "runs/run.h"
#include "runs/table.h"

/* Skips a byte order mark. Returns whether the first line is one of llm.c's log: "s:0 …". */
static bool is_llmc(FILE *file)
{
    int c = getc(file);
    if (c == 0xEF && (c = getc(file)) == 0xBB && (c = getc(file)) == 0xBF) c = getc(file);
    if (c != EOF) ungetc(c, file);
    return c == 's';
}

static enum status read_file(struct import *import, const char *path)
{
    struct err *err = import->err;
    import->path = path;
    import->line = 1;
    if (file_is_folder(path))
        return err_set(err, STATUS_USAGE, "%s: is a folder (name the files in it: %s%s*.csv)", path, path,
                       path[strlen(path) - 1] == '/' ? "" : "/");
    FILE *file = fopen(path, "re");
    if (!file)
        return err_set(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "%s: cannot open: %s", path,
                       strerror(errno));
    enum status status;
    if (is_llmc(file)) {
        status = import_set_kind(import, IMPORT_LLMC);
        if (!status) status = import_read_llmc(import, file);
    } else {
        status = import_read_csv(import, file);
    }
    fclose(file);
    return status;
}

/* Names a run after the file's folder if no file names it: "logs/main.log" gives "logs". */
static void name_after(const char *path, char *buf, size_t size)
{
    char whole[PATH_MAX];
    if (!realpath(path, whole)) snprintf(whole, sizeof whole, "%s", path);
    snprintf(buf, size, "%s", basename(dirname(whole)));
}

/* ---- from the rows to a run: the values that a trainer would have stored are computed from them ---- */

/* The last second of the year 9999: a larger number is not a time. */
#define TIME_MAX 253402300799.0

/* Copies the staged rows of a table to the run. */
static enum status copy_table(struct import *import, enum store_table which, const char *id)
{
    const struct table_info *table = &store_tables[which];
    char sql[300];
    snprintf(sql, sizeof sql, "update temp.stage_%s set run_id = ?1", table->name);
    enum status status = store_do(import->store, import->err, sql, "s", id);
    snprintf(sql, sizeof sql, "insert into main.%s select * from temp.stage_%s order by %s", table->name,
             table->name, table->keyed ? table->order : "rowid");
    return status ? status : store_do(import->store, import->err, sql, "");
}

/* Makes one row per segment that any table names. In a run without steps a segment begins with its first
 * evaluation, so that the evaluations are shown. */
static enum status make_segments(struct import *import, const char *id, double now)
{
    return store_do(
        import->store, import->err,
        "insert into segments(run_id, segment, first_step, started_at, ended_at, status)"
        " select ?1, segment, case when (select max(step) from steps where run_id = ?1) is null"
        "  then max(0, min(eval) - 1) else min(step) end,"
        "  ifnull(min(began), ?2), ifnull(max(ended), ?2), 'finished' from"
        "  (select segment, step, null as eval, wall_time - ifnull(step_ms, 0) / 1e3 as began,"
        "    wall_time as ended from steps where run_id = ?1"
        "   union all select segment, null, step, wall_time, wall_time from evals where run_id = ?1"
        "   union all select segment, null, null, null, null from measures where run_id = ?1"
        "   union all select segment, null, null, null, null from classes where run_id = ?1"
        "   union all select segment, null, null, null, null from confusion where run_id = ?1"
        "   union all select segment, null, null, null, null from early_stopping where run_id = ?1"
        "   union all select segment, null, null, null, null from samples where run_id = ?1"
        "   union all select segment, null, null, null, null from memory where run_id = ?1"
        "   union all select segment, null, null, null, null from ranks where run_id = ?1"
        "   union all select segment, null, null, null, null from layer_profile where run_id = ?1)"
        " group by segment",
        "sd", id, now);
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
    enum status status =
        store_do(import->store, import->err, "update runs set tokens = null where id = ?1", "s", id);
    if (!status) status = journal_count_steps(import->store, id, import->err);
    if (!status) status = journal_count_evals(import->store, id, import->err);
    if (!status) status = store_do(import->store, import->err, sql, "ssdd", id, message, TIME_MAX, now);
    if (status) return status;
    return store_do(import->store, import->err,
                    "update runs set heartbeat = ended_at, total_steps = steps where id = ?1", "s", id);
}

static enum status fill_run(struct import *import, const char *id, const char *message, double now)
{
    struct rollup rollup;
    enum status status = STATUS_OK;
    for (int t = 0; !status && t < TABLE_COUNT; t++)
        if (import->staged[t] && t != TABLE_RUNS) status = copy_table(import, (enum store_table)t, id);
    if (!status) status = make_segments(import, id, now);
    if (!status) status = rollup_begin(&rollup, import->store, id, INT64_MAX, import->err);
    return status ? status : update_row(import, id, message, now);
}

/* Whether this is YYYYMMDD-HHMMSS-name with a name that run_create would not change. */
static bool is_id(const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    for (int i = 0; i < 16; i++)
        if (i == 8 || i == 15 ? text[i] != '-' : text[i] < '0' || text[i] > '9') return false;
    size_t n = strlen(text + 16);
    return n > 0 && n < RUN_NAME_MAX - 8 && text[16] != '.' && text[16] != '-' &&
           strspn(text + 16, plain) == n && strcmp(text + 16, "latest") != 0;
}

/* Describes the staged rows: the numbers of rows, the recorded start of the history (*start is unchanged if
 * there is none), and the fields that only a row of `runs` has; their texts belong to the statement. */
static enum status look_at_staged(struct import *import, struct import_outcome *made, double *start,
                                  struct run_new *run, sqlite3_stmt **select)
{
    bool row;
    enum status status = store_query(
        import->store, select, import->err,
        "select (select count(*) from temp.stage_steps), (select count(*) from temp.stage_evals),"
        " coalesce((select t from (select wall_time - ifnull(step_ms, 0) / 1e3 as t from temp.stage_steps"
        "   where wall_time is not null order by segment, step limit 1) where t between 0 and ?1),"
        "  (select min(wall_time) as t from temp.stage_evals having t between 0 and ?1)),"
        " name, device, precision, parameters,"
        " case when frozen_parameters between 0 and parameters then frozen_parameters end"
        " from (select 1) left join temp.stage_runs",
        "d", TIME_MAX);
    if (!status) status = store_step(import->store, *select, &row, import->err);
    if (status) return status;
    made->steps = sqlite3_column_int64(*select, 0);
    made->evals = sqlite3_column_int64(*select, 1);
    if (sqlite3_column_type(*select, 2) != SQLITE_NULL) *start = sqlite3_column_double(*select, 2);
    run->name = (const char *)sqlite3_column_text(*select, 3);
    run->device = (const char *)sqlite3_column_text(*select, 4);
    run->precision = (const char *)sqlite3_column_text(*select, 5);
    run->parameters = store_column_int(*select, 6, -1);
    run->frozen_parameters = store_column_int(*select, 7, 0);
    if (made->steps + made->evals) return STATUS_OK;
    sqlite3_reset(*select);
    return err_set(import->err, STATUS_CORRUPT, "%s: contains neither steps nor evaluations", import->path);
}

/* One transaction, so that the whole run is stored or nothing. */
static enum status make_run(struct import *import, const char *name, const char *fallback,
                            const char *message, struct import_outcome *out)
{
    struct import_outcome made = {0};
    struct run_new run = {.config = ""};
    sqlite3_stmt *staged;
    double now = clock_wall(), start = now;
    enum status status = look_at_staged(import, &made, &start, &run, &staged);
    if (status) return status;
    bool keep = !name && is_id(import->run);
    if (name)
        run.name = name;
    else if (!run.name)
        run.name = keep ? import->run + 16 : fallback;
    status = run_begin(import->store, &run, start, keep ? import->run : NULL, made.id, import->err);
    sqlite3_reset(staged);
    if (status) return status;
    status = fill_run(import, made.id, message, now);
    if (!status) status = store_commit(import->store, import->err);
    if (status)
        run_abandon(import->store, made.id);
    else
        *out = made;
    return status;
}

/* ---- all of it ---- */

/* Stages on disk, as a long history does not fit into memory. The handle may not have temporary tables
 * yet. */
static enum status begin(struct import *import)
{
    static const enum store_table always[] = {TABLE_STEPS, TABLE_EVALS, TABLE_RUNS};
    enum status status = store_exec(import->store, "pragma temp_store = file; begin", import->err);
    for (size_t i = 0; !status && i < sizeof always / sizeof *always; i++)
        status = import_stage(import, always[i]);
    return status;
}

/* Drops the staged tables and restores the handle's settings. */
static void end(struct import *import)
{
    if (!sqlite3_get_autocommit(import->store->db)) store_exec(import->store, "rollback", NULL);
    for (int t = 0; t < TABLE_COUNT; t++) {
        char sql[80];
        snprintf(sql, sizeof sql, "drop table if exists temp.stage_%s", store_tables[t].name);
        store_exec(import->store, sql, NULL);
    }
    store_exec(import->store, "pragma temp_store = memory", NULL);
}

enum status import_files(struct store *store, const char *const *paths, size_t count, const char *name,
                         struct import_outcome *out, struct err *err)
{
    struct err own;
    struct import import = {.store = store, .err = err ? err : &own};
    char message[200], fallback[RUN_NAME_MAX];
    enum status status = begin(&import);
    for (size_t i = 0; !status && i < count; i++) status = read_file(&import, paths[i]);
    if (!status) status = store_exec(store, "commit", import.err);
    if (!status) {
        name_after(paths[0], fallback, sizeof fallback);
        int n = snprintf(message, sizeof message, "imported from %.120s", paths[0]);
        if (count > 1)
            snprintf(message + n, sizeof message - (size_t)n, " and %zu more file%s", count - 1,
                     count > 2 ? "s" : "");
        status = make_run(&import, name, fallback, message, out);
    }
    end(&import);
    return status;
}
