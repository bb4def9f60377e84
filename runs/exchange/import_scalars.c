/* See import_scalars.h. */
#include "runs/exchange/import_scalars.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "core/base/arena.h"
#include "core/base/text.h"

/* A metric and its names in other programs, in the spelling of scalar_word. */
static const char *const aliases[][6] = {
    {"loss", "train_loss", "training_loss", "loss_train", "loss_training"},
    {"lr", "learning_rate", "train_lr", "train_learning_rate"},
    {"grad_norm", "gradient_norm", "train_grad_norm"},
    {"epoch", "train_epoch"},
    {"tokens_per_sec", "tokens_per_second", "throughput"},
    {"val_loss", "eval_loss", "validation_loss", "loss_val", "loss_eval", "loss_validation"},
    {"perplexity", "ppl", "train_perplexity"},
    {"val_perplexity", "eval_perplexity", "validation_perplexity"},
};

char *scalar_word(const char *name, char *buf, size_t size)
{
    size_t n = 0;
    for (; *name && n + 1 < size; name++) {
        unsigned char c = (unsigned char)*name;
        if (isalnum(c) || c >= 0x80)
            buf[n++] = (char)tolower(c);
        else if (n && buf[n - 1] != '_')
            buf[n++] = '_';
    }
    n -= utf8_incomplete_tail(buf, n);
    while (n && buf[n - 1] == '_') n--;
    buf[n] = '\0';
    return buf;
}

/* Whether the column's values are those of another word; if they are of none yet, they are now of this one.
 */
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

const struct column_info *scalar_column(struct import *import, const char *word, enum store_table *table,
                                        bool *taken)
{
    const char *name = word;
    *taken = false;
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        for (int k = 1; k < 6 && aliases[i][k]; k++)
            if (strcmp(word, aliases[i][k]) == 0) name = aliases[i][0];
    const struct column_info *metric = table_column(*table = TABLE_STEPS, name);
    if (!metric) metric = table_column(*table = TABLE_EVALS, name);
    bool known =
        metric && metric->csv && metric->field && strcmp(name, "step") != 0 && strcmp(name, "wall_time") != 0;
    if (known) *taken = is_taken(import, metric, word);
    return known ? metric : NULL;
}

/* Finds or prepares the rows of a column. */
static enum status rows_of(struct import_scalars *s, enum store_table table, const struct column_info *value,
                           struct import_rows **out)
{
    for (int i = 0; i < s->count; i++)
        if (s->rows[i].value == value) {
            *out = &s->rows[i];
            return STATUS_OK;
        }
    if (s->count == (int)(sizeof s->rows / sizeof *s->rows))
        return import_bad(s->import, "has more metrics than are known");
    bool measure = table == TABLE_MEASURES;
    *out = &s->rows[s->count];
    **out = (struct import_rows){
        .import = s->import,
        .table = table,
        .columns = {table_column(table, "segment"), table_column(table, "step"), value,
                    measure ? &store_columns[COLUMN_MEASURES_name] : table_column(table, "wall_time")},
        .count = 4,
        .value = value};
    enum status status = import_rows_begin(*out);
    if (!status) s->count++;
    return status;
}

/* Extends the time of the log to that of a value, unless it is no time. */
static void note_time(struct import *import, double wall_time)
{
    if (!(wall_time > 0 && wall_time <= IMPORT_TIME_MAX)) return;
    if (!(import->began > 0) || wall_time < import->began) import->began = wall_time;
    if (wall_time > import->ended) import->ended = wall_time;
}

/* The metric of a name, with a word of its own. NULL: memory is short. */
static struct import_name *metric_of(struct import *import, const char *name)
{
    char clean[4 * SCALAR_NAME_MAX], word[SCALAR_NAME_MAX];
    uint64_t hash = XXH64(name, strlen(name), 0);
    struct import_name *found = import_names_find(&import->metrics, hash);
    if (found) return found;
    clean_line(clean, sizeof clean, name);
    return import_names_add(&import->metrics, hash, scalar_word(clean, word, sizeof word), SCALAR_NAME_MAX);
}

enum status import_scalar(struct import_scalars *scalars, const char *name, int64_t step, double wall_time,
                          double value)
{
    char number[24], time[40], text[40];
    struct import_rows *rows = NULL;
    enum store_table table;
    struct import_name *metric = metric_of(scalars->import, name);
    if (!metric) return err_no_memory(scalars->import->err, "the names of metrics");
    bool taken, whole = fabs(value) < 1e18 && floor(value) == value;
    const struct column_info *column = scalar_column(scalars->import, metric->word, &table, &taken);
    if (taken && strcmp(metric->word, column->name) == 0)
        import_names_change(&scalars->import->metrics, metric, column->name, SCALAR_NAME_MAX);
    if (!column || taken || (column_is_integer(column) && !whole)) {
        column = &store_columns[COLUMN_MEASURES_value];
        table = TABLE_MEASURES;
    }
    enum status status = rows_of(scalars, table, column, &rows);
    if (status || !*metric->word) return status;
    note_time(scalars->import, wall_time);
    snprintf(number, sizeof number, "%" PRId64, step);
    text_format_double(wall_time, time, sizeof time);
    text_format_double(value, text, sizeof text);
    const char *last = table == TABLE_MEASURES ? metric->word : isfinite(wall_time) ? time : NULL;
    return import_rows_add(rows, (const char *[]){"1", number, text, last});
}
