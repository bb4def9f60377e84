/* See export.h. The SELECT is made from the table's columns (tables.h), so header and rows cannot drift
 * apart. */
#include "runs/exchange/export.h"

#include <math.h>
#include <string.h>

#include "runs/exchange/csv.h"
#include "runs/exchange/out_file.h"
#include "runs/run_row.h"
#include "runs/tables.h"

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

enum status export_csv_file(struct store *store, const char *const *run_ids, size_t run_count,
                            enum export_table table, const char *path, struct err *err)
{
    struct out_file file;
    int error;
    enum status status = out_file_open(&file, path, err);
    if (status) return status;
    status = write_table(store, run_ids, run_count, table, file.stream, &error, err);
    return out_file_close(&file, status, error, err);
}
