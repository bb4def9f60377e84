/* See import_scalars.h. */
#include "runs/exchange/import_scalars.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/base/text.h"

enum status import_scalars_read(struct import_scalars *scalars, struct record_file *file, bool survey,
                                enum status (*take)(void *context, struct protobuf record), void *context)
{
    struct import *import = scalars->import;
    const unsigned char *bytes;
    size_t size;
    enum status status = STATUS_OK;
    scalars->survey = survey;
    record_file_rewind(file);
    for (import->line = 1; !status; import->line++) {
        status = record_file_next(file, &bytes, &size, import->err);
        if (status || !bytes) break;
        status = take(context, (struct protobuf){.at = bytes, .end = bytes + size});
    }
    return status;
}

/* ---- values ---- */

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
    **out =
        (struct import_rows){.import = s->import,
                             .table = table,
                             .columns = {table_column(table, "segment"), table_column(table, "step"), value,
                                         measure ? COLUMN(MEASURES, name) : table_column(table, "wall_time")},
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

/* nanoGPT logs percent where the store has a fraction, and -100 until it knows. False: there is no value. */
static bool fit_mfu(const struct import_metric *metric, double *value)
{
    if (metric->most > 1 || metric->least < -1) *value /= 100;
    return !(*value < 0);
}

static enum status stage(struct import_scalars *s, struct import_metric *metric, int64_t step,
                         double wall_time, double value)
{
    char segment[16], number[24], time[40], text[40];
    const struct column_info *column = metric->column;
    enum store_table table = metric->table;
    struct import_rows *rows = NULL;
    if (!column || (column_is_integer(column) && !(fabs(value) < 1e18 && floor(value) == value))) {
        if (!*metric->word && !import_metric_choose_word(&s->import->metrics, metric))
            return err_no_memory(s->import->err, "the names of metrics");
        column = COLUMN(MEASURES, value);
        table = TABLE_MEASURES;
        if (!*metric->word) return STATUS_OK;
    }
    if (column == COLUMN(STEPS, mfu) && !fit_mfu(metric, &value)) return STATUS_OK;
    enum status status = rows_of(s, table, column, &rows);
    if (status) return status;
    note_time(s->import, wall_time);
    if (!s->import->turn || s->import->step != step) s->import->turn++;
    bool again = metric->turn == s->import->turn;
    s->import->step = step;
    s->import->again += again && metric->value != value;
    if (again && table != TABLE_STEPS) return STATUS_OK;
    metric->turn = s->import->turn;
    metric->value = value;
    snprintf(segment, sizeof segment, "%d", s->import->segment);
    snprintf(number, sizeof number, "%" PRId64,
             step - (table == TABLE_STEPS && s->import->steps_done && step > 0));
    text_format_double(wall_time, time, sizeof time);
    text_format_double(value, text, sizeof text);
    const char *last = table == TABLE_MEASURES ? metric->word : isfinite(wall_time) ? time : NULL;
    return import_rows_add(rows, (const char *[]){segment, number, text, last});
}

enum status import_scalar(struct import_scalars *scalars, const char *name, int64_t step, double wall_time,
                          double value)
{
    struct import_metrics *metrics = &scalars->import->metrics;
    struct import_metric *metric = import_metrics_at(metrics, name);
    if (metric && scalars->survey) {
        import_metric_note(metric, value);
        return STATUS_OK;
    }
    if (!metric || (!metric->assigned && !import_metrics_assign(metrics)))
        return err_no_memory(scalars->import->err, "the names of metrics");
    return metric->left_out ? STATUS_OK : stage(scalars, metric, step, wall_time, value);
}

/* ---- the names ---- */

/* "loss is train/loss, train_loss is loss/train and 3 more"; names that do not fit are counted. */
static void list_names(struct import_metric *const *sorted, size_t count, char *names, size_t size)
{
    enum { MORE = 32 };
    int more = 0;
    *names = '\0';
    for (size_t i = 0; i < count; i++) {
        char text[700];
        snprintf(text, sizeof text, "%s is %.500s", import_metric_here(sorted[i]),
                 CLEAN_LINE(sorted[i]->name));
        if (!more && strlen(names) + strlen(text) + MORE < size)
            text_add(names, size, ", ", "%s", text);
        else
            more++;
    }
    if (more) text_add(names, size, " ", "and %d more", more);
}

/* Keeps the names with the run, as events before its first step. */
static enum status stage_names(struct import *import, struct import_metric *const *sorted, size_t count)
{
    struct import_rows rows = {.import = import,
                               .table = TABLE_EVENTS,
                               .columns = {COLUMN(EVENTS, segment), COLUMN(EVENTS, step),
                                           COLUMN(EVENTS, wall_time), COLUMN(EVENTS, level),
                                           COLUMN(EVENTS, text)}};
    char began[40], text[1200];
    enum status status = count ? import_rows_begin(&rows) : STATUS_OK;
    text_format_double(import->began, began, sizeof began);
    for (size_t i = 0; !status && i < count; i++) {
        snprintf(text, sizeof text, "%s is the metric %.1000s of the log", import_metric_here(sorted[i]),
                 CLEAN_LINE(sorted[i]->name));
        status = import_rows_add(&rows,
                                 (const char *[]){"1", "-1", import->began > 0 ? began : NULL, "info", text});
    }
    return status;
}

enum status import_scalars_end(struct import *import, char *names, size_t size)
{
    size_t count;
    struct import_metric **sorted = import_metrics_renamed(&import->metrics, &count);
    if (!sorted) return err_no_memory(import->err, "the names of metrics");
    list_names(sorted, count, names, size);
    if (import->again)
        text_add(import->remark, sizeof import->remark, "; ",
                 "%" PRId64 " value%s came again for the same step: of an evaluation the first counts, else "
                 "the last",
                 import->again, text_plural(import->again));
    return stage_names(import, sorted, count);
}
