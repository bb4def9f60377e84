/* The tables of the run store and their columns, as data: see columns.def, where they are listed.
 *
 * A record is one of the structs of record.h, run.h, order.h …; its fields are accessed by their offsets, so
 * code that handles all columns (writing, reading, CSV, JSON, filters) is written once. */
#ifndef ANNEAL_RUNS_COLUMNS_H
#define ANNEAL_RUNS_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/json_out.h"
#include "core/base/record.h"

/* Tables with a CSV come first. */
enum store_table {
#define TABLE(symbol, name, csv, record, since, keyed, order, help) TABLE_##symbol,
#include "runs/columns.def"
    TABLE_COUNT,
    TABLE_CSV_COUNT = TABLE_EVENTS + 1 /* the last one with a CSV */
};

/* COLUMN_STEPS_loss, … in the order of the list; the columns of a table are FIRST_STEPS to END_STEPS - 1. */
enum column_id {
#define TABLE(symbol, name, csv, record, since, keyed, order, help)                                          \
    FIRST_##symbol, BEFORE_##symbol = FIRST_##symbol - 1,
#define PLACE(symbol, column, since, sql)                      COLUMN_##symbol##_##column,
#define FIELD(symbol, column, since, null, sql, help)          COLUMN_##symbol##_##column,
#define WORD(symbol, column, since, words, unknown, sql, help) COLUMN_##symbol##_##column,
#define OWN(symbol, column, since, sql, help)                  COLUMN_##symbol##_##column,
#define END(symbol)                                            END_##symbol, AFTER_##symbol = END_##symbol - 1,
#include "runs/columns.def"
    COLUMN_COUNT
};

enum { STORE_VERSION = SCHEMA_VERSION, COLUMNS_MAX = 32 /* of one table */ };

/* The C type of a column's field. */
enum field_kind {
    FIELD_NONE,
    FIELD_INT64,
    FIELD_INT,
    FIELD_BOOL,
    FIELD_DOUBLE,
    FIELD_TEXT,  /* const char * */
    FIELD_CHARS, /* char [] */
    FIELD_WORD,  /* an enum */
};

/* The kind of a field that is not an enum. */
#define FIELD_KIND(field)                                                                                    \
    _Generic((field), int64_t: FIELD_INT64, int: FIELD_INT, bool: FIELD_BOOL, double: FIELD_DOUBLE,          \
             const char *: FIELD_TEXT, char *: FIELD_CHARS)

struct column_info {
    const char *name;
    const char *sql; /* "real", "integer not null", …: its first letter gives the type */
    int since, null; /* see columns.def */
    bool csv, place; /* in the CSV; part of the key, bound by the caller */
    enum field_kind field;
    size_t offset, size;      /* of the field in the record */
    const char *const *words; /* of a FIELD_WORD, ended by NULL */
    int unknown;
};

struct table_info {
    const char *name, *csv; /* csv NULL: the table is not exported */
    int since;
    bool keyed;
    const char *order;
    int first, end; /* of store_columns */
    size_t record;  /* bytes of one */
};

extern const struct table_info store_tables[TABLE_COUNT];
extern const struct column_info store_columns[COLUMN_COUNT];
/* COLUMN(STEPS, loss) is that column. */
#define COLUMN(table, name) (&store_columns[COLUMN_##table##_##name])

static inline bool column_is_real(const struct column_info *column)
{
    return column->sql[0] == 'r';
}

static inline bool column_is_integer(const struct column_info *column)
{
    return column->sql[0] == 'i';
}

static inline bool column_is_text(const struct column_info *column)
{
    return column->sql[0] == 't';
}

/* The columns of the CSV in its order, `run` first; returns how many. */
int table_csv_columns(enum store_table table, const struct column_info *out[COLUMNS_MAX]);

/* Returns "run" for the column with the run's id, else the column's name. */
const char *column_csv_name(const struct column_info *column);

/* The column of a table with this name; NULL: none. */
const struct column_info *table_column(enum store_table table, const char *name);

/* A number field of a record; a bool or an enum as a number; NaN for an absent integer (below 0). */
double column_number(const struct column_info *column, const void *record);
/* A text or word field; NULL for other fields. */
const char *column_text(const struct column_info *column, const void *record);

/* Writes a field as a member. Null stands for a number that is not finite, an integer below 0 and a missing
 * text. */
void column_json(struct json_out *out, const struct column_info *column, const void *record);
/* Writes all fields of a record except HIDDEN ones, in the order of the list. */
void table_json(struct json_out *out, enum store_table table, const void *record);

extern const char *const verdict_words[]; /* ends with NULL, as do those of run.h and order.h */
/* Returns false when `word` is not in the list. */
bool word_parse(const char *const *words, const char *word, int *out);

#endif
