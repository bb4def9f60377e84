/* See export.h. The SELECT is made from the table's columns (tables.h), so header and rows cannot drift
 * apart. */
#include "runs/exchange/export.h"

#include <math.h>
#include <string.h>

#include "runs/exchange/csv.h"
#include "runs/exchange/out_file.h"
#include "runs/run_row.h"
#include "runs/table.h"

/* "select run_id, segment, …, nan from steps where run_id = ?1 order by …": the order is that of the table's
 * clustering, so rows come as they lie. */
static enum status prepare(struct store *store, enum store_table which, sqlite3_stmt **out, struct err *err)
{
    const struct table_info *table = &store_tables[which];
    const struct column_info *columns[COLUMNS_MAX];
    char sql[1024];
    int count = table_csv_columns(which, columns);
    int n = snprintf(sql, sizeof sql, "select ");
    for (int i = 0; i < count; i++) n += snprintf(sql + n, sizeof sql - (size_t)n, "%s, ", columns[i]->name);
    snprintf(sql + n, sizeof sql - (size_t)n, "%s from %s where %s = ?1 order by %s, %s",
             table_column(which, "nan") ? "nan" : "0", table->name, columns[0]->name, columns[0]->name,
             table->order);
    return sqlite3_prepare_v2(store->db, sql, -1, out, NULL) == SQLITE_OK ? STATUS_OK
                                                                          : store_error(store, err);
}

static void write_field(struct csv_out *csv, const struct column_info *column, sqlite3_stmt *row, int i,
                        int nan)
{
    if (sqlite3_column_type(row, i) == SQLITE_NULL) {
        if (column_is_real(column) && nan & column->null)
            csv_double(csv, NAN);
        else
            csv_absent(csv);
    } else if (column_is_real(column)) {
        csv_double(csv, sqlite3_column_double(row, i));
    } else if (column_is_integer(column)) {
        csv_int(csv, sqlite3_column_int64(row, i));
    } else {
        const char *text = (const char *)sqlite3_column_text(row, i);
        csv_text(csv, text ? text : "", (size_t)sqlite3_column_bytes(row, i));
    }
}

static enum status write_run(struct store *store, const char *run_id, enum store_table table,
                             sqlite3_stmt *select, struct csv_out *csv, struct err *err)
{
    struct run_info info;
    const struct column_info *columns[COLUMNS_MAX];
    int count = table_csv_columns(table, columns);
    enum status status = run_row_find(store, run_id, &info, err);
    if (status) return status;
    bool row;
    const char *word = run_status_name(info.status); /* whether it lives is folded in */
    sqlite3_reset(select);
    store_bind_text(select, 1, run_id);
    while (!(status = store_step(store, select, &row, err)) && row) {
        int nan = sqlite3_column_int(select, count);
        for (int i = 0; i < count; i++)
            if (columns[i] == &store_columns[COLUMN_RUNS_status])
                csv_word(csv, word);
            else
                write_field(csv, columns[i], select, i, nan);
        csv_end_record(csv);
        if (csv->error) break; /* nobody reads on: a closed pipe, a full disk */
    }
    sqlite3_reset(select);
    return status;
}

struct request {
    struct store *store;
    const char *const *run_ids;
    size_t run_count;
    enum store_table table;
};

static enum status write_table(void *context, FILE *out, int *error, struct err *err)
{
    const struct request *r = context;
    const struct column_info *columns[COLUMNS_MAX];
    struct csv_out csv;
    sqlite3_stmt *select = NULL;
    if (!csv_begin(&csv, out)) return err_set(err, STATUS_NO_MEMORY, "exporting: not enough memory");
    int count = table_csv_columns(r->table, columns);
    for (int i = 0; i < count; i++) csv_word(&csv, column_csv_name(columns[i]));
    csv_end_record(&csv);
    enum status status = prepare(r->store, r->table, &select, err);
    for (size_t i = 0; !status && !csv.error && i < r->run_count; i++)
        status = write_run(r->store, r->run_ids[i], r->table, select, &csv, err);
    sqlite3_finalize(select);
    *error = csv_finish(&csv);
    return status;
}

enum status export_csv(struct store *store, const char *const *run_ids, size_t run_count,
                       enum store_table table, const char *path, struct err *err)
{
    struct request request = {store, run_ids, run_count, table};
    return out_file_write(path, write_table, &request, err);
}
