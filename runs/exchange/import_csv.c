/* CSV files on their way in, see import.h: our own tables and TensorBoard's scalars, parsed by libcsv.
 *
 * libcsv tells no line numbers, so it is fed line by line. A field goes into its statement as it comes; a
 * record is stored when it ends. The first thing wrong ends the reading. */
#include <csv.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/text.h"
#include "runs/exchange/import_stage.h"

enum { CHUNK_BYTES = 1 << 16, FIELD_MAX = 1 << 24, HEADER_MAX = 64, NAME_MAX_BYTES = 48 };

struct reader {
    struct import *import;
    struct csv_parser parser;
    enum status status; /* of the first thing wrong */
    bool in_header, record_ended;
    char header[HEADER_MAX][NAME_MAX_BYTES];
    int header_count, field;
    /* a table of our own */
    const struct table_info *table; /* NULL: TensorBoard's scalars */
    const struct column_info *columns[COLUMNS_MAX];
    int count;            /* of columns that we know; a newer anneal's file may have more */
    int keys;             /* columns 1 to keys tell the rows of a run apart */
    sqlite3_stmt *insert; /* owned */
    int nan;
    /* TensorBoard's */
    enum store_table metric_table;
    const struct column_info *metric;
    double wall_time, value;
    int64_t step;
};

/* ---- TensorBoard: a file's name says the metric ---- */

/* What other programs call our metrics, in the spelling of metric_word. */
static const char *const aliases[][2] = {
    {"train_loss", "loss"},
    {"training_loss", "loss"},
    {"loss_train", "loss"},
    {"learning_rate", "lr"},
    {"train_lr", "lr"},
    {"train_learning_rate", "lr"},
    {"gradient_norm", "grad_norm"},
    {"train_grad_norm", "grad_norm"},
    {"train_epoch", "epoch"},
    {"tokens_per_second", "tokens_per_sec"},
    {"throughput", "tokens_per_sec"},
    {"eval_loss", "val_loss"},
    {"validation_loss", "val_loss"},
    {"loss_val", "val_loss"},
    {"perplexity", "val_perplexity"},
    {"eval_perplexity", "val_perplexity"},
    {"validation_perplexity", "val_perplexity"},
};

/* "runs/run-7-tag-Val%2FLoss.csv" gives "val_2floss", "x/loss.csv" "loss": what follows TensorBoard's
 * "-tag-", lower case, with '_' for all that is neither letter nor digit. */
static void metric_word(const char *path, char *buf, size_t size)
{
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    for (const char *tag; (tag = strstr(base, "-tag-"));) base = tag + 5;
    size_t length = strlen(base), n = 0;
    if (length > 4 && strcasecmp(base + length - 4, ".csv") == 0) length -= 4;
    for (size_t i = 0; i < length && n + 1 < size; i++)
        if (isalnum((unsigned char)base[i]))
            buf[n++] = (char)tolower((unsigned char)base[i]);
        else if (n && buf[n - 1] != '_')
            buf[n++] = '_';
    while (n && buf[n - 1] == '_') n--;
    buf[n] = '\0';
}

static enum status find_metric(struct reader *r)
{
    char word[NAME_MAX_BYTES];
    metric_word(r->import->path, word, sizeof word);
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strcmp(word, aliases[i][0]) == 0) snprintf(word, sizeof word, "%s", aliases[i][1]);
    for (r->metric_table = TABLE_STEPS; r->metric_table <= TABLE_EVALS; r->metric_table++) {
        r->metric = table_column(r->metric_table, word);
        if (r->metric && r->metric->csv && r->metric->field) break;
    }
    static const char *const places[] = {"step", "wall_time"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (strcmp(word, places[i]) == 0) r->metric = NULL;
    if (r->metric) return STATUS_OK;
    return err_set(
        r->import->err, STATUS_USAGE,
        "%s: TensorBoard's scalars, but the file's name names no metric that is known: \"%s\" "
        "(rename it: loss, lr, grad_norm, tokens_per_sec, step_ms, clip_scale, mfu, epoch, tokens, "
        "val_loss, val_perplexity or eval_ms .csv)",
        r->import->path, word);
}

/* ---- headers ---- */

