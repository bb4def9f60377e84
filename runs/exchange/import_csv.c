/* Reads CSV files, see import.h: our own tables, TensorBoard's scalars and other programs' tables with a
 * step, parsed by libcsv. Each field is bound to the statement as it is parsed, or kept for the row; a record
 * is stored when it ends. The first error ends the reading. A table of another program is read twice
 * (import_named.h). */
#include <csv.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/text.h"
#include "runs/exchange/import_named.h"

enum { CHUNK_BYTES = 1 << 16, FIELD_MAX = 1 << 24, HEADER_MAX = 1024, NAME_MAX_BYTES = 48 };

struct reader {
    struct import *import;
    struct csv_parser parser;
    enum status status; /* the first error */
    bool in_header;
    char *header[HEADER_MAX]; /* in the arena */
    int header_count, field;
    struct arena arena;
    struct import_rows rows; /* a newer anneal's file may have more fields */
    bool own;                /* one of our tables, whose first field is the run */
    bool no_step;            /* the record being read has a step that is none */

    /* of another program's table */
    bool foreign;
    unsigned char separator;
    struct import_named named;
    struct import_number row[HEADER_MAX]; /* its numbers */
    size_t count;
};

/* ---- TensorBoard: the file's name is the metric ---- */

/* "runs/run-7-tag-Val%2FLoss.csv" gives "val_2floss", "x/loss.csv" "loss": the part after TensorBoard's
 * "-tag-". */
static void metric_word(const char *path, char *buf, size_t size)
{
    char name[256];
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    for (const char *tag; (tag = strstr(base, "-tag-"));) base = tag + 5;
    snprintf(name, sizeof name, "%s", base);
    size_t length = strlen(name);
    if (length > 4 && strcasecmp(name + length - 4, ".csv") == 0) name[length - 4] = '\0';
    scalar_word(name, buf, size);
}

/* Whether the column's values are those of another word, of an earlier file; if they are of none yet, they
 * are now of this one. */
static bool is_taken(struct import *import, const struct column_info *column, const char *word)
{
    int i = 0;
    while (i < import->spelled_count && import->spelled[i].column != column) i++;
    if (i < import->spelled_count) return strcmp(import->spelled[i].word, word) != 0;
    if (i == (int)(sizeof import->spelled / sizeof *import->spelled)) return false;
    import->spelled[i].column = column;
    snprintf(import->spelled[i].word, sizeof import->spelled[i].word, "%s", word);
    import->spelled_count++;
    return false;
}

/* Sets the columns of the fields: wall time, step and the metric, then the segment, which is 1. */
static enum status begin_scalars(struct reader *r)
{
    char word[NAME_MAX_BYTES];
    enum store_table table;
    int rank;
    metric_word(r->import->path, word, sizeof word);
    const struct column_info *metric = scalar_column_of(word, &table, &rank);
    if (!metric)
        return err_set(
            r->import->err, STATUS_USAGE,
            "%s: TensorBoard's scalars, but the file's name is not a known metric: \"%s\" "
            "(rename it: loss, lr, grad_norm, tokens_per_sec, step_ms, clip_scale, mfu, epoch, tokens, "
            "val_loss, val_perplexity or eval_ms .csv)",
            r->import->path, word);
    if (is_taken(r->import, metric, word))
        return err_set(r->import->err, STATUS_USAGE,
                       "%s: an earlier file has values of %s under another name (leave one of them out)",
                       r->import->path, metric->name);
    r->rows = (struct import_rows){.import = r->import,
                                   .table = table,
                                   .columns = {table_column(table, "wall_time"), table_column(table, "step"),
                                               metric, table_column(table, "segment")},
                                   .value = metric};
    enum status status = import_set_kind(r->import, IMPORT_TENSORBOARD);
    if (!status) status = import_rows_begin(&r->rows);
    return status ? status : import_rows_field(&r->rows, 3, "1");
}

/* ---- headers ---- */

static bool is_scalars(const struct reader *r)
{
    return r->header_count == 3 && strcasecmp(r->header[0], "Wall time") == 0 &&
           strcasecmp(r->header[1], "Step") == 0 && strcasecmp(r->header[2], "Value") == 0;
}

/* Whether the header is that of a table as this, a newer (more columns) or an older anneal (fewer) writes
 * it. */
static bool is_header_of(struct reader *r, enum store_table table)
{
    const struct column_info *columns[COLUMNS_MAX];
    int all = table_csv_columns(table, columns), same = 0, first = 0;
    while (same < all && same < r->header_count &&
           strcmp(column_csv_name(columns[same]), r->header[same]) == 0)
        same++;
    while (first < all && columns[first]->since == store_tables[table].since) first++;
    if (same < all && (same < first || same < r->header_count)) return false;
    r->rows = (struct import_rows){.import = r->import, .table = table};
    memcpy(r->rows.columns, columns + 1, (size_t)(same - 1) * sizeof *columns);
    return true;
}

