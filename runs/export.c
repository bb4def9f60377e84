/* See export.h. A table is a list of columns: the CSV's name, the expression that gives it and how to write
 * it. The SELECT is made from the list, so header and rows cannot drift apart. */
#include "runs/export.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/text.h"
#include "runs/csv.h"
#include "runs/run_row.h"
#include "runs/schema.h"

enum column_kind { INTEGER, REAL, TEXT, STATUS };

enum { COLUMNS_MAX = 16 };

struct column {
    const char *name;
    enum column_kind kind;
    int nan_bit; /* of the table's column `nan`; 0: NULL is absent */
};

static const struct table {
    const char *name, *sql_name, *order;
    bool has_nan;
    struct column columns[COLUMNS_MAX]; /* ends with a NULL name; `run` reads run_id, in `runs` id */
} tables[EXPORT_TABLE_COUNT] = {
    [EXPORT_STEPS] = {"steps",
                      "steps",
                      "segment, step",
                      true,
                      {{"run", TEXT, 0},
                       {"segment", INTEGER, 0},
                       {"step", INTEGER, 0},
                       {"epoch", REAL, NAN_STEP_EPOCH},
                       {"tokens", INTEGER, 0},
                       {"wall_time", REAL, NAN_STEP_WALL_TIME},
                       {"step_ms", REAL, NAN_STEP_STEP_MS},
                       {"loss", REAL, NAN_STEP_LOSS},
                       {"lr", REAL, NAN_STEP_LR},
                       {"grad_norm", REAL, NAN_STEP_GRAD_NORM},
                       {"clip_scale", REAL, NAN_STEP_CLIP_SCALE},
                       {"tokens_per_sec", REAL, NAN_STEP_TOKENS_PER_SEC},
                       {"mfu", REAL, 0}}},
    [EXPORT_EVALS] = {"evals",
                      "evals",
                      "segment, step",
                      true,
                      {{"run", TEXT, 0},
                       {"segment", INTEGER, 0},
                       {"step", INTEGER, 0},
                       {"tokens", INTEGER, 0},
                       {"wall_time", REAL, NAN_EVAL_WALL_TIME},
                       {"val_loss", REAL, NAN_EVAL_VAL_LOSS},
                       {"val_perplexity", REAL, NAN_EVAL_VAL_PERPLEXITY},
                       {"eval_ms", REAL, NAN_EVAL_EVAL_MS}}},
    [EXPORT_EARLY_STOPPING] = {"early_stopping",
                               "early_stopping",
                               "segment, step",
                               true,
                               {{"run", TEXT, 0},
                                {"segment", INTEGER, 0},
                                {"step", INTEGER, 0},
                                {"val_loss", REAL, NAN_STOPPING_VAL_LOSS},
                                {"best_val_loss", REAL, NAN_STOPPING_BEST_VAL_LOSS},
                                {"best_step", INTEGER, 0},
                                {"min_delta", REAL, NAN_STOPPING_MIN_DELTA},
                                {"improved", INTEGER, 0},
                                {"patience_used", INTEGER, 0},
                                {"patience", INTEGER, 0},
                                {"verdict", TEXT, 0}}},
    [EXPORT_PROFILE] = {"profile",
                        "layer_profile",
                        "segment, step, phase, layer, op",
                        false,
                        {{"run", TEXT, 0},
                         {"segment", INTEGER, 0},
                         {"step", INTEGER, 0},
                         {"phase", TEXT, 0},
                         {"layer", INTEGER, 0},
                         {"op", TEXT, 0},
                         {"calls", INTEGER, 0},
                         {"time_us", REAL, 0}}},
    [EXPORT_MEMORY] = {"memory",
                       "memory",
                       "segment, step, category",
                       false,
                       {{"run", TEXT, 0},
                        {"segment", INTEGER, 0},
                        {"step", INTEGER, 0},
                        {"category", TEXT, 0},
                        {"planned_bytes", INTEGER, 0},
                        {"live_bytes", INTEGER, 0},
                        {"peak_bytes", INTEGER, 0}}},
    [EXPORT_GPU] = {"gpu",
                    "gpu_samples",
                    "wall_time, gpu",
                    false,
                    {{"run", TEXT, 0},
                     {"wall_time", REAL, 0},
                     {"gpu", INTEGER, 0},
                     {"utilization_pct", REAL, 0},
                     {"memory_used_bytes", INTEGER, 0},
                     {"memory_total_bytes", INTEGER, 0},
                     {"power_w", REAL, 0},
                     {"temperature_c", REAL, 0},
                     {"sm_clock_mhz", REAL, 0},
                     {"process_bytes", INTEGER, 0},
                     {"throttle", TEXT, 0}}},
    [EXPORT_SAMPLES] = {"samples",
                        "samples",
                        "segment, step, id",
                        false,
                        {{"run", TEXT, 0},
                         {"segment", INTEGER, 0},
                         {"step", INTEGER, 0},
                         {"prompt", TEXT, 0},
                         {"text", TEXT, 0}}},
    [EXPORT_ORDERS] = {"orders",
                       "orders",
                       "id",
                       false,
                       {{"run", TEXT, 0},
                        {"issued_at", REAL, 0},
                        {"verb", TEXT, 0},
                        {"argument", REAL, 0},
                        {"issuer", TEXT, 0},
                        {"applied_step", INTEGER, 0},
                        {"result", TEXT, 0}}},
    [EXPORT_RUNS] = {"runs",
                     "runs",
                     "id",
                     true,
                     {{"run", TEXT, 0},
                      {"name", TEXT, 0},
                      {"status", STATUS, 0},
                      {"created_at", REAL, 0},
                      {"ended_at", REAL, 0},
                      {"device", TEXT, 0},
                      {"precision", TEXT, 0},
                      {"parameters", INTEGER, 0},
                      {"steps", INTEGER, 0},
                      {"tokens", INTEGER, 0},
                      {"final_loss", REAL, NAN_RUN_FINAL_LOSS},
                      {"best_val_loss", REAL, NAN_RUN_BEST_VAL_LOSS},
                      {"best_step", INTEGER, 0},
                      {"tokens_per_sec", REAL, NAN_RUN_TOKENS_PER_SEC}}},
};

