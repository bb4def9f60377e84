/* See export.h. Each SELECT is made from the table's columns, so the header always matches the rows. */
#include "runs/exchange/export.h"

#include <csv.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "runs/annotation.h"
#include "runs/exchange/export_events.h"
#include "runs/run.h"
#include "runs/table.h"

/* ---- records: one thread uses the file, so writes skip its lock, which costs more than a field ---- */

struct csv_out {
    FILE *file;     /* borrowed */
    bool in_record; /* a field has been written in this record */
    bool terminal;  /* texts must be clean */
    int error;      /* errno of the first record that could not be written; 0: none */
};

static struct csv_out csv_out_of(const struct file_out *file)
{
    return (struct csv_out){.file = file->stream, .terminal = isatty(fileno(file->stream))};
}

static bool needs_quotes(const char *text, size_t n)
{
    if (n == 0 || text[0] == ' ' || text[0] == '\t' || text[n - 1] == ' ' || text[n - 1] == '\t') return true;
    for (size_t i = 0; i < n; i++)
        if (text[i] == ',' || text[i] == '"' || text[i] == '\n' || text[i] == '\r') return true;
    return false;
}

/* NULL: an absent value. */
static void csv_text(struct csv_out *out, const char *text)
{
    struct arena clean = {0};
    if (text && out->terminal) text = clean_block_new(&clean, text);
    size_t n = text ? strlen(text) : 0;
    if (out->in_record) putc_unlocked(',', out->file);
    out->in_record = true;
    if (text && needs_quotes(text, n))
        csv_fwrite(out->file, text, n);
    else if (text)
        fwrite_unlocked(text, 1, n, out->file);
    arena_release(&clean);
}

static void csv_int(struct csv_out *out, int64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRId64, value);
    csv_text(out, digits);
}

static void csv_double(struct csv_out *out, double value)
{
    char digits[40];
    csv_text(out, text_format_double(value, digits, sizeof digits));
}

static void csv_end_record(struct csv_out *out)
{
    fwrite_unlocked("\r\n", 1, 2, out->file);
    out->in_record = false;
    if (!out->error && ferror(out->file)) out->error = errno ? errno : EIO;
}

static void write_header(struct csv_out *csv, const char *const *names, int count)
{
    for (int i = 0; i < count; i++) csv_text(csv, names[i]);
    csv_end_record(csv);
}

/* Writes column i of the row; `nan`: NULL means NaN. */
static void write_field(struct csv_out *csv, const struct column_info *column, sqlite3_stmt *row, int i,
                        bool nan)
{
    bool absent = sqlite3_column_type(row, i) == SQLITE_NULL;
    if (absent && !(column_is_real(column) && nan))
        csv_text(csv, NULL);
    else if (column_is_real(column))
        csv_double(csv, store_column_double(row, i));
    else if (column_is_integer(column))
        csv_int(csv, sqlite3_column_int64(row, i));
    else
        csv_text(csv, (const char *)sqlite3_column_text(row, i));
}

/* ---- tables ---- */

/* "select run_id, segment, …, nan from steps where run_id = ?1 order by …": the order is that of the table's
 * key, so nothing is sorted. */
static enum status write_run(struct store *store, const char *run_id, enum store_table which,
                             struct csv_out *csv, struct err *err)
{
    struct run_info info;
    const struct table_info *table = &store_tables[which];
    const struct column_info *columns[COLUMNS_MAX];
    char names[700] = "", sql[1024];
    sqlite3_stmt *select;
    int count = table_csv_columns(which, columns);
    for (int i = 0; i < count; i++) text_add(names, sizeof names, ", ", "%s", columns[i]->name);
    snprintf(sql, sizeof sql, "select %s, %s from %s where %s = ?1 order by %s, %s", names,
             table_column(which, "nan") ? "nan" : "0", table->name, columns[0]->name, columns[0]->name,
             table->order);
    enum status status = run_get(store, run_id, &info, err);
    if (!status) status = store_query(store, &select, err, sql, "s", run_id);
    if (status) return status;
    /* stop at a write error, such as a closed pipe or a full disk */
    while (!csv->error && store_next(store, select, &status, err)) {
        int nan = sqlite3_column_int(select, count);
        for (int i = 0; i < count; i++)
            if (columns[i] == COLUMN(RUNS, status))
                csv_text(csv, status_words[info.status]); /* includes whether the run has crashed */
            else
                write_field(csv, columns[i], select, i, nan & columns[i]->null);
        csv_end_record(csv);
    }
    sqlite3_reset(select);
    return status;
}

