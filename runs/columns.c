/* See columns.h. */
#include "runs/columns.h"

#include <math.h>
#include <string.h>

#include "runs/order.h"
#include "runs/run.h"

const char *const verdict_words[] = {"improved", "waiting", "stop", "ordered", NULL};
const char *const verb_words[] = {"pause",  "continue",  "stop",  "checkpoint", "eval",
                                  "sample", "lr-factor", "trace", NULL};
const char *const status_words[] = {"created", "running", "paused",  "finished", "early_stopped",
                                    "stopped", "failed",  "crashed", NULL};

struct no_record {
    char none;
};

#define TABLE(symbol, name, csv, record, since, keyed, order, help) typedef record record_of_##symbol;
#include "runs/columns.def"

enum { LISTED, KEYED };

/* A field of the record of a table, where only its type and size are needed. */
#define FIELD_OF(symbol, field) (((record_of_##symbol *)0)->field)

const struct table_info store_tables[TABLE_COUNT] = {
#define TABLE(symbol, name, csv, record, since, keyed, order, help)                                          \
    {#name, csv, since, keyed, order, FIRST_##symbol, END_##symbol, sizeof(record)},
#include "runs/columns.def"
};

#define PLACED(symbol, column) offsetof(record_of_##symbol, column), sizeof FIELD_OF(symbol, column)
#define A_FIELD(symbol, column, since, null, csv, sql)                                                       \
    {#column, sql, since, null, csv, false, FIELD_KIND(FIELD_OF(symbol, column)), PLACED(symbol, column),    \
     NULL,    0},

const struct column_info store_columns[COLUMN_COUNT] = {
#define PLACE(symbol, column, since, sql)              {#column, sql, since, 0, true, true, FIELD_NONE, 0, 0, NULL, 0},
#define FIELD(symbol, column, since, null, sql, help)  A_FIELD(symbol, column, since, null, true, sql)
#define HIDDEN(symbol, column, since, null, sql, help) A_FIELD(symbol, column, since, null, false, sql)
#define WORD(symbol, column, since, words, unknown, sql, help)                                               \
    {#column, sql, since, 0, true, false, FIELD_WORD, PLACED(symbol, column), words, unknown},
#define OWN(symbol, column, since, sql, help)                                                                \
    {#column, sql, since, 0, false, false, FIELD_NONE, 0, 0, NULL, 0},
#define LOOSE(symbol, column, since, sql, help)                                                              \
    {#column, sql, since, 0, true, false, FIELD_NONE, 0, 0, NULL, 0},
#include "runs/columns.def"
};

int table_csv_columns(enum store_table table, const struct column_info *out[COLUMNS_MAX])
{
    int n = 0;
    for (int c = store_tables[table].first; c < store_tables[table].end; c++)
        if (store_columns[c].csv) out[n++] = &store_columns[c];
    return n;
}

const char *column_csv_name(const struct column_info *column)
{
    bool run = column == COLUMN(RUNS, id) || strcmp(column->name, "run_id") == 0;
    return run ? "run" : column->name;
}

const struct column_info *table_column(enum store_table table, const char *name)
{
    for (int c = store_tables[table].first; c < store_tables[table].end; c++)
        if (strcmp(store_columns[c].name, name) == 0) return &store_columns[c];
    return NULL;
}

double column_number(const struct column_info *column, const void *record)
{
    const char *field = (const char *)record + column->offset;
    int64_t whole;
    switch (column->field) {
    case FIELD_DOUBLE:
        return *(const double *)field;
    case FIELD_BOOL:
        return *(const bool *)field;
    case FIELD_INT64:
        whole = *(const int64_t *)field;
        return whole < 0 ? NAN : (double)whole;
    case FIELD_INT:
    case FIELD_WORD:
        return *(const int *)field;
    default:
        return NAN;
    }
}

const char *column_text(const struct column_info *column, const void *record)
{
    const char *field = (const char *)record + column->offset;
    if (column->field == FIELD_TEXT) return *(const char *const *)field;
    if (column->field == FIELD_CHARS) return field;
    return column->field == FIELD_WORD ? column->words[*(const int *)field] : NULL;
}

void column_json(struct json_out *out, const struct column_info *column, const void *record)
{
    const char *field = (const char *)record + column->offset;
    if (column->field == FIELD_DOUBLE)
        json_out_real(out, column->name, *(const double *)field);
    else if (column->field == FIELD_BOOL)
        json_out_bool(out, column->name, *(const bool *)field);
    else if (column->field == FIELD_INT)
        json_out_int(out, column->name, *(const int *)field);
    else if (column->field == FIELD_INT64)
        json_out_whole(out, column->name, *(const int64_t *)field);
    else
        json_out_text(out, column->name, column_text(column, record));
}

void table_json(struct json_out *out, enum store_table table, const void *record)
{
    const struct column_info *columns[COLUMNS_MAX];
    int n = table_csv_columns(table, columns);
    for (int i = 0; i < n; i++)
        if (columns[i]->field) column_json(out, columns[i], record);
}

bool word_parse(const char *const *words, const char *word, int *out)
{
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], word) == 0) {
            *out = i;
            return true;
        }
    return false;
}
