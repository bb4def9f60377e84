/* See export_metrics.h. The metrics are read off the tables' columns (tables.h), one pass a metric. */
#include "runs/exchange/export_metrics.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "runs/exchange/csv.h"
#include "runs/exchange/out_file.h"
#include "runs/run_row.h"
#include "runs/timeline.h"

/* Where and how the records of one metric are written; a long table's begin with the run and name it. */
struct sink {
    struct csv_out *csv;
    const char *run; /* NULL: TensorBoard's columns */
    const char *metric;
};

static void write_header(struct csv_out *csv, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) csv_word(csv, names[i]);
    csv_end_record(csv);
}

/* A REAL field of the row: column `index`, whose NaN flag is column `flag`. */
static void write_real(struct csv_out *csv, sqlite3_stmt *row, int index, int flag)
{
    if (sqlite3_column_type(row, index) != SQLITE_NULL)
        csv_double(csv, sqlite3_column_double(row, index));
    else if (sqlite3_column_int(row, flag))
        csv_double(csv, NAN);
    else
        csv_absent(csv);
}

enum { STEP, WALL_TIME, WALL_TIME_NAN, VALUE, VALUE_NAN };

static void write_record(const struct sink *sink, sqlite3_stmt *row, bool integer)
{
    struct csv_out *csv = sink->csv;
    if (sink->run) {
        csv_word(csv, sink->run);
        csv_int(csv, sqlite3_column_int64(row, STEP));
        write_real(csv, row, WALL_TIME, WALL_TIME_NAN);
        csv_word(csv, sink->metric);
    } else {
        write_real(csv, row, WALL_TIME, WALL_TIME_NAN);
        csv_int(csv, sqlite3_column_int64(row, STEP));
    }
    if (integer)
        csv_int(csv, sqlite3_column_int64(row, VALUE));
    else
        write_real(csv, row, VALUE, VALUE_NAN);
    csv_end_record(csv);
}

/* The timeline of one metric, before its first row. */
static enum status open_metric(struct store *store, const char *run_id, enum store_table table,
                               const struct column_info *column, struct timeline *timeline, struct err *err)
{
    char columns[256];
    snprintf(columns, sizeof columns, "step, wall_time, nan & %d, %s, nan & %d",
             table_column(table, "wall_time")->null, column->name, column->null);
    return timeline_open(timeline, store, run_id, table == TABLE_EVALS, columns, err);
}

/* The next row that has a value. */
static enum status next_value(struct timeline *timeline, bool *row, struct err *err)
{
    enum status status;
    do status = timeline_next(timeline, row, err);
    while (!status && *row && sqlite3_column_type(timeline->row, VALUE) == SQLITE_NULL &&
           !sqlite3_column_int(timeline->row, VALUE_NAN));
    return status;
}

/* The current and all later values. */
static enum status write_metric(struct timeline *timeline, const struct column_info *column,
                                const struct sink *sink, struct err *err)
{
    enum status status = STATUS_OK;
    for (bool row = true; !status && row && !sink->csv->error; status = next_value(timeline, &row, err))
        write_record(sink, timeline->row, column_is_integer(column));
    return status;
}

/* Whether the column is a metric: not what says where a value belongs, and `tokens` only once. */
static bool is_metric(enum store_table table, const struct column_info *column)
{
    static const char *const keys[] = {"step", "wall_time"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(column->name, keys[i]) == 0) return false;
    return column->csv && column->field && (table == TABLE_STEPS || strcmp(column->name, "tokens") != 0);
}

typedef enum status (*metric_visit)(void *context, struct timeline *timeline,
                                    const struct column_info *column, struct err *err);

/* Calls `visit` for each metric of the run that has a value, in the order of the columns. */
static enum status each_metric(struct store *store, const char *run_id, struct metric_choice choice,
                               metric_visit visit, void *context, struct err *err)
{
    struct run_info info;
    enum status status = store_read_begin(store, err);
    if (status) return status;
    status = run_row_find(store, run_id, &info, err);
    for (enum store_table t = TABLE_STEPS; !status && t <= TABLE_EVALS; t++) {
        if (!(t == TABLE_STEPS ? choice.steps : choice.evals)) continue;
        for (int c = store_tables[t].first; !status && c < store_tables[t].end; c++) {
            const struct column_info *column = &store_columns[c];
            struct timeline timeline = {0};
            bool row = false;
            if (!is_metric(t, column)) continue;
            status = open_metric(store, run_id, t, column, &timeline, err);
            if (!status) status = next_value(&timeline, &row, err);
            if (!status && row) status = visit(context, &timeline, column, err);
            timeline_close(&timeline);
        }
    }
    store_read_end(store);
    return status;
}

/* ---- the long table ---- */

static enum status visit_long(void *context, struct timeline *timeline, const struct column_info *column,
                              struct err *err)
{
    struct sink *sink = context;
    sink->metric = column->name;
    return write_metric(timeline, column, sink, err);
}

struct long_table {
    struct store *store;
    const char *const *run_ids;
    size_t run_count;
    struct metric_choice choice;
};

static enum status write_long(void *context, FILE *out, int *error, struct err *err)
{
    static const char *const header[] = {"run", "step", "wall_time", "metric", "value"};
    const struct long_table *t = context;
    struct csv_out csv;
    enum status status = STATUS_OK;
    if (!csv_begin(&csv, out)) return err_set(err, STATUS_NO_MEMORY, "exporting: not enough memory");
    write_header(&csv, header, sizeof header / sizeof *header);
    for (size_t i = 0; !status && !csv.error && i < t->run_count; i++) {
        struct sink sink = {.csv = &csv, .run = t->run_ids[i]};
        status = each_metric(t->store, t->run_ids[i], t->choice, visit_long, &sink, err);
    }
    *error = csv_finish(&csv);
    return status;
}

enum status export_long(struct store *store, const char *const *run_ids, size_t run_count,
                        struct metric_choice choice, const char *path, struct err *err)
{
    struct long_table table = {store, run_ids, run_count, choice};
    return out_file_write(path, write_long, &table, err);
}

/* ---- TensorBoard ---- */

struct tensorboard {
    const char *folder;
    const char **written;
    size_t *count;
};

static enum status visit_tensorboard(void *context, struct timeline *timeline,
                                     const struct column_info *column, struct err *err)
{
    static const char *const header[] = {"Wall time", "Step", "Value"};
    struct tensorboard *to = context;
    struct out_file file;
    struct csv_out csv;
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s.csv", to->folder, column->name) >= (int)sizeof path)
        return err_set(err, STATUS_USAGE, "%s: the path is too long", to->folder);
    enum status status = out_file_open(&file, path, err);
    if (status) return status;
    if (!csv_begin(&csv, file.stream))
        return out_file_close(&file, err_set(err, STATUS_NO_MEMORY, "exporting: not enough memory"), 0, err);
    struct sink sink = {.csv = &csv};
    write_header(&csv, header, sizeof header / sizeof *header);
    status = write_metric(timeline, column, &sink, err);
    status = out_file_close(&file, status, csv_finish(&csv), err);
    if (!status && *to->count < METRIC_FILES_MAX) to->written[(*to->count)++] = column->name;
    return status;
}

enum status export_tensorboard(struct store *store, const char *run_id, struct metric_choice choice,
                               const char *folder, const char *written[METRIC_FILES_MAX], size_t *count,
                               struct err *err)
{
    struct tensorboard to = {folder, written, count};
    *count = 0;
    return each_metric(store, run_id, choice, visit_tensorboard, &to, err);
}
