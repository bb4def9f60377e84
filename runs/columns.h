/* The tables of the run store and their columns, as data: see columns.def, where they are listed.
 *
 * A record is one of the structs of record.h, run.h, order.h …; its fields are found by their offsets, so
 * whatever goes over all columns (writing, reading, CSV, JSON, filters) is written once. */
#ifndef ANNEAL_RUNS_COLUMNS_H
#define ANNEAL_RUNS_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/json_out.h"
#include "core/base/record.h"

/* Those with a CSV come first. */
enum store_table {
#define TABLE(symbol, name, csv, record, since, keyed, order, help) TABLE_##symbol,
#include "runs/columns.def"
    TABLE_COUNT,
    TABLE_CSV_COUNT = TABLE_RUNS + 1 /* that is the last one with a CSV */
};

/* COLUMN_STEPS_loss, … in the order of the list; a table's are FIRST_STEPS to END_STEPS - 1. */
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

enum { STORE_VERSION = SCHEMA_VERSION, COLUMNS_MAX = 24 /* of one table */ };

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

struct column_info {
    const char *name;
    const char *sql; /* "real", "integer not null", …: its first letter tells the type */
    int since, null; /* see columns.def */
    bool csv, place; /* in the CSV; where the row belongs, bound by the caller */
    enum field_kind field;
    size_t offset, size;      /* of the field in the record */
    const char *const *words; /* of a FIELD_WORD, ended by NULL */
    int unknown;
};

struct table_info {
    const char *name, *csv; /* csv NULL: it is not exported */
    int since;
    bool keyed;
    const char *order;
    int first, end; /* of store_columns */
    size_t record;  /* bytes of one */
};

extern const struct table_info store_tables[TABLE_COUNT];
extern const struct column_info store_columns[COLUMN_COUNT];

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

/* "run" for the column that holds the run's id, else the column's name. */
const char *column_csv_name(const struct column_info *column);

/* The column of a table that is called so; NULL: none. */
const struct column_info *table_column(enum store_table table, const char *name);

/* The next text field (a const char *) of a record from *column on, which moves behind it; NULL: none. */
const char **table_next_text(enum store_table table, int *column, void *record);

/* A number field of a record, a truth or enum as its number; NaN where a whole one is absent (below 0). */
double column_number(const struct column_info *column, const void *record);
/* A text or word field; NULL for others. */
const char *column_text(const struct column_info *column, const void *record);

/* Writes a field as a member: a number that is not finite, a whole one below 0, a missing text as null. */
void column_json(struct json_out *out, const struct column_info *column, const void *record);
/* All fields of a record but HIDDEN ones, in the order of the list. */
void table_json(struct json_out *out, enum store_table table, const void *record);

extern const char *const verdict_words[]; /* ended by NULL, as those of run.h and order.h */
/* False for none of the words. */
bool word_parse(const char *const *words, const char *word, int *out);

#endif
