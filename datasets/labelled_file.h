/* Files of labelled texts, row by row: CSV (RFC 4180 with a header line; tabs instead of commas where the
 * name ends with .tsv), or JSONL, one object a line. The name's end says which (.csv, .tsv; .jsonl, .ndjson,
 * .json); without one of these, a file that begins with { is JSONL. Columns are found by name. A label may be
 * a text, a whole number or a boolean; other columns, empty lines and a byte-order mark are ignored. */
#ifndef ANNEAL_DATASETS_LABELLED_FILE_H
#define ANNEAL_DATASETS_LABELLED_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

enum { LABEL_BYTES_MAX = 255 };

struct labelled_row {
    const char *text; /* `length` bytes without NUL among them; may be empty */
    size_t length;
    const char *label;    /* UTF-8, 1 to LABEL_BYTES_MAX bytes; NULL where no column of labels is read */
    uint64_t line;        /* where the row begins, from 1 */
    uint64_t done, total; /* bytes of the file, for progress */
};

/* The row is borrowed for the call. Any other status than STATUS_OK ends the reading and is its result. */
typedef enum status (*labelled_visitor)(void *context, const struct labelled_row *row, struct err *err);

/* Calls visit for each row. label_column NULL: only texts are read. STATUS_USAGE: the file has no such
 * column; the error lists those it has. STATUS_CORRUPT names the line of a row that cannot be read. */
enum status labelled_file_each(const char *path, const char *text_column, const char *label_column,
                               labelled_visitor visit, void *context, struct err *err);

#endif
