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

const struct column *import_column(enum export_table which, const char *name)
{
    for (const struct column *column = tables[which].columns; column->name; column++)
        if (strcmp(column->name, name) == 0) return column;
    return NULL;
}

static const char *sql_type(enum column_kind kind)
{
    return kind == INTEGER ? "integer" : kind == REAL ? "real" : "text";
}

enum status import_stage(struct import *import, enum export_table which)
{
    const struct table *table = &tables[which];
    char sql[1024];
    if (import->staged[which]) return STATUS_OK;
    int n = snprintf(sql, sizeof sql, "create temp table stage_%s(", table->sql_name);
    for (const struct column *column = table->columns + 1; column->name; column++)
        n += snprintf(sql + n, sizeof sql - (size_t)n, "%s %s, ", column->name, sql_type(column->kind));
    n += snprintf(sql + n, sizeof sql - (size_t)n, "nan integer not null default 0");
    for (int i = 1; i <= table->keys; i++)
        n += snprintf(sql + n, sizeof sql - (size_t)n, "%s%s", i == 1 ? ", primary key(" : ", ",
                      table->columns[i].name);
    snprintf(sql + n, sizeof sql - (size_t)n, table->keys ? ")) without rowid" : ")");
    enum status status = store_exec(import->store, sql, import->err);
    if (!status) import->staged[which] = true;
    return status;
}

/* The statements are kept by the store, which knows them by their address: one literal a column. */
#define UPSERT(table, column)                                                                                \
    "insert into temp.stage_" table "(segment, step, wall_time, " column ", nan) values(?1, ?2, ?3, ?4, ?5)" \
    " on conflict(segment, step) do update set " column " = excluded." column                                \
    ", wall_time = coalesce(excluded.wall_time, wall_time), nan = (nan & ~?6) | excluded.nan"

static const struct {
    enum export_table table;
    const char *column, *sql;
} upserts[] = {
    {EXPORT_STEPS, "epoch", UPSERT("steps", "epoch")},
    {EXPORT_STEPS, "tokens", UPSERT("steps", "tokens")},
    {EXPORT_STEPS, "step_ms", UPSERT("steps", "step_ms")},
    {EXPORT_STEPS, "loss", UPSERT("steps", "loss")},
    {EXPORT_STEPS, "lr", UPSERT("steps", "lr")},
    {EXPORT_STEPS, "grad_norm", UPSERT("steps", "grad_norm")},
    {EXPORT_STEPS, "clip_scale", UPSERT("steps", "clip_scale")},
    {EXPORT_STEPS, "tokens_per_sec", UPSERT("steps", "tokens_per_sec")},
    {EXPORT_STEPS, "mfu", UPSERT("steps", "mfu")},
    {EXPORT_EVALS, "val_loss", UPSERT("evals", "val_loss")},
    {EXPORT_EVALS, "val_perplexity", UPSERT("evals", "val_perplexity")},
    {EXPORT_EVALS, "eval_ms", UPSERT("evals", "eval_ms")},
};

enum status import_value(struct import *import, enum export_table which, int64_t segment, int64_t step,
                         double wall_time, const char *name, double value)
{
    const struct column *column = import_column(which, name);
    sqlite3_stmt *upsert;
    size_t i = 0;
    enum status status = import_stage(import, which);
    while (i < sizeof upserts / sizeof *upserts &&
           (upserts[i].table != which || strcmp(upserts[i].column, name) != 0))
        i++;
    if (!status) status = store_prepare(import->store, upserts[i].sql, &upsert, import->err);
    if (status) return status;
    sqlite3_bind_int64(upsert, 1, segment);
    sqlite3_bind_int64(upsert, 2, step);
    store_bind_double(upsert, 3, wall_time);
    if (column->kind == INTEGER)
        sqlite3_bind_int64(upsert, 4, (int64_t)value);
    else
        store_bind_double(upsert, 4, value);
    sqlite3_bind_int(upsert, 5, isnan(value) ? column->nan_bit : 0);
    sqlite3_bind_int(upsert, 6, column->nan_bit);
    return store_run(import->store, upsert, import->err);
}

enum status import_event(struct import *import, int64_t segment, int64_t step, const char *text)
{
    sqlite3_stmt *insert;
    enum status status =
        store_prepare(import->store, "insert into temp.stage_events(segment, step, text) values(?1, ?2, ?3)",
                      &insert, import->err);
    if (status) return status;
    sqlite3_bind_int64(insert, 1, segment);
    sqlite3_bind_int64(insert, 2, step);
    store_bind_text(insert, 3, text);
    return store_run(import->store, insert, import->err);
}
