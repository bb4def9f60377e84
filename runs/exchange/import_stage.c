/* See import_stage.h. */
#include "runs/exchange/import_stage.h"

#include <math.h>
#include <string.h>

#include "core/base/text.h"

/* A larger number is a damaged value, not a step. The limit also keeps arithmetic on steps from
 * overflowing. */
#define STEP_MAX    INT64_C(1000000000000000)
#define SEGMENT_MAX INT64_C(1000000)

enum status import_bad(struct import *import, const char *format, ...)
{
    char text[320];
    TEXT_FORMAT(text, format);
    return err_set(import->err, STATUS_CORRUPT, "%.160s:%lld: %s", import->path, (long long)import->line,
                   text);
}

enum status import_set_kind(struct import *import, enum import_kind kind)
{
    if (import->kind != IMPORT_NOTHING && (import->kind != kind || kind == IMPORT_LLMC))
        return err_set(import->err, STATUS_USAGE,
                       "%s: is of another kind than the file before it, or is a second log (import files of "
                       "one kind at a time, logs one by one)",
                       import->path);
    import->kind = kind;
    return STATUS_OK;
}

/* ---- rows ---- */

enum status import_stage(struct import *import, enum store_table which)
{
    const struct table_info *table = &store_tables[which];
    char sql[400];
    int n = snprintf(sql, sizeof sql, "create temp table stage_%s as select * from main.%s where 0;",
                     table->name, table->name);
    if (table->keyed)
        snprintf(sql + n, sizeof sql - (size_t)n, "create unique index temp.key_%s on stage_%s(%s)",
                 table->name, table->name, table->order);
    if (import->staged[which]) return STATUS_OK;
    enum status status = store_exec(import->store, sql, import->err);
    import->staged[which] = !status;
    return status;
}

enum status import_rows_begin(struct import_rows *rows)
{
    char sql[1400];
    enum status status = import_stage(rows->import, rows->table);
    bool nan = table_column(rows->table, "nan") != NULL;
    int n = snprintf(sql, sizeof sql, "insert into temp.stage_%s(", store_tables[rows->table].name);
    for (int i = 0; i < rows->count; i++)
        n += snprintf(sql + n, sizeof sql - (size_t)n, "%s%s", i ? ", " : "", rows->columns[i]->name);
    n += snprintf(sql + n, sizeof sql - (size_t)n, "%s) values(", nan ? ", nan" : "");
    for (int i = 0; i < rows->count + nan; i++)
        n += snprintf(sql + n, sizeof sql - (size_t)n, "%s?%d", i ? ", " : "", i + 1);
    if (!rows->value)
        snprintf(sql + n, sizeof sql - (size_t)n, ") on conflict do nothing");
    else
        snprintf(sql + n, sizeof sql - (size_t)n,
                 ") on conflict(segment, step) do update set %s = excluded.%s,"
                 " wall_time = ifnull(excluded.wall_time, wall_time), nan = (nan & ~%d) | excluded.nan",
                 rows->value->name, rows->value->name, rows->value->null);
    return status ? status : store_prepare(rows->import->store, sql, &rows->insert, rows->import->err);
}

static enum status check_word(struct import *import, const struct column_info *column, const char *text)
{
    char all[160] = "";
    int word;
    if (!column->words || word_parse(column->words, text, &word)) return STATUS_OK;
    for (int i = 0, n = 0; column->words[i]; i++)
        n += snprintf(all + n, sizeof all - (size_t)n, "%s%s", i ? ", " : "", column->words[i]);
    return import_bad(import, "%s: \"%.40s\" is not one of %s", column->name, text, all);
}

static enum status read_integer(struct import *import, const struct column_info *column, const char *text,
                                int64_t *out)
{
    double real;
    if (!text_parse_int(text, out)) {
        if (!text_parse_double(text, &real) || !(fabs(real) <= 1e18) || floor(real) != real)
            return import_bad(import, "%s: is not a whole number: \"%.40s\"", column->name, text);
        *out = (int64_t)real;
    }
    if (strcmp(column->name, "step") == 0 && (*out < 0 || *out > STEP_MAX))
        return import_bad(import, "step: %lld is out of range", (long long)*out);
    if (strcmp(column->name, "segment") == 0 && (*out < 1 || *out > SEGMENT_MAX))
        return import_bad(import, "segment: %lld is not in 1 to %lld", (long long)*out,
                          (long long)SEGMENT_MAX);
    return STATUS_OK;
}

enum status import_rows_field(struct import_rows *rows, int i, const char *text)
{
    const struct column_info *column = rows->columns[i];
    bool needed = strstr(column->sql, "not null") || column == rows->value;
    int64_t integer;
    double real;
    if (!text && needed) return import_bad(rows->import, "%s: is missing", column->name);
    if (!text) {
        sqlite3_bind_null(rows->insert, i + 1);
    } else if (column_is_integer(column)) {
        enum status status = read_integer(rows->import, column, text, &integer);
        if (status) return status;
        sqlite3_bind_int64(rows->insert, i + 1, integer);
    } else if (column_is_real(column)) {
        if (!text_parse_double(text, &real) || (isnan(real) && strstr(column->sql, "not null")))
            return import_bad(rows->import, "%s: is not a number: \"%.40s\"", column->name, text);
        store_bind_double(rows->insert, i + 1, real);
        if (isnan(real)) rows->nan |= column->null;
    } else {
        sqlite3_bind_text(rows->insert, i + 1, text, -1, SQLITE_TRANSIENT);
        return check_word(rows->import, column, text);
    }
    return STATUS_OK;
}

enum status import_rows_store(struct import_rows *rows)
{
    struct store *store = rows->import->store;
    sqlite3_bind_int(rows->insert, rows->count + 1, rows->nan); /* no effect if there is no such parameter */
    rows->nan = 0;
    enum status status = store_run(store, rows->insert, rows->import->err);
    return status || sqlite3_changes(store->db)
               ? status
               : import_bad(rows->import, "is a second record of the same %s",
                            store_tables[rows->table].order);
}
