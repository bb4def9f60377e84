/* See labelled_file.h. The file is mapped and given to the parser line by line, as libcsv reports no line
 * numbers. */
#include "datasets/labelled_file.h"

#include <csv.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "datasets/json_lines.h"
#include "datasets/text_file.h"

enum { FIELD_MAX = 64 << 20, NAMES_SHOWN = 200 };

struct reader {
    const char *path;
    const char *columns[2]; /* of the text and of the label; the second may be NULL */
    labelled_visitor visit;
    void *context;
    struct err *err;
    enum status status;
    struct labelled_row row;

    /* CSV */
    bool in_header, between; /* between: no row has begun */
    int field, places[2];    /* the next field, and where the columns are; -1: not found yet */
    int columns_here;        /* in the header */
    bool surplus;            /* the row has a field beyond the header that is not empty */
    char names[NAMES_SHOWN]; /* of the header */
    char *fields[2];         /* of the row; owned */
    size_t capacity[2], length[2];
};

static enum status bad(struct reader *r, const char *what)
{
    return r->status =
               err_set(r->err, STATUS_CORRUPT, "%s: line %" PRIu64 ": %s", r->path, r->row.line, what);
}

static bool ends_as_csv(const char *path)
{
    return text_ends_with(path, ".csv") || text_ends_with(path, ".tsv");
}

static bool ends_as_jsonl(const char *path)
{
    return text_ends_with(path, ".jsonl") || text_ends_with(path, ".ndjson") || text_ends_with(path, ".json");
}

static enum status no_column(struct reader *r, int which, const char *names)
{
    static const char *const remedies[2] = {"set data.text_column, or the option --column",
                                            "set data.label_column, or the option --label-column"};
    const char *remedy =
        strchr(names, ';') ? "columns have commas between, in a .tsv file tabs" : remedies[which];
    if (r->columns[1] && !ends_as_csv(r->path) && !ends_as_jsonl(r->path)) /* probably an ordinary text */
        remedy = "a classifier takes labelled data: CSV or JSONL with a column of texts and one of labels";
    return r->status =
               err_set(r->err, STATUS_USAGE, "%.250s: line %" PRIu64 " has no \"%.60s\"; it has %s (%s)",
                       r->path, r->row.line, r->columns[which], *names ? names : "nothing", remedy);
}

/* Checks the label and passes the row on. */
static enum status visit_row(struct reader *r)
{
    const char *label = r->row.label;
    size_t n = label ? strlen(label) : 1;
    if (!n) return bad(r, "the label is empty");
    if (n > LABEL_BYTES_MAX)
        return bad(r, "the label is longer than 255 bytes (is this the column of the text?)");
    if (label && utf8_valid_bytes(label, n) < n) return bad(r, "the label is not UTF-8");
    return r->status = r->visit(r->context, &r->row, r->err);
}

/* ---- CSV ---- */

static void take_name(struct reader *r, const char *name)
{
    text_add(r->names, sizeof r->names, ", ", "\"%.40s\"", CLEAN_LINE(name));
    for (int i = 0; i < 2; i++) {
        if (!r->columns[i] || strcmp(name, r->columns[i]) != 0) continue;
        if (r->places[i] >= 0) bad(r, "the header names the column of the text or the label twice");
        r->places[i] = r->field;
    }
}

static void keep_field(struct reader *r, int which, const char *text, size_t n)
{
    if (!list_reserve(&r->fields[which], 0, n + 1, &r->capacity[which], 1)) {
        r->status = err_no_memory(r->err, "%s: a field of %zu bytes", r->path, n);
        return;
    }
    memcpy(r->fields[which], text, n);
    r->fields[which][n] = '\0';
    r->length[which] = n;
}

static void take_field(void *data, size_t n, void *context)
{
    struct reader *r = context;
    const char *text = n ? data : "";
    if (r->status) return;
    if (memchr(text, '\0', n)) {
        bad(r, "contains a NUL byte (is this a text file? iconv -f UTF-16 -t UTF-8 converts UTF-16)");
        return;
    }
    if (r->in_header) take_name(r, text);
    r->surplus = r->surplus || (!r->in_header && r->field >= r->columns_here && n > 0);
    for (int i = 0; i < 2 && !r->in_header; i++)
        if (r->field == r->places[i]) keep_field(r, i, text, n);
    r->field++;
}

static void take_end(int end, void *context)
{
    struct reader *r = context;
    int fields = r->field;
    (void)end;
    r->field = 0;
    r->between = true;
    if (r->status) return;
    if (r->in_header) {
        r->in_header = false;
        r->columns_here = fields;
        for (int i = 0; i < 2 && !r->status; i++)
            if (r->columns[i] && r->places[i] < 0) no_column(r, i, r->names);
        return;
    }
    if (r->surplus) {
        bad(r, "has more fields than the header (a field with a comma in it is written in quotes)");
        return;
    }
    if (fields <= r->places[0] || fields <= r->places[1]) {
        bad(r, "has fewer fields than the header");
        return;
    }
    r->row.text = r->fields[0];
    r->row.length = r->length[0];
    r->row.label = r->columns[1] ? r->fields[1] : NULL;
    visit_row(r);
}