static enum status set_kind(struct reader *r, enum import_kind kind)
{
    if (r->import->kind != IMPORT_NOTHING && r->import->kind != kind)
        return err_set(r->import->err, STATUS_USAGE,
                       "%s: is of another kind than the file before (import files of one kind at a time)",
                       r->import->path);
    r->import->kind = kind;
    return STATUS_OK;
}

static bool is_scalars(const struct reader *r)
{
    static const char *const names[] = {"Wall time", "Step", "Value"};
    if (r->header_count != 3) return false;
    for (int i = 0; i < 3; i++)
        if (strcasecmp(r->header[i], names[i]) != 0) return false;
    return true;
}

/* The statement that stores a record: parameter i is the table's column i, the last one is `nan`. */
static enum status prepare_insert(struct reader *r)
{
    char sql[1024];
    int n = snprintf(sql, sizeof sql, "insert or ignore into temp.stage_%s(nan", r->table->name);
    for (int i = 1; i < r->count; i++)
        n += snprintf(sql + n, sizeof sql - (size_t)n, ", %s", r->columns[i]->name);
    n += snprintf(sql + n, sizeof sql - (size_t)n, ") values(?%d", COLUMNS_MAX);
    for (int i = 1; i < r->count; i++) n += snprintf(sql + n, sizeof sql - (size_t)n, ", ?%d", i);
    snprintf(sql + n, sizeof sql - (size_t)n, ")");
    if (sqlite3_prepare_v2(r->import->store->db, sql, -1, &r->insert, NULL) == SQLITE_OK) return STATUS_OK;
    return store_error(r->import->store, r->import->err);
}

/* Whether the header is that of a table, as this anneal writes it, a newer one (with more columns), or an
 * older one, which knew fewer. */
static bool is_header_of(struct reader *r, enum store_table table)
{
    int all = table_csv_columns(table, r->columns), same = 0, first = 0;
    while (same < all && same < r->header_count &&
           strcmp(column_csv_name(r->columns[same]), r->header[same]) == 0)
        same++;
    while (first < all && r->columns[first]->since == 1) first++;
    r->count = same;
    return same == all || (same >= first && same == r->header_count);
}

static int count_keys(const struct table_info *table)
{
    int keys = table->keyed;
    for (const char *c = table->order; table->keyed && *c; c++) keys += *c == ',';
    return keys;
}

static enum status read_header(struct reader *r)
{
    if (is_scalars(r)) {
        enum status status = set_kind(r, IMPORT_TENSORBOARD);
        return status ? status : find_metric(r);
    }
    for (enum store_table t = 0; t < TABLE_COUNT && store_tables[t].csv; t++) {
        if (!is_header_of(r, t)) continue;
        r->table = &store_tables[t];
        r->keys = count_keys(r->table);
        enum status status = set_kind(r, IMPORT_CSV);
        if (status || t == TABLE_RUNS) return status;
        status = import_stage(r->import, t);
        return status ? status : prepare_insert(r);
    }
    return import_bad(r->import,
                      "is no header that is known: it begins with \"%.30s\" (known are the tables "
                      "of `anneal export`, whole, TensorBoard's \"Wall time,Step,Value\", and "
                      "llm.c's main.log)",
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
                   "%s:%lld: is of run %s, but %s is of run %s (export and import runs one at a time)",
                   import->path, (long long)import->line, text,
                   strcmp(import->run_path, import->path) == 0 ? "what comes before" : import->run_path,
                   import->run);
}

static enum status check_integer(struct reader *r, const struct column_info *column, int64_t value)
{
    bool step = strcmp(column->name, "step") == 0, segment = strcmp(column->name, "segment") == 0;
    if (step && (value < 0 || value > IMPORT_STEP_MAX))
        return import_bad(r->import, "step: %lld is none", (long long)value);
    if (segment && (value < 1 || value > IMPORT_SEGMENT_MAX))
        return import_bad(r->import, "segment: %lld is not in 1 to %lld", (long long)value,
                          (long long)IMPORT_SEGMENT_MAX);
    return STATUS_OK;
}