enum status export_csv(struct store *store, const char *const *run_ids, size_t run_count,
                       enum store_table table, const char *path, struct err *err)
{
    const struct column_info *columns[COLUMNS_MAX];
    const char *names[COLUMNS_MAX];
    struct file_out file;
    enum status status = file_out_replace(&file, path, "run,", err);
    if (status) return status;
    struct csv_out csv = csv_out_of(&file);
    int count = table_csv_columns(table, columns);
    for (int i = 0; i < count; i++) names[i] = column_csv_name(columns[i]);
    write_header(&csv, names, count);
    for (size_t i = 0; !status && !csv.error && i < run_count; i++)
        status = write_run(store, run_ids[i], table, &csv, err);
    return file_out_close(&file, status, csv.error, err);
}

/* ---- metrics ---- */

/* A column of steps or evals; or a measure, whose rows in `measures` have its name. */
struct metric_source {
    const char *name;
    enum store_table table;
    const struct column_info *value;
};

struct metric_list {
    struct metric_source *of;
    size_t count;
};

static enum status add_metric(struct metric_list *list, struct arena *arena, struct metric_source metric,
                              struct err *err)
{
    struct metric_source *added = arena_grow(arena, &list->of, list->count, sizeof *added);
    if (!added || !metric.name) return err_no_memory(err, "a list of metrics");
    *added = metric;
    list->count++;
    return STATUS_OK;
}

/* Whether a column is a metric: no key or time, and `tokens` only of one table. */
static bool is_metric(enum store_table table, const struct column_info *column)
{
    return column->csv && column->field && strcmp(column->name, "step") != 0 &&
           strcmp(column->name, "wall_time") != 0 &&
           (table == TABLE_STEPS || strcmp(column->name, "tokens") != 0);
}

enum { CHOSEN_NAME_MAX = 256 };

/* Whether `name` is among `names`, as in struct metric_choice. */
static bool is_chosen(const char *names, const char *name)
{
    char chosen[CHOSEN_NAME_MAX];
    for (const char *rest = names; rest && text_next_name(&rest, chosen, sizeof chosen);)
        if (strcmp(chosen, name) == 0) return true;
    return !names;
}

/* The metrics that the run may have: columns, then measures by name. */
static enum status list_metrics(struct store *store, const char *run_id, struct metric_choice choice,
                                struct arena *arena, struct metric_list *out, struct err *err)
{
    enum status status = STATUS_OK;
    sqlite3_stmt *select;
    for (int c = FIRST_STEPS; !status && c < END_EVALS; c++) {
        enum store_table table = c < END_STEPS ? TABLE_STEPS : TABLE_EVALS;
        const struct column_info *column = &store_columns[c];
        if ((table == TABLE_STEPS ? choice.steps : choice.evals) && is_metric(table, column))
            status = add_metric(out, arena, (struct metric_source){column->name, table, column}, err);
    }
    if (status || !choice.evals) return status;
    status = store_query(store, &select, err,
                         "select distinct name from measures where run_id = ?1 order by name", "s", run_id);
    while (store_next(store, select, &status, err)) {
        struct metric_source measure = {store_column_copy(select, 0, arena), TABLE_MEASURES,
                                        COLUMN(MEASURES, value)};
        status = add_metric(out, arena, measure, err);
    }
    return status;
}

enum { STEP, WALL_TIME, WALL_TIME_NAN, VALUE, VALUE_NAN };

/* Selects the run's values of a metric; *row: there is a first one. Measures have the time of their
 * evaluation, or of the step: an import may lack evaluations. */
