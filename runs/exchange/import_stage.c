/* See import_stage.h. */
#include "runs/exchange/import_stage.h"

#include <math.h>
#include <string.h>

#include "core/base/text.h"
#include "runs/annotation.h"

#define SEGMENT_MAX INT64_C(1000000)

enum { KEY_MAX = 120 };

enum status import_bad(struct import *import, const char *format, ...)
{
    char text[320];
    TEXT_FORMAT(text, format);
    return err_set(import->err, STATUS_CORRUPT, "%.160s:%lld: %s", import->path, (long long)import->line,
                   text);
}

void import_half_line(struct import *import)
{
    snprintf(import->remark, sizeof import->remark, "line %lld has no end, and was left out",
             (long long)import->line);
}

enum status import_set_kind(struct import *import, enum import_kind kind)
{
    if (import->kind != IMPORT_NOTHING && import->kind != kind)
        return err_set(import->err, STATUS_USAGE,
                       "%s: is another kind of file than the one before it (import one kind at a time)",
                       import->path);
    if (import->kind == IMPORT_LLMC || import->kind == IMPORT_WANDB || import->kind == IMPORT_NAMED)
        return err_set(import->err, STATUS_USAGE, "%s: is a second log (import logs one at a time)",
                       import->path);
    import->kind = kind;
    return STATUS_OK;
}

/* ---- rows ---- */

enum status import_temporary(struct import *import, const char *name, const char *create)
{
    char sql[100];
    int64_t there;
    enum status status = store_number(import->store, &there, 0, import->err,
                                      "select count(*) from sqlite_temp_master where name = ?1", "s", name);
    if (status) return status;
    snprintf(sql, sizeof sql, "delete from temp.%s", name);
    return there ? store_do(import->store, import->err, sql, "")
                 : store_exec(import->store, create, import->err);
}

enum status import_stage(struct import *import, enum store_table which)
{
    const struct table_info *table = &store_tables[which];
    char name[60], sql[400];
    snprintf(name, sizeof name, "stage_%s", table->name);
    snprintf(sql, sizeof sql, "create temp table %s as select * from main.%s where 0;", name, table->name);
    if (table->keyed)
        text_add(sql, sizeof sql, " ", "create unique index temp.key_%s on %s(%s)", table->name, name,
                 table->order);
    if (import->staged[which]) return STATUS_OK;
    enum status status = import_temporary(import, name, sql);
    import->staged[which] = !status;
    return status;
}

/* Adds what happens to an earlier row with the same key: its value is replaced, and its wall time if the
 * later one has any. */
static void add_replacement(const struct import_rows *rows, char *sql, size_t size)
{
    const char *value = rows->value->name;
    text_add(sql, size, " ", "on conflict(%s) do update set %s = excluded.%s",
             store_tables[rows->table].order, value, value);
    if (table_column(rows->table, "wall_time"))
        text_add(sql, size, ", ", "wall_time = ifnull(excluded.wall_time, wall_time)");
    if (table_column(rows->table, "nan"))
        text_add(sql, size, ", ", "nan = (nan & ~%d) | excluded.nan", rows->value->null);
}

enum status import_rows_begin(struct import_rows *rows)
{
    char names[700] = "", marks[200] = "", sql[1400];
    enum status status = import_stage(rows->import, rows->table);
    bool nan = table_column(rows->table, "nan") != NULL;
    while (rows->count < COLUMNS_MAX && rows->columns[rows->count]) rows->count++;
    for (int i = 0; i < rows->count; i++) text_add(names, sizeof names, ", ", "%s", rows->columns[i]->name);
    if (nan) text_add(names, sizeof names, ", ", "nan");
    for (int i = 0; i < rows->count + nan; i++) text_add(marks, sizeof marks, ", ", "?%d", i + 1);
    snprintf(sql, sizeof sql, "insert into temp.stage_%s(%s) values(%s)", store_tables[rows->table].name,
             names, marks);
    if (rows->value)
        add_replacement(rows, sql, sizeof sql);
    else
        text_add(sql, sizeof sql, " ", "on conflict do nothing");
    return status ? status : store_prepare(rows->import->store, sql, &rows->insert, rows->import->err);
}