static void *bounded_realloc(void *memory, size_t size)
{
    return size > FIELD_MAX ? NULL : realloc(memory, size);
}

static enum status parse_lines(struct reader *r, struct csv_parser *parser, const char *at, const char *end)
{
    uint64_t line = 1;
    for (const char *next; at < end && !r->status; at = next, line++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        next = newline ? newline + 1 : end;
        r->row.done = r->row.total - (uint64_t)(end - next);
        size_t n = (size_t)(next - at);
        if (r->between && text_blanks(at, n) < n) { /* a row begins; it may have more lines */
            r->row.line = line;
            r->between = false;
        }
        size_t used = csv_parse(parser, at, n, take_field, take_end, r);
        if (r->status || used == n) continue;
        if (csv_error(parser) == CSV_EPARSE)
            return bad(r,
                       "a quote is where RFC 4180 does not allow it (a field with quotes is in quotes, and "
                       "each quote in it is doubled)");
        return bad(r,
                   "a field is larger than 64 MiB, or memory is short (look for a quote that is not closed)");
    }
    if (!r->status && csv_fini(parser, take_field, take_end, r) != 0)
        return bad(r, "a quote is not closed before the file ends");
    return r->status;
}

static enum status read_csv(struct reader *r, const char *text, size_t n)
{
    struct csv_parser parser;
    if (csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI | CSV_APPEND_NULL) != 0)
        return err_no_memory(r->err, "reading %s", r->path);
    csv_set_realloc_func(&parser, bounded_realloc);
    csv_set_blk_size(&parser, 1 << 16); /* by 128 bytes, a long field would be copied a thousand times */
    if (text_ends_with(r->path, ".tsv")) csv_set_delim(&parser, '\t');
    r->in_header = r->between = true;
    r->places[0] = r->places[1] = -1;
    parse_lines(r, &parser, text, text + n);
    if (!r->status && r->in_header)
        r->status = err_set(r->err, STATUS_USAGE,
                            "%s: is empty: a header with the names of the columns is missing", r->path);
    csv_free(&parser);
    return r->status;
}

/* ---- JSONL ---- */

static enum status read_object(struct reader *r, const json_t *object)
{
    const json_t *values[2] = {NULL, NULL};
    char names[NAMES_SHOWN], number[24];
    if (!json_is_object(object)) return bad(r, "is not a JSON object (" JSON_LINES_RULE ")");
    for (int i = 0; i < 2; i++) {
        if (!r->columns[i]) continue;
        values[i] = json_object_get(object, r->columns[i]);
        if (!values[i]) return no_column(r, i, json_lines_members(object, names, sizeof names));
    }
    r->row.text = json_string_value(values[0]);
    r->row.length = json_string_length(values[0]);
    r->row.label = json_string_value(values[1]);
    if (!r->row.text) return bad(r, "the text is not a JSON string");
    if (json_is_boolean(values[1])) r->row.label = json_is_true(values[1]) ? "true" : "false";
    if (json_is_integer(values[1])) {
        snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(values[1]));
        r->row.label = number;
    }
    if (r->columns[1] && !r->row.label)
        return bad(r, "the label is neither a string, nor a whole number, nor true or false");
    return visit_row(r);
}

static enum status read_jsonl(struct reader *r, const char *text, size_t n)
{
    struct json_lines lines = {.path = r->path, .text = text, .n = n};
    bool more = true;
    while (!r->status && !(r->status = json_lines_next(&lines, &more, r->err)) && more) {
        r->row.line = lines.line;
        r->row.done = lines.at < n ? lines.at : n; /* the last line may have no end */
        read_object(r, lines.object);
    }
    json_lines_close(&lines);
    return r->status;
}

/* By the file's name, else by its first character. */
static bool is_csv(const char *path, const char *text, size_t n)
{
    size_t blank = text_blanks(text, n);
    if (ends_as_csv(path)) return true;
    if (ends_as_jsonl(path)) return false;
    return blank == n || text[blank] != '{';
}

enum status labelled_file_each(const char *path, const char *text_column, const char *label_column,
                               labelled_visitor visit, void *context, struct err *err)
{
    struct reader r = {
        .path = path, .columns = {text_column, label_column}, .visit = visit, .context = context, .err = err};
    struct file_map map;
    enum status status = text_file_refuse_compressed(path, err);
    if (!status) status = file_map_open(path, &map, err);
    if (status) return status;
    size_t mark = utf8_mark((const char *)map.data, map.size), n = map.size - mark;
    const char *text = (const char *)map.data + mark;
    r.row.total = n;
    status = is_csv(path, text, n) ? read_csv(&r, text, n) : read_jsonl(&r, text, n);
    for (int i = 0; i < 2; i++) free(r.fields[i]);
    file_map_close(&map);
    return status;
}