static enum status select_metric(struct store *store, const char *run_id, const struct metric_source *metric,
                                 sqlite3_stmt **out, bool *row, struct err *err)
{
    char sql[TABLE_HISTORY_MAX + 900], time[500];
    const struct column_info *column = metric->value;
    bool measure = metric->table == TABLE_MEASURES;
    if (measure)
        snprintf(
            time, sizeof time,
            "coalesce((select wall_time from evals e where e.run_id = ?1 and e.segment = t.segment and"
            " e.step = t.step), (select wall_time from steps s where s.run_id = ?1 and"
            " s.segment = t.segment and s.step in (t.step, t.step - 1) order by s.step desc limit 1)), 0");
    else
        snprintf(time, sizeof time, "wall_time, nan & %d", table_column(metric->table, "wall_time")->null);
    snprintf(
        sql, sizeof sql,
        "select step, %s, %s, nan & %d %s and (%s is not null or nan & %d) %s order by t.segment, t.step",
        time, column->name, column->null, table_history(metric->table), column->name, column->null,
        measure ? "and t.name = ?2" : "");
    enum status status = measure ? store_query(store, out, err, sql, "ss", run_id, metric->name)
                                 : store_query(store, out, err, sql, "s", run_id);
    *row = store_next(store, *out, &status, err);
    return status;
}

/* Writes the rows of select_metric, which has stepped to the first. With `run` as records of the long table,
 * else as TensorBoard's. */
static enum status write_metric(struct store *store, sqlite3_stmt *select, const struct metric_source *metric,
                                const char *run, struct csv_out *csv, struct err *err)
{
    static const struct column_info real = {.sql = "real"};
    enum status status = STATUS_OK;
    for (bool row = true; row && !csv->error; row = store_next(store, select, &status, err)) {
        if (run) csv_text(csv, run);
        if (run) csv_int(csv, sqlite3_column_int64(select, STEP));
        write_field(csv, &real, select, WALL_TIME, sqlite3_column_int(select, WALL_TIME_NAN));
        if (run)
            csv_text(csv, metric->name);
        else
            csv_int(csv, sqlite3_column_int64(select, STEP));
        write_field(csv, metric->value, select, VALUE, sqlite3_column_int(select, VALUE_NAN));
        csv_end_record(csv);
    }
    sqlite3_reset(select);
    return status;
}

/* STATUS_NOT_FOUND if none of the runs has recorded a value under this name; suggests the nearest name. */
static enum status check_recorded(struct store *store, const char *const *run_ids, size_t run_count,
                                  struct metric_choice choice, const char *name, struct err *err)
{
    struct arena arena = {0};
    struct metric_list metrics = {0};
    bool found = false;
    enum status status = STATUS_OK;
    for (size_t i = 0, m = 0; !status && !found && i < run_count; i++) {
        status = list_metrics(store, run_ids[i], choice, &arena, &metrics, err);
        for (sqlite3_stmt *select; !status && !found && m < metrics.count; m++) {
            if (strcmp(metrics.of[m].name, name) != 0) continue;
            status = select_metric(store, run_ids[i], &metrics.of[m], &select, &found, err);
            sqlite3_reset(select);
        }
    }
    const char **names = arena_alloc_array(&arena, metrics.count + 1, sizeof *names), *nearest;
    if (!status && !names) status = err_no_memory(err, "a list of metrics");
    if (!status && !found) {
        for (size_t m = 0; m < metrics.count; m++) names[m] = metrics.of[m].name;
        nearest = text_nearest(name, names, metrics.count);
        if (nearest && strcmp(nearest, name) == 0) nearest = NULL;
        status = err_set(err, STATUS_NOT_FOUND, "%.80s: no value is recorded under this name%s", name,
                         DID_YOU_MEAN(nearest));
    }
    arena_release(&arena);
    return status;
}

/* Writes the metrics of a run to the long table. */
static enum status write_long(struct store *store, const char *run_id, struct metric_choice choice,
                              struct csv_out *csv, struct err *err)
{
    struct arena arena = {0};
    struct metric_list metrics = {0};
    enum status status = run_exists(store, run_id, err);
    if (!status) status = list_metrics(store, run_id, choice, &arena, &metrics, err);
    for (size_t m = 0; !status && !csv->error && m < metrics.count; m++) {
        sqlite3_stmt *select;
        bool row = false;
        if (!is_chosen(choice.names, metrics.of[m].name)) continue;
        status = select_metric(store, run_id, &metrics.of[m], &select, &row, err);
        if (!status && row) status = write_metric(store, select, &metrics.of[m], run_id, csv, err);
    }
    arena_release(&arena);
    return status;
}

