/* The fields of a run, by which lists show, sort and filter runs: a column of `runs`, a number made from
 * several of them, the newest value of a metric, a key of the configuration, a measure of the evaluations,
 * the tags. All of them share one space of names. */
#ifndef ANNEAL_RUNS_FIELD_H
#define ANNEAL_RUNS_FIELD_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/arena.h"
#include "runs/rollup.h"
#include "runs/run.h"

/* How a value is read and shown. */
enum field_unit {
    UNIT_TEXT,
    UNIT_NUMBER,
    UNIT_COUNT,    /* steps, tokens, tokens per second: 12.3k */
    UNIT_TIME,     /* Unix seconds */
    UNIT_SECONDS,  /* a duration */
    UNIT_FRACTION, /* 0 to 1, shown in percent */
    UNIT_BYTES,    /* 1.2 GiB */
    UNIT_WORDS,    /* the tags: several words, each of which equals */
};

enum { FIELD_NAME_MAX = 96 };

struct field {
    char name[FIELD_NAME_MAX];
    enum field_unit unit;
    const struct column_info *column; /* of `runs`; NULL: none */
    enum metric metric;               /* METRIC_COUNT: none */
    enum { MADE_NOT, MADE_AGE, MADE_ELAPSED, MADE_PROGRESS, MADE_TAGS, MADE_CURVE, MADE_DISK } made;
};

/* A field of one run. A number without a text has text NULL; a text that is a number has both. */
struct field_value {
    bool known;       /* false: the run has none */
    const char *text; /* borrowed from the run or the arena of field_read */
    double number;    /* NaN also for a text that is no number */
};

/* Finds the field of this name. A name that is no other field's is a key of the configuration or a measure,
 * which some runs may have. False: the name is empty or too long. */
bool field_find(const char *name, struct field *out);

/* Lists the names of all fields in `arena`: columns, metrics, then the keys and measures of the store's
 * runs. */
enum status field_names_read(struct store *store, struct arena *arena, const char *const **out, size_t *count,
                             struct err *err);

/* STATUS_USAGE if no such field exists; suggests the nearest. `names`: those of field_names_read. */
enum status field_check(const char *name, const char *const *names, size_t count, struct err *err);

/* The values of a field that were read at an earlier time. */
struct field_past {
    const struct run_info *runs; /* (count), in the order of run_list */
    const struct field_value *values;
    size_t count;
    double read_at; /* Unix seconds */
};
/* Reads the field of `count` runs, as an array in `arena`. From `past` (NULL: none) come sizes on disk that
 * cannot have changed. */
enum status field_read(struct store *store, const struct field *field, const struct run_info *runs,
                       size_t count, const struct field_past *past, struct arena *arena,
                       struct field_value **out, struct err *err);

/* Writes a value as plain text, "" if it is not known. Returns buf, or the value's own text. */
const char *field_text(const struct field_value *value, char *buf, size_t size);

/* Writes a value as people read it: 12.3k, 2h 13m, 25%, 2026-09-01 14:02, five digits of other numbers; "" if
 * it is not known. A text is cut to the buffer. Returns buf. */
char *field_show(const struct field *field, const struct field_value *value, char *buf, size_t size);

/* Less than, equal to or greater than 0: two numbers by size, all else by bytes; NaN is the greatest number,
 * and a value that is not known comes after all others, whether falling or not. */
int field_compare(const struct field_value *a, const struct field_value *b, bool falling);

/* Parses a number with an optional unit that suits the field: of bytes as text_parse_bytes does; of times 90s
 * 5m 2h 3d 1w, and a date, 2026-09-01, as the Unix seconds of its beginning here; of others 12k 3M 2B 1T
 * (powers of 1,000) and 50%, in capital or small letters. Of a key of the configuration, whose unit is not
 * known, all but bytes, and there m is minutes. *seconds: whether the unit was one of time. */
bool field_parse_number(const struct field *field, const char *word, double *out, bool *seconds);

#endif