static enum status check_word(struct reader *r, const struct column_info *column, const char *text)
{
    char all[160] = "";
    int word;
    if (!column->words || word_parse(column->words, text, &word)) return STATUS_OK;
    for (int i = 0, n = 0; column->words[i]; i++)
        n += snprintf(all + n, sizeof all - (size_t)n, "%s%s", i ? ", " : "", column->words[i]);
    return import_bad(r->import, "%s: \"%.40s\" is none of %s", column->name, text, all);
}

/* `text` is NULL for an absent value. */
static enum status bind_field(struct reader *r, int i, const char *text, size_t n)
{
    const struct column_info *column = r->columns[i];
    int64_t integer;
    double real;
    if (!text) {
        if (i <= r->keys) return import_bad(r->import, "%s: is missing", column->name);
        sqlite3_bind_null(r->insert, i);
        return STATUS_OK;
    }
    if (column_is_integer(column)) {
        if (!text_parse_int(text, &integer))
            return import_bad(r->import, "%s: is no whole number: \"%.40s\"", column->name, text);
        sqlite3_bind_int64(r->insert, i, integer);
        return check_integer(r, column, integer);
    }
    if (column_is_real(column)) {
        if (!text_parse_double(text, &real))
            return import_bad(r->import, "%s: is no number: \"%.40s\"", column->name, text);
        if (isnan(real) && i <= r->keys)
            return import_bad(r->import, "%s: is no number: \"%.40s\"", column->name, text);
        store_bind_double(r->insert, i, real);
        if (isnan(real)) r->nan |= column->null;
        return STATUS_OK;
    }
    sqlite3_bind_text(r->insert, i, text, (int)n, SQLITE_TRANSIENT);
    return check_word(r, column, text);
}

/* Of the table `runs`: what a history does not say. */
static enum status keep_identity(struct reader *r, int i, const char *text)
{
    struct import *import = r->import;
    const char *name = r->columns[i]->name;
    if (!text) return STATUS_OK;
    if (strcmp(name, "name") == 0) snprintf(import->name, sizeof import->name, "%s", text);
    if (strcmp(name, "device") == 0) snprintf(import->device, sizeof import->device, "%s", text);
    if (strcmp(name, "precision") == 0) snprintf(import->precision, sizeof import->precision, "%s", text);
    if (strcmp(name, "parameters") == 0 &&
        (!text_parse_int(text, &import->parameters) || import->parameters < 0))
        return import_bad(import, "parameters: is no count: \"%.40s\"", text);
    return STATUS_OK;
}

static enum status take_scalar(struct reader *r, const char *text)
{
    static const char *const names[] = {"Wall time", "Step", "Value"};
    double number = NAN;
    if (text && !text_parse_double(text, &number))
        return import_bad(r->import, "%s: is no number: \"%.40s\"", names[r->field], text);
    if (!text && r->field != 0) return import_bad(r->import, "%s: is missing", names[r->field]);
    if (r->field == 1 && !(number >= 0 && number <= (double)IMPORT_STEP_MAX && floor(number) == number))
        return import_bad(r->import, "Step: is no whole number from 0 up: \"%.40s\"", text);
    if (r->field == 2 && column_is_integer(r->metric) &&
        !(fabs(number) <= (double)IMPORT_STEP_MAX * 1000 && floor(number) == number))
        return import_bad(r->import, "Value: is no whole number: \"%.40s\"", text);
    if (r->field == 0) r->wall_time = number;
    if (r->field == 1) r->step = (int64_t)number;
    if (r->field == 2) r->value = number;
    return STATUS_OK;
}

static void take_field(void *bytes, size_t n, void *context)
{
    struct reader *r = context;
    const char *text = bytes;
    if (r->status) return;
    if (text && memchr(text, '\0', n))
        r->status = import_bad(r->import, "holds a zero byte");
    else if (r->in_header && r->header_count < HEADER_MAX)
        snprintf(r->header[r->header_count++], NAME_MAX_BYTES, "%s", text ? text : "");
    else if (r->in_header || r->field >= r->header_count)
        r->status = import_bad(r->import, "has more fields than %d", r->header_count);
    else if (!r->table)
        r->status = take_scalar(r, text);
    else if (r->field == 0)
        r->status = check_run(r, text ? text : "");
    else if (r->field < r->count)
        r->status = r->insert ? bind_field(r, r->field, text, n) : keep_identity(r, r->field, text);
    r->field++;
}