const char *export_table_name(enum export_table table)
{
    return tables[table].name;
}

bool export_table_parse(const char *word, enum export_table *out)
{
    for (int i = 0; i < EXPORT_TABLE_COUNT; i++)
        if (strcmp(word, tables[i].name) == 0) {
            *out = (enum export_table)i;
            return true;
        }
    return false;
}

/* "select run_id, segment, …, nan from steps where run_id = ?1 order by …": the order is that of the table's
 * clustering, so rows come as they lie. */
static enum status prepare(struct store *store, const struct table *table, sqlite3_stmt **out,
                           struct err *err)
{
    char sql[1024];
    const char *run = table == &tables[EXPORT_RUNS] ? "id" : "run_id";
    int n = snprintf(sql, sizeof sql, "select %s", run);
    for (const struct column *column = table->columns + 1; column->name; column++)
        n += snprintf(sql + n, sizeof sql - (size_t)n, ", %s", column->name);
    snprintf(sql + n, sizeof sql - (size_t)n, "%s from %s where %s = ?1 order by %s, %s",
             table->has_nan ? ", nan" : "", table->sql_name, run, run, table->order);
    return sqlite3_prepare_v2(store->db, sql, -1, out, NULL) == SQLITE_OK ? STATUS_OK
                                                                          : store_error(store, err);
}