enum status export_long(struct store *store, const char *const *run_ids, size_t run_count,
                        struct metric_choice choice, const char *path, struct err *err)
{
    static const char *const header[] = {"run", "step", "wall_time", "metric", "value"};
    struct file_out file;
    enum status status = file_out_replace(&file, path, "run,", err);
    if (status) return status;
    struct csv_out csv = csv_out_of(&file);
    char name[CHOSEN_NAME_MAX];
    status = store_read_begin(store, err);
    for (const char *rest = choice.names; !status && rest && text_next_name(&rest, name, sizeof name);)
        status = check_recorded(store, run_ids, run_count, choice, name, err);
    if (!status) write_header(&csv, header, 5);
    for (size_t i = 0; !status && i < run_count; i++)
        status = write_long(store, run_ids[i], choice, &csv, err);
    store_read_end(store);
    return file_out_close(&file, status, csv.error, err);
}

enum status export_curves(const struct export_curve *curves, size_t count, const char *counted,
                          const char *path, struct err *err)
{
    char first[40], last[40];
    const char *const header[] = {"curve", first, last, "mean", "min", "max", "last", "smoothed"};
    struct file_out file;
    snprintf(first, sizeof first, "first_%s", counted);
    snprintf(last, sizeof last, "last_%s", counted);
    enum status status = file_out_open(&file, path, err);
    if (status) return status;
    struct csv_out csv = csv_out_of(&file);
    write_header(&csv, header, 8);
    for (size_t c = 0; c < count; c++)
        for (size_t i = 0; i < curves[c].count && !csv.error; i++) {
            const struct series_point *point = &curves[c].points[i];
            const double values[] = {point->mean, point->min, point->max, point->last};
            csv_text(&csv, curves[c].name);
            csv_int(&csv, point->first_step);
            csv_int(&csv, point->last_step);
            for (int v = 0; v < 4; v++) csv_double(&csv, values[v]);
            if (curves[c].smooth)
                csv_double(&csv, curves[c].smooth[i]);
            else
                csv_text(&csv, NULL);
            csv_end_record(&csv);
        }
    return file_out_close(&file, STATUS_OK, csv.error, err);
}

/* ---- TensorBoard ---- */

/* Whether a column, or another measure than this one, has the name. */
static bool is_of_another(const struct metric_list *metrics, const struct metric_source *measure,
                          const char *name)
{
    for (size_t m = 0; m < metrics->count; m++)
        if (&metrics->of[m] != measure && strcmp(metrics->of[m].name, name) == 0) return true;
    return table_column(TABLE_STEPS, name) || table_column(TABLE_EVALS, name);
}

/* A measure may have the name of a column, such as loss, whose values it must not be mixed with: loss_2,
 * or a higher number if another measure has that name. */
static const char *tag_of(const struct metric_list *metrics, const struct metric_source *metric,
                          char tag[EVENT_TAG_MAX])
{
    enum { ROOM = 12 };
    clean_line(tag, EVENT_TAG_MAX - ROOM, metric->name);
    size_t n = strlen(tag);
    for (int i = 2; metric->table == TABLE_MEASURES && is_of_another(metrics, metric, tag); i++)
        snprintf(tag + n, ROOM, "_%d", i);
    return tag;
}

/* A name must not lead out of the folder, nor change a terminal that shows it. */
static bool can_name_file(const char *name)
{
    for (const unsigned char *c = (const unsigned char *)name; *c; c++)
        if (*c < ' ' || *c == 0x7F || *c == '/') return false;
    return *name && *name != '.';
}