static bool has_step(const struct reader *r)
{
    int i = 0;
    while (i < r->header_count && import_named_step_rank(r->header[i]) < 0) i++;
    return i < r->header_count;
}

static enum status read_header(struct reader *r)
{
    if (r->foreign) return STATUS_OK; /* read before */
    if (is_scalars(r)) return begin_scalars(r);
    r->own = true;
    for (enum store_table t = 0; t < TABLE_CSV_COUNT; t++) {
        if (!is_header_of(r, t)) continue;
        enum status status = import_set_kind(r->import, IMPORT_CSV);
        return status ? status : import_rows_begin(&r->rows);
    }
    r->own = false;
    r->foreign = strcmp(r->header[0], "run") != 0 && has_step(r);
    if (r->foreign) return import_set_kind(r->import, IMPORT_NAMED);
    return import_bad(r->import,
                      "is not a known header: it begins with \"%.30s\" (known are the tables "
                      "of `anneal export`, whole, TensorBoard's \"Wall time,Step,Value\", other tables with "
                      "a column step or epoch, and llm.c's main.log)",
                      r->header[0]);
}

/* ---- fields ---- */

static enum status check_run(struct reader *r, const char *text)
{
    struct import *import = r->import;
    if (strlen(text) >= sizeof import->run || !*text)
        return import_bad(import, "the run's id is %s", *text ? "too long" : "missing");
    if (!*import->run) {
        snprintf(import->run, sizeof import->run, "%s", text);
        snprintf(import->run_path, sizeof import->run_path, "%s", import->path);
    }
    if (strcmp(import->run, text) == 0) return STATUS_OK;
    return err_set(import->err, STATUS_USAGE,
                   "%s:%lld: belongs to run %s, but %s to run %s (export and import runs one at a time)",
                   import->path, (long long)import->line, text,
                   strcmp(import->run_path, import->path) == 0 ? "what comes before" : import->run_path,
                   import->run);
}

/* Blanks at the ends of a field belong to it (RFC 4180), but for libcsv. */
static int is_no_space(unsigned char c)
{
    (void)c;
    return 0;
}

/* Whether blanks at the ends of the next field count: those of a text of one of our tables do. */
static bool is_text(const struct reader *r)
{
    int i = r->field - r->own;
    const struct column_info *column = i >= 0 && i < r->rows.count ? r->rows.columns[i] : NULL;
    return !r->in_header && column && column_is_text(column) && !column->words;
}

/* Cuts the blanks off; NULL: nothing is left. */
static char *without_blanks(char *text)
{
    size_t n = strlen(text);
    while (n && (text[n - 1] == ' ' || text[n - 1] == '\t')) n--;
    text[n] = '\0';
    text += strspn(text, " \t");
    return *text ? text : NULL;
}

/* Whether the next field, of this text, is the step of one of TensorBoard's scalars, and no step: event files
 * have these, too, where a program logs before its first step. */
static bool is_no_step(const struct reader *r, const char *text)
{
    int64_t step;
    return !r->own && r->field == 1 && text && text_parse_int(text, &step) &&
           (step < 0 || step > IMPORT_STEP_MAX);
}

static enum status add_name(struct reader *r, const char *text)
{
    if (r->foreign) return STATUS_OK; /* read before */
    if (r->header_count == HEADER_MAX) return import_bad(r->import, "has more fields than %d", HEADER_MAX);
    char *name = arena_strdup(&r->arena, text);
    if (!name) return err_no_memory(r->import->err, "reading %s", r->import->path);
    r->header[r->header_count++] = name;
    return STATUS_OK;
}

/* Keeps the field of another program's table if it is a number. */
static void add_number(struct reader *r, const char *text)
{
    double value;
    if (text && text_parse_double(text, &value))
        r->row[r->count++] = (struct import_number){r->header[r->field], value};
}

static void take_field(void *bytes, size_t n, void *context)
{
    struct reader *r = context;
    const char *text = bytes;
    if (r->status) return;
    bool zero = text && memchr(text, '\0', n);
    if (n && !zero && !is_text(r)) text = without_blanks(bytes);
    if (zero)
        r->status = import_bad(r->import, "holds a zero byte");
    else if (r->in_header)
        r->status = add_name(r, text ? text : "");
    else if (r->field >= r->header_count)
        r->status = import_bad(r->import, "has more fields than %d", r->header_count);
    else if (r->foreign)
        add_number(r, text);
    else if (r->own && r->field == 0)
        r->status = check_run(r, text ? text : "");
    else if (is_no_step(r, text))
        r->no_step = true;
    else if (r->field - r->own < r->rows.count)
        r->status = import_rows_field(&r->rows, r->field - r->own, text);
    r->field++;
}