static void write_row(struct csv_out *csv, const struct table *table, int columns, sqlite3_stmt *row,
                      const char *run, size_t run_length, const char *status_name)
{
    csv_text(csv, run, run_length);
    for (int i = 1; i < columns; i++) {
        const struct column *column = &table->columns[i];
        if (sqlite3_column_type(row, i) == SQLITE_NULL) {
            if (column->nan_bit && sqlite3_column_int(row, columns) & column->nan_bit)
                csv_double(csv, NAN);
            else
                csv_absent(csv);
        } else if (column->kind == REAL) {
            csv_double(csv, sqlite3_column_double(row, i));
        } else if (column->kind == INTEGER) {
            csv_int(csv, sqlite3_column_int64(row, i));
        } else if (column->kind == STATUS) {
            csv_text(csv, status_name, strlen(status_name));
        } else {
            const char *text = (const char *)sqlite3_column_text(row, i);
            csv_text(csv, text ? text : "", (size_t)sqlite3_column_bytes(row, i));
        }
    }
    csv_end_record(csv);
}

static enum status write_run(struct store *store, const char *run_id, enum export_table which,
                             sqlite3_stmt *select, struct csv_out *csv, struct err *err)
{
    struct run_info info;
    const struct table *table = &tables[which];
    size_t run_length = strlen(run_id);
    int columns = 0;
    while (columns < COLUMNS_MAX && table->columns[columns].name) columns++;
    enum status status = run_row_find(store, run_id, &info, err);
    if (status) return status;
    bool row;
    sqlite3_reset(select);
    store_bind_text(select, 1, run_id);
    while (!(status = store_step(store, select, &row, err)) && row) {
        write_row(csv, table, columns, select, run_id, run_length, run_status_name(info.status));
        if (csv->error) break; /* nobody reads on: a closed pipe, a full disk */
    }
    sqlite3_reset(select);
    return status;
}

/* Errors of writing are left in *error, as an errno. */
static enum status write_table(struct store *store, const char *const *run_ids, size_t run_count,
                               enum export_table which, FILE *out, int *error, struct err *err)
{
    struct csv_out csv;
    sqlite3_stmt *select = NULL;
    *error = 0;
    if (!csv_begin(&csv, out)) return err_set(err, STATUS_NO_MEMORY, "exporting: not enough memory");
    for (const struct column *column = tables[which].columns; column->name; column++)
        csv_text(&csv, column->name, strlen(column->name));
    csv_end_record(&csv);
    enum status status = prepare(store, &tables[which], &select, err);
    for (size_t i = 0; !status && !csv.error && i < run_count; i++)
        status = write_run(store, run_ids[i], which, select, &csv, err);
    sqlite3_finalize(select);
    *error = csv_finish(&csv);
    return status;
}

enum status export_csv(struct store *store, const char *const *run_ids, size_t run_count,
                       enum export_table table, FILE *out, struct err *err)
{
    int error;
    enum status status = write_table(store, run_ids, run_count, table, out, &error, err);
    if (!status && error)
        status =
            err_set(err, STATUS_IO, "exporting %s: cannot write: %s", tables[table].name, strerror(error));
    return status;
}

/* A device or a pipe (/dev/stdout) is written to; to put a file in its place would destroy it. */
static bool is_special(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

enum status export_csv_file(struct store *store, const char *const *run_ids, size_t run_count,
                            enum export_table table, const char *path, struct err *err)
{
    char temporary[PATH_MAX];
    bool special = is_special(path);
    if (snprintf(temporary, sizeof temporary, "%s.tmp-%ld", path, (long)getpid()) >= (int)sizeof temporary)
        return err_set(err, STATUS_USAGE, "%s: the path is too long", path);
    int fd = special ? open(path, O_WRONLY | O_CLOEXEC)
                     : open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
    if (!out) {
        int code = errno;
        if (fd >= 0) close(fd);
        return err_set(err, STATUS_IO, "%s: cannot create: %s", path, strerror(code));
    }
    int error;
    enum status status = write_table(store, run_ids, run_count, table, out, &error, err);
    if (!error && fsync(fd) != 0 && errno != EINVAL) error = errno;
    if (fclose(out) != 0 && !error) error = errno;
    if (!special && !status && !error && rename(temporary, path) != 0) error = errno;
    if (!status && error) status = err_set(err, STATUS_IO, "%s: cannot write: %s", path, strerror(error));
    if (!special && status) unlink(temporary);
    return status;
}
