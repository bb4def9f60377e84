/* See table.h. */
#include "runs/table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"

enum { SQL_MAX = 1500 };

/* ---- writing ---- */

/* SQLite assigns the rowid. */
static bool is_inserted(const struct column_info *column)
{
    return strcmp(column->name, "id") != 0 || !column_is_integer(column);
}

/* The columns of a table are in the order of columns.def, as new ones come last in both. */
static enum status prepare_insert(struct store *store, enum store_table which, sqlite3_stmt **out,
                                  struct err *err)
{
    const struct table_info *table = &store_tables[which];
    char sql[400], marks[200] = "";
    for (int c = table->first; c < table->end; c++) text_add(marks, sizeof marks, ", ", "?");
    snprintf(sql, sizeof sql, "insert %sinto %s values(%s)", table->keyed ? "or replace " : "", table->name,
             marks);
    enum status status = store_prepare(store, sql, &store->inserts[which], err);
    *out = store->inserts[which];
    return status;
}

/* Returns the bit for column `nan` if the value is NaN, else 0. */
static int bind_field(sqlite3_stmt *insert, int index, const struct column_info *column, const void *record)
{
    const char *field = (const char *)record + column->offset;
    double real;
    switch (column->field) {
    case FIELD_DOUBLE:
        real = *(const double *)field;
        store_bind_double(insert, index, real);
        return isnan(real) ? column->null : 0;
    case FIELD_INT64:
        if (!column->null || *(const int64_t *)field >= 0)
            sqlite3_bind_int64(insert, index, *(const int64_t *)field);
        return 0;
    case FIELD_INT:
        sqlite3_bind_int(insert, index, *(const int *)field);
        return 0;
    case FIELD_BOOL:
        sqlite3_bind_int(insert, index, *(const bool *)field);
        return 0;
    default:
        store_bind_text(insert, index, column_text(column, record));
        return 0;
    }
}

enum status table_add(struct store *store, enum store_table which, const char *run_id, int segment,
                      const void *record, struct err *err)
{
    const struct table_info *table = &store_tables[which];
    sqlite3_stmt *insert = store->inserts[which];
    enum status status = STATUS_OK;
    if (!insert) status = prepare_insert(store, which, &insert, err);
    if (status) return status;
    sqlite3_reset(insert);
    sqlite3_clear_bindings(insert);
    int nan = 0;
    for (int c = table->first; c < table->end; c++) {
        const struct column_info *column = &store_columns[c];
        int index = c - table->first + 1;
        if (column->field && is_inserted(column))
            nan |= bind_field(insert, index, column, record);
        else if (column->place && column_is_integer(column))
            sqlite3_bind_int(insert, index, segment);
        else if (column->place)
            store_bind_text(insert, index, run_id);
        else if (strcmp(column->name, "nan") == 0)
            sqlite3_bind_int(insert, index, nan);
    }
    return store_run(store, insert, err);
}

enum status table_has(struct store *store, enum store_table which, const char *run_id, int segment,
                      const void *record, bool *has, struct err *err)
{
    const struct table_info *table = &store_tables[which];
    char sql[SQL_MAX];
    sqlite3_stmt *select;
    snprintf(sql, sizeof sql, "select 1 from %s where run_id = ?1 and segment = ?2", table->name);
    for (int c = table->first; c < table->end; c++)
        if (store_columns[c].field)
            text_add(sql, sizeof sql, " and ", "%s is ?%d", store_columns[c].name, c - table->first + 3);
    enum status status = store_query(store, &select, err, sql, "sn", run_id, segment);
    for (int c = table->first; !status && c < table->end; c++)
        if (store_columns[c].field) bind_field(select, c - table->first + 3, &store_columns[c], record);
    *has = store_next(store, select, &status, err);
    sqlite3_reset(select);
    return status;
}

/* ---- reading ---- */

void table_fields(enum store_table which, char *buf, size_t size)
{
    const struct table_info *table = &store_tables[which];
    *buf = '\0';
    for (int c = table->first; c < table->end; c++)
        if (store_columns[c].field) text_add(buf, size, ", ", "t.%s", store_columns[c].name);
}

static bool read_text(const struct column_info *column, sqlite3_stmt *row, int at, struct arena *arena,
                      char *field)
{
    const char *text = (const char *)sqlite3_column_text(row, at);
    if (column->field == FIELD_CHARS) {
        store_column_text(row, at, field, column->size);
        return true;
    }
    char *copy = text || !column->null ? arena_strdup(arena, text ? text : "") : NULL;
    *(const char **)field = copy;
    return copy || (column->null && !text);
}

bool table_read(enum store_table which, sqlite3_stmt *row, int first, struct arena *arena, void *record)
{
    const struct table_info *table = &store_tables[which];
    for (int c = table->first, at = first; c < table->end; c++) {
        const struct column_info *column = &store_columns[c];
        char *field = (char *)record + column->offset;
        const char *word;
        switch (column->field) {
        case FIELD_NONE:
            continue;
        case FIELD_DOUBLE:
            *(double *)field = store_column_double(row, at);
            break;
        case FIELD_INT64:
            *(int64_t *)field = store_column_int(row, at, -1);
            break;
        case FIELD_INT:
            *(int *)field = (int)sqlite3_column_int64(row, at);
            break;
        case FIELD_BOOL:
            *(bool *)field = sqlite3_column_int(row, at) != 0;
            break;
        case FIELD_WORD:
            *(int *)field = column->unknown;
            word = (const char *)sqlite3_column_text(row, at);
            if (word) word_parse(column->words, word, (int *)field);
            break;
        case FIELD_TEXT:
        case FIELD_CHARS:
            if (!read_text(column, row, at, arena, field)) return false;
            break;
        }
        at++;
    }
    return true;
}

/* ---- lists ---- */

const char *table_history(enum store_table table)
{
    static const char *const after_steps[] = {
#define TABLE(symbol, name, csv, record, since, keyed, order, help) HISTORY_AFTER_STEPS(#name),
#include "runs/columns.def"
    };
    if (table == TABLE_STEPS) return COUNTED_STEPS;
    return table == TABLE_PROFILE ? COUNTED_PROFILE : after_steps[table];
}

static bool read_row(const struct table_request *request, sqlite3_stmt *row, struct arena *arena, void **rows,
                     size_t count)
{
    size_t record = store_tables[request->table].record;
    char *out = arena_grow(arena, rows, count, request->size);
    if (!out) return false;
    if (request->size > record) *(int *)(out + record) = sqlite3_column_int(row, 0);
    return table_read(request->table, row, 1, arena, out);
}

enum status table_list(struct store *store, const struct table_request *request, struct arena *arena,
                       void *out, size_t *count, struct err *err)
{
    char sql[SQL_MAX], fields[SQL_MAX / 2], all[80];
    sqlite3_stmt *select;
    void *rows = NULL;
    size_t n = 0;
    table_fields(request->table, fields, sizeof fields);
    snprintf(all, sizeof all, "from %s t where t.run_id = ?1", store_tables[request->table].name);
    snprintf(sql, sizeof sql, "select %s, %s %s %s",
             request->size > store_tables[request->table].record ? "t.segment" : "0", fields,
             request->shown ? table_history(request->table) : all, request->tail);
    enum status status = store_query(store, &select, err, sql, "s", request->run_id);
    for (; n < request->limit && store_next(store, select, &status, err); n++)
        if (!read_row(request, select, arena, &rows, n))
            status = err_no_memory(err, "reading run %s", request->run_id);
    sqlite3_reset(select);
    if (status) return status;
    memcpy(out, &rows, sizeof rows);
    *count = n;
    return STATUS_OK;
}
