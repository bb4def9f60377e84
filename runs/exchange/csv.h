/* Private to runs/: CSV records on their way to a file.
 *
 * RFC 4180: fields with a comma, a quote, a line break or a space at an end are quoted (by libcsv), records
 * end with CR LF. Numbers are written shortest and exact, nan, inf and -inf spelled so; an absent value is an
 * empty field, an empty text a pair of quotes. The first error is kept. */
#ifndef ANNEAL_RUNS_EXCHANGE_CSV_H
#define ANNEAL_RUNS_EXCHANGE_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct csv_out {
    FILE *file;     /* borrowed */
    bool in_record; /* a field has been written in this record */
    int error;      /* errno of the first record that could not be written; 0: none */
};

void csv_text(struct csv_out *out, const char *text, size_t n); /* NULL: absent */
void csv_word(struct csv_out *out, const char *text);           /* ends with a NUL */
void csv_int(struct csv_out *out, int64_t value);
void csv_double(struct csv_out *out, double value);
void csv_absent(struct csv_out *out);
void csv_end_record(struct csv_out *out);

#endif