/* ---- records ---- */

static enum status store_record(struct reader *r)
{
    struct import *import = r->import;
    if (r->field != r->header_count)
        return import_bad(import, "has %d fields, the header %d", r->field, r->header_count);
    if (!r->table)
        return import_value(import, r->metric_table, 1, r->step, r->wall_time, r->metric, r->value);
    if (!r->insert) return STATUS_OK;
    sqlite3_bind_int(r->insert, COLUMNS_MAX, r->nan);
    enum status status = store_run(import->store, r->insert, import->err);
    if (!status && sqlite3_changes(import->store->db) == 0)
        return import_bad(import, "is a second record of the same %s",
                          r->keys == 2 ? "segment and step" : "place");
    return status;
}

static void take_end(int c, void *context)
{
    struct reader *r = context;
    (void)c;
    if (r->status) return;
    r->status = r->in_header ? read_header(r) : store_record(r);
    r->in_header = false;
    r->record_ended = true;
    r->field = 0;
    r->nan = 0;
}

/* ---- the file ---- */

static void *bounded_realloc(void *old, size_t size)
{
    return size > FIELD_MAX ? NULL : realloc(old, size);
}

static enum status parser_error(struct reader *r)
{
    if (csv_error(&r->parser) == CSV_EPARSE)
        return import_bad(r->import, "a quote is not where RFC 4180 has it");
    return import_bad(r->import, "a field is larger than %d MiB, or memory is short (is a quote not closed?)",
                      FIELD_MAX >> 20);
}

static bool is_blank(const char *piece, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (piece[i] != '\r' && piece[i] != '\n') return false;
    return true;
}

/* A line or a piece of a long one; *between says whether a record may begin here, *line counts. */
static enum status feed(struct reader *r, const char *piece, size_t n, int64_t *line, bool *between)
{
    if (*between) r->import->line = *line;
    r->record_ended = false;
    size_t used = csv_parse(&r->parser, piece, n, take_field, take_end, r);
    if (r->status) return r->status;
    if (used != n) return parser_error(r);
    *between = r->record_ended || (*between && is_blank(piece, n));
    *line += piece[n - 1] == '\n';
    return STATUS_OK;
}

static enum status read_file(struct reader *r, FILE *file)
{
    char chunk[CHUNK_BYTES];
    int64_t line = 1;
    bool between = true;
    enum status status = STATUS_OK;
    for (size_t n; !status && (n = fread(chunk, 1, sizeof chunk, file)) > 0;)
        for (char *piece = chunk, *end = chunk + n; !status && piece < end;) {
            char *newline = memchr(piece, '\n', (size_t)(end - piece));
            char *next = newline ? newline + 1 : end;
            status = feed(r, piece, (size_t)(next - piece), &line, &between);
            piece = next;
        }
    if (!status && ferror(file))
        return err_set(r->import->err, STATUS_IO, "%s: cannot read: %s", r->import->path, strerror(errno));
    if (!status && csv_fini(&r->parser, take_field, take_end, r) != 0)
        return import_bad(r->import, "its quote is not closed before the file ends");
    return status ? status : r->status;
}

enum status import_read_csv(struct import *import, FILE *file)
{
    struct reader *r = calloc(1, sizeof *r);
    if (!r || csv_init(&r->parser, CSV_STRICT | CSV_STRICT_FINI | CSV_EMPTY_IS_NULL | CSV_APPEND_NULL) != 0) {
        free(r);
        return err_set(import->err, STATUS_NO_MEMORY, "%s: not enough memory", import->path);
    }
    csv_set_realloc_func(&r->parser, bounded_realloc);
    csv_set_blk_size(&r->parser,
                     CHUNK_BYTES); /* by 128 bytes, a long field would be copied a thousand times */
    r->import = import;
    r->in_header = true;
    enum status status = read_file(r, file);
    if (!status && r->in_header) status = import_bad(import, "holds nothing, not even a header");
    sqlite3_finalize(r->insert);
    csv_free(&r->parser);
    free(r);
    return status;
}