static void take_end(int c, void *context)
{
    struct reader *r = context;
    (void)c;
    if (r->status) return;
    if (r->in_header)
        r->status = read_header(r);
    else if (r->field != r->header_count)
        r->status = import_bad(r->import, "has %d field%s, but the header has %d", r->field,
                               text_plural(r->field), r->header_count);
    else if (r->no_step)
        r->rows.nan = 0, r->import->left_out++;
    else if (r->foreign)
        r->status = import_named_row(&r->named, r->row, r->count);
    else
        r->status = import_rows_store(&r->rows);
    r->in_header = r->no_step = false;
    r->field = 0;
    r->count = 0;
}

/* ---- the file ---- */

static void *bounded_realloc(void *old, size_t size)
{
    return size > FIELD_MAX ? NULL : realloc(old, size);
}

static enum status parser_error(struct reader *r)
{
    if (csv_error(&r->parser) == CSV_EPARSE)
        return import_bad(r->import, "a quote is where RFC 4180 does not allow it");
    return import_bad(
        r->import,
        "a field is larger than %d MiB, or there is not enough memory (look for a quote that is not closed)",
        FIELD_MAX >> 20);
}

/* Reads line by line, as libcsv reports no line numbers; a long line in pieces. */
static enum status read_file(struct reader *r, FILE *file)
{
    char chunk[CHUNK_BYTES];
    int64_t line = 1;
    char last = '\n';
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, file)) > 0;)
        for (char *piece = chunk, *end = chunk + n, *next; piece < end; piece = next) {
            char *newline = memchr(piece, '\n', (size_t)(end - piece));
            next = newline ? newline + 1 : end;
            if (r->field == 0) r->import->line = line; /* a record begins on this line or has just begun */
            size_t used = csv_parse(&r->parser, piece, (size_t)(next - piece), take_field, take_end, r);
            if (r->status) return r->status;
            if (used != (size_t)(next - piece)) return parser_error(r);
            line += newline != NULL;
            last = next[-1];
        }
    if (ferror(file))
        return err_set(r->import->err, STATUS_IO, "%s: cannot read: %s", r->import->path, strerror(errno));
    bool ends = last == '\n' || last == '\r';
    if (r->foreign && !ends && (r->field + 1 < r->header_count || !last)) { /* a power cut leaves zeros */
        import_half_line(r->import);
        return r->status;
    }
    if (csv_fini(&r->parser, take_field, take_end, r) != 0)
        return import_bad(r->import, "a quote is not closed before the file ends");
    return r->status;
}

/* Reads the file from here on. */
static enum status read_once(struct reader *r, FILE *file)
{
    if (csv_init(&r->parser, CSV_STRICT | CSV_STRICT_FINI | CSV_EMPTY_IS_NULL | CSV_APPEND_NULL) != 0)
        return err_no_memory(r->import->err, "reading %s", r->import->path);
    csv_set_delim(&r->parser, r->separator);
    csv_set_realloc_func(&r->parser, bounded_realloc);
    csv_set_space_func(&r->parser, is_no_space);
    csv_set_blk_size(&r->parser,
                     CHUNK_BYTES); /* by 128 bytes, a long field would be copied a thousand times */
    r->in_header = true;
    r->field = 0;
    enum status status = read_file(r, file);
    csv_free(&r->parser);
    return status || !r->in_header ? status : import_bad(r->import, "is empty: a header is missing");
}

static enum status go_to(struct import *import, FILE *file, long place)
{
    if (fseek(file, place, SEEK_SET) == 0) return STATUS_OK;
    return err_set(import->err, STATUS_IO, "%s: cannot read: %s", import->path, strerror(errno));
}

/* The sign between columns. Where the header has no comma, it is the semicolon or the tab that is there. */
static unsigned char next_separator(FILE *file)
{
    char line[CHUNK_BYTES];
    if (!fgets(line, sizeof line, file) || strchr(line, ',')) return CSV_COMMA;
    return strchr(line, ';') ? ';' : strchr(line, '\t') ? '\t' : CSV_COMMA;
}

enum status import_read_csv(struct import *import, FILE *file)
{
    long begin = ftell(file);
    struct reader *r = calloc(1, sizeof *r);
    if (!r) return err_no_memory(import->err, "reading %s", import->path);
    r->import = r->named.scalars.import = import;
    r->named.scalars.survey = true;
    r->separator = next_separator(file);
    enum status status = go_to(import, file, begin);
    if (!status) status = read_once(r, file);
    if (!status && r->foreign) {
        status = import_named_begin(&r->named);
        if (!status) status = go_to(import, file, begin);
        if (!status) status = read_once(r, file);
    }
    arena_release(&r->arena);
    free(r);
    return status;
}
