/* See import_stage.h. */
#include "runs/exchange/import_stage.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

enum status import_bad(struct import *import, const char *format, ...)
{
    char text[320];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return err_set(import->err, STATUS_CORRUPT, "%.160s:%lld: %s", import->path, (long long)import->line,
                   text);
}

enum status import_stage(struct import *import, enum store_table which)
{
    const struct table_info *table = &store_tables[which];
    const struct column_info *columns[COLUMNS_MAX];
    char sql[1024];
    if (import->staged[which]) return STATUS_OK;
    int count = table_csv_columns(which, columns);
    int n = snprintf(sql, sizeof sql, "create temp table stage_%s(", table->name);
    for (int i = 1; i < count; i++)
        n += snprintf(sql + n, sizeof sql - (size_t)n, "%s %.*s, ", columns[i]->name,
                      (int)strcspn(columns[i]->sql, " "), columns[i]->sql);
    snprintf(sql + n, sizeof sql - (size_t)n, "nan integer not null default 0%s%s%s",
             table->keyed ? ", primary key(" : "", table->keyed ? table->order : "",
             table->keyed ? ")) without rowid" : ")");
    enum status status = store_exec(import->store, sql, import->err);
    if (!status) import->staged[which] = true;
    return status;
}

static enum status prepare_upsert(struct import *import, enum store_table which,
                                  const struct column_info *column, sqlite3_stmt **out)
{
    char sql[500];
    snprintf(sql, sizeof sql,
             "insert into temp.stage_%s(segment, step, wall_time, %s, nan) values(?1, ?2, ?3, ?4, ?5)"
             " on conflict(segment, step) do update set %s = excluded.%s,"
             " wall_time = coalesce(excluded.wall_time, wall_time), nan = (nan & ~%d) | excluded.nan",
             store_tables[which].name, column->name, column->name, column->name, column->null);
    if (sqlite3_prepare_v2(import->store->db, sql, -1, out, NULL) == SQLITE_OK) return STATUS_OK;
    return store_error(import->store, import->err);
}

enum status import_value(struct import *import, enum store_table which, int64_t segment, int64_t step,
                         double wall_time, const struct column_info *column, double value)
{
    sqlite3_stmt **upsert = &import->upserts[column - store_columns];
    enum status status = import_stage(import, which);
    if (!status && !*upsert) status = prepare_upsert(import, which, column, upsert);
    if (status) return status;
    sqlite3_bind_int64(*upsert, 1, segment);
    sqlite3_bind_int64(*upsert, 2, step);
    store_bind_double(*upsert, 3, wall_time);
    if (column_is_integer(column))
        sqlite3_bind_int64(*upsert, 4, (int64_t)value);
    else
        store_bind_double(*upsert, 4, value);
    sqlite3_bind_int(*upsert, 5, isnan(value) ? column->null : 0);
    return store_run(import->store, *upsert, import->err);
}

enum status import_event(struct import *import, int64_t segment, int64_t step, const char *text)
{
    return store_do(import->store, import->err,
                    "insert into temp.stage_events(segment, step, text) values(?1, ?2, ?3)", "iis", segment,
                    step, text);
}