/* "train.learning_rate": two or more words, joined by dots. */
static bool is_key(const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    size_t n = strlen(text);
    return n < KEY_MAX && strspn(text, plain) == n && strchr(text, '.') && !strstr(text, "..") &&
           text[0] != '.' && text[n - 1] != '.';
}

static bool has_control(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7F) return true;
    return false;
}

bool import_is_id(const char *text)
{
    char name[RUN_NAME_CLEAN_MAX];
    for (int i = 0; i < 16; i++)
        if (i == 8 || i == 15 ? text[i] != '-' : text[i] < '0' || text[i] > '9') return false;
    return run_name_clean(text + 16, name, sizeof name) && strcmp(text + 16, name) == 0 &&
           strcmp(name, "latest") != 0;
}

bool import_stays_inside(const char *path)
{
    for (const char *part = path; part; part = strchr(part, '/')) {
        part += *part == '/';
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || !part[2])) return false;
    }
    return *path && *path != '/';
}

/* Refuses a text that would mean something else where it is used: in the text of the configuration, in the
 * list of tags, as a path. */
static enum status check_text(struct import *import, const struct column_info *column, const char *text)
{
    struct err why;
    switch (column - store_columns) {
    case COLUMN_PARAMS_name:
        if (is_key(text)) return STATUS_OK;
        return import_bad(import, "name: \"%.80s\" is not a key of a configuration", CLEAN_LINE(text));
    case COLUMN_PARAMS_value:
    case COLUMN_RUNS_note:
        if (!has_control(text)) return STATUS_OK;
        return import_bad(import, "%s: has a control character, but must be one line", column->name);
    case COLUMN_TAGS_tag:
        return tag_check(text, &why) ? import_bad(import, "tag: %s", why.text) : STATUS_OK;
    case COLUMN_CHECKPOINTS_path:
        if (!has_control(text) && import_stays_inside(text)) return STATUS_OK;
        return import_bad(import, "path: \"%.80s\" leads out of the run's folder", CLEAN_LINE(text));
    default:
        return STATUS_OK;
    }
}

static enum status check_word(struct import *import, const struct column_info *column, const char *text)
{
    char all[160] = "";
    int word;
    if (!column->words || word_parse(column->words, text, &word)) return STATUS_OK;
    for (int i = 0; column->words[i]; i++) text_add(all, sizeof all, ", ", "%s", column->words[i]);
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
    int64_t least = column == COLUMN(EVENTS, step) ? -1 : 0; /* an event may have no step */
    if (strcmp(column->name, "step") == 0 && (*out < least || *out > IMPORT_STEP_MAX))
        return import_bad(import, "step: %lld is out of range", (long long)*out);
    if (strcmp(column->name, "segment") == 0 && (*out < 1 || *out > SEGMENT_MAX))
        return import_bad(import, "segment: %lld is not in 1 to %lld", (long long)*out,
                          (long long)SEGMENT_MAX);
    return STATUS_OK;
}

/* Whether the column is a part of the key of its table. */
static bool is_key_part(const struct import_rows *rows, const struct column_info *column)
{
    const struct table_info *table = &store_tables[rows->table];
    return table->keyed && strstr(table->order, column->name);
}

enum status import_rows_field(struct import_rows *rows, int i, const char *text)
{
    const struct column_info *column = rows->columns[i];
    bool needed = strstr(column->sql, "not null") || column == rows->value;
    int64_t integer;
    double real;
    /* other programs write an empty text as they write none: pandas */
    if (!text && strncmp(column->sql, "text not null", 13) == 0 && !column->words &&
        !is_key_part(rows, column))
        text = "";
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
        enum status status = check_word(rows->import, column, text);
        return status ? status : check_text(rows->import, column, text);
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

enum status import_rows_add(struct import_rows *rows, const char *const *fields)
{
    enum status status = STATUS_OK;
    for (int i = 0; !status && i < rows->count; i++) status = import_rows_field(rows, i, fields[i]);
    return status ? status : import_rows_store(rows);
}