static enum status write_table(struct store *store, sqlite3_stmt *select, const struct metric_source *metric,
                               const char *tag, const char *folder, struct err *err)
{
    static const char *const header[] = {"Wall time", "Step", "Value"};
    struct file_out file;
    char path[PATH_MAX];
    if (!can_name_file(metric->name))
        return err_set(err, STATUS_CORRUPT,
                       "measure %.80s: its name cannot be the name of a file (a damaged database?)",
                       CLEAN_LINE(metric->name));
    enum status status = file_format_path(path, sizeof path, err, "%s/%s.csv", folder, tag);
    if (!status) status = file_out_replace(&file, path, "Wall time,Step,Value", err);
    if (status) return status;
    struct csv_out csv = csv_out_of(&file);
    write_header(&csv, header, 3);
    status = write_metric(store, select, metric, NULL, &csv, err);
    return file_out_close(&file, status, csv.error, err);
}

enum status export_tensorboard(struct store *store, const char *run_id, struct metric_choice choice,
                               const char *folder, struct arena *arena, const char ***written, size_t *count,
                               struct err *err)
{
    struct metric_list metrics = {0};
    *count = 0;
    enum status status = store_read_begin(store, err);
    if (!status) status = run_exists(store, run_id, err);
    if (!status) status = list_metrics(store, run_id, choice, arena, &metrics, err);
    *written = arena_alloc_array(arena, metrics.count + 1, sizeof **written);
    if (!status && !*written) status = err_no_memory(err, "a list of metrics");
    for (size_t m = 0; !status && m < metrics.count; m++) {
        sqlite3_stmt *select;
        char tag[EVENT_TAG_MAX];
        bool row;
        status = select_metric(store, run_id, &metrics.of[m], &select, &row, err);
        if (status || !row) continue;
        status =
            write_table(store, select, &metrics.of[m], tag_of(&metrics, &metrics.of[m], tag), folder, err);
        sqlite3_reset(select);
        if (!status) (*written)[*count] = arena_strdup(arena, tag);
        if (!status && !(*written)[(*count)++]) status = err_no_memory(err, "a list of metrics");
    }
    store_read_end(store);
    return status;
}

/* Writes the values of a metric, if it has any, and adds their number to *count. */
static enum status write_scalars(struct store *store, const char *run_id, const struct metric_source *metric,
                                 const char *tag, struct record_writer *out, int64_t *count, struct err *err)
{
    sqlite3_stmt *select;
    bool row;
    enum status status = select_metric(store, run_id, metric, &select, &row, err);
    for (; row && !out->error; ++*count, row = store_next(store, select, &status, err))
        event_out_scalar(out, tag, sqlite3_column_int64(select, STEP), store_column_double(select, WALL_TIME),
                         store_column_double(select, VALUE));
    sqlite3_reset(select);
    return status;
}

/* Writes all of them to a file, of which nothing stays if there is no value. */
static enum status write_events(struct store *store, const struct run_info *run,
                                const struct metric_list *metrics, const char *path, int64_t *count,
                                struct err *err)
{
    static const char length[] = "\x18"; /* of the first record */
    char tag[EVENT_TAG_MAX];
    struct record_writer out;
    struct file_out file;
    enum status status = file_out_replace(&file, path, length, err);
    if (status) return status;
    event_out_begin(&out, file.stream, run->created_at);
    for (size_t m = 0; !status && m < metrics->count; m++)
        status = write_scalars(store, run->id, &metrics->of[m], tag_of(metrics, &metrics->of[m], tag), &out,
                               count, err);
    bool nothing = !status && !out.error && !*count;
    status = file_out_close(&file, nothing ? STATUS_NOT_FOUND : status, out.error, err);
    return nothing ? STATUS_OK : status;
}

enum status export_events(struct store *store, const char *run_id, struct metric_choice choice,
                          const char *folder, char path[PATH_MAX], int64_t *count, struct err *err)
{
    struct run_info run;
    struct arena arena = {0};
    struct metric_list metrics = {0};
    *count = 0;
    enum status status = store_read_begin(store, err);
    if (!status) status = run_get(store, run_id, &run, err);
    if (!status) status = list_metrics(store, run_id, choice, &arena, &metrics, err);
    if (!status) /* named as TensorBoard knows its files, and the same each time */
        status = file_format_path(path, PATH_MAX, err, "%s/events.out.tfevents.%010" PRId64 ".anneal", folder,
                                  (int64_t)run.created_at);
    if (!status) status = write_events(store, &run, &metrics, path, count, err);
    arena_release(&arena);
    store_read_end(store);
    return status;
}
