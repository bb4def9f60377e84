/* A run as one JSON document, see export.h. */
#include "runs/exchange/export.h"

#include <math.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "runs/run.h"
#include "runs/table.h"

struct document {
    struct store *store;
    struct run_info run;
    struct arena arena;
    struct run_param *params;
    size_t param_count;
    struct json_out out;
    struct err *err;
};

/* ---- training ---- */

/* Writes the columns of a row from `first` on as members; absent and non-finite values as null. */
static void write_members(struct json_out *out, sqlite3_stmt *row, int first)
{
    for (int i = first; i < sqlite3_column_count(row); i++) {
        const char *name = sqlite3_column_name(row, i), *text;
        switch (sqlite3_column_type(row, i)) {
        case SQLITE_INTEGER:
            json_out_int(out, name, sqlite3_column_int64(row, i));
            break;
        case SQLITE_FLOAT:
            json_out_real(out, name, sqlite3_column_double(row, i));
            break;
        case SQLITE_NULL:
            json_out_text(out, name, NULL);
            break;
        default:
            text = (const char *)sqlite3_column_text(row, i);
            json_out_bytes(out, name, text, (size_t)sqlite3_column_bytes(row, i));
        }
    }
}

static enum status write_totals(struct document *d)
{
    static const char sql[] =
        "select epoch, step_ms, tokens_per_sec " COUNTED_STEPS " order by t.segment, t.step";
    sqlite3_stmt *select;
    double epoch = NAN, milliseconds = 0, tokens = 0;
    enum status status = store_query(d->store, &select, d->err, sql, "s", d->run.id);
    while (store_next(d->store, select, &status, d->err)) {
        double time = store_column_double(select, 1), rate = store_column_double(select, 2);
        epoch = store_column_double(select, 0);
        if (!isfinite(time) || !isfinite(rate)) continue;
        milliseconds += time;
        tokens += rate * time / 1e3;
    }
    json_out_real(&d->out, "total_time_sec", d->run.elapsed);
    json_out_int(&d->out, "total_steps", d->run.steps > 0 ? d->run.steps : 0);
    if (isfinite(epoch) && fabs(epoch) < 1e15)
        json_out_int(&d->out, "epochs_completed", (int64_t)floor(epoch));
    else
        json_out_text(&d->out, "epochs_completed", NULL);
    json_out_real(&d->out, "final_loss", d->run.final_loss);
    json_out_real(&d->out, "best_val_loss", d->run.best_val_loss);
    json_out_real(&d->out, "avg_tokens_per_sec", milliseconds > 0 ? tokens / (milliseconds / 1e3) : NAN);
    return status;
}

/* Writes the rows of `sql`, whose ?1 is the run: as objects in a list, or as members named by the first
 * column. */
static enum status write_query(struct document *d, const char *name, char open, enum json_out_layout layout,
                               const char *sql)
{
    sqlite3_stmt *select;
    enum status status = store_query(d->store, &select, d->err, sql, "s", d->run.id);
    json_out_open(&d->out, name, open, JSON_OUT_LINES);
    while (!d->out.error && store_next(d->store, select, &status, d->err)) {
        const char *member = open == '{' ? (const char *)sqlite3_column_text(select, 0) : NULL;
        json_out_open(&d->out, member, '{', layout);
        write_members(&d->out, select, open == '{');
        json_out_close(&d->out);
    }
    sqlite3_reset(select);
    json_out_close(&d->out);
    return status;
}

/* Writes the rows of a table that count (table.h) in the order of their steps: the columns of its CSV without
 * run and, unless `placed`, segment. */
static enum status write_rows(struct document *d, const char *name, enum store_table table, bool placed,
                              enum json_out_layout layout)
{
    const struct column_info *columns[COLUMNS_MAX];
    char names[200] = "", sql[TABLE_HISTORY_MAX + 300];
    int count = table_csv_columns(table, columns);
    for (int i = placed ? 1 : 2; i < count; i++) text_add(names, sizeof names, ", ", "%s", columns[i]->name);
    snprintf(sql, sizeof sql, "select %s %s order by t.segment, t.step", names, table_history(table));
    return write_query(d, name, '[', layout, sql);
}

/* A text has no place among the steps. */
static enum status write_inference(struct document *d)
{
    char fields[600], sql[700];
    table_fields(TABLE_INFERENCE, fields, sizeof fields);
    snprintf(sql, sizeof sql, "select %s from inference t where t.run_id = ?1 order by t.id", fields);
    return write_query(d, "inference", '[', JSON_OUT_FLAT, sql);
}

/* The rows of the profile that count. */
#define OF_PROFILE "with rows as (select t.* " COUNTED_PROFILE ") "

/* The profiled time and its share, grouped by one column. */
#define PROFILE_BY(column, more)                                                                             \
    OF_PROFILE "select " column ", " more "sum(time_us) / 1e3 as time_ms,"                                   \
               " case when whole > 0 then sum(time_us) / 1e3 / whole end as share"                           \
               " from rows, (select sum(time_us) / 1e3 as whole from rows)"                                  \
               " group by " column " order by time_ms desc, " column

static enum status write_profile(struct document *d)
{
    sqlite3_stmt *select;
    enum status status = store_query(
        d->store, &select, d->err,
        OF_PROFILE "select total_time_ms, case when steps > 0 then total_time_ms / steps end as avg_step_ms"
                   " from (select ifnull(sum(time_us), 0) / 1e3 as total_time_ms from rows),"
                   " (select count(*) as steps from (select distinct step from rows))",
        "s", d->run.id);
    json_out_open(&d->out, "profiler_report", '{', JSON_OUT_LINES);
    if (store_next(d->store, select, &status, d->err)) write_members(&d->out, select, 0);
    sqlite3_reset(select);
    if (!status) status = write_query(d, "phase_breakdown", '{', JSON_OUT_FLAT, PROFILE_BY("phase", ""));
    if (!status)
        status = write_query(d, "top_operations", '[', JSON_OUT_FLAT,
                             PROFILE_BY("op", "cast(total(calls) as integer) as calls, ") " limit 10");
    json_out_close(&d->out);
    return status;
}

static enum status write_training(struct document *d)
{
    json_out_open(&d->out, "training", '{', JSON_OUT_LINES);
    enum status status = write_totals(d);
    if (!status) status = write_rows(d, "steps", TABLE_STEPS, true, JSON_OUT_FLAT);
    if (!status) status = write_profile(d);
    if (!status) status = write_rows(d, "evals", TABLE_EVALS, true, JSON_OUT_FLAT);
    if (!status) status = write_rows(d, "measures", TABLE_MEASURES, true, JSON_OUT_FLAT);
    if (!status) status = write_rows(d, "classes", TABLE_CLASSES, true, JSON_OUT_FLAT);
    if (!status) status = write_rows(d, "confusion", TABLE_CONFUSION, true, JSON_OUT_FLAT);
    json_out_close(&d->out);
    return status;
}

/* ---- the document ---- */

static const char *model_name(const struct document *d)
{
    static const char *const keys[] = {"model.from", "model.preset"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *value = run_params_get(d->params, d->param_count, keys[i]);
        if (value && *value) return value;
    }
    return d->run.name;
}

static enum status write_document(struct document *d)
{
    json_out_open(&d->out, NULL, '{', JSON_OUT_LINES);
    json_out_text(&d->out, "run_id", d->run.id);
    json_out_text(&d->out, "model_name", model_name(d));
    run_params_json(&d->out, "config", d->params, d->param_count);
    enum status status = write_training(d);
    if (!status) status = write_rows(d, "samples", TABLE_SAMPLES, false, JSON_OUT_LINES);
    if (!status) status = write_inference(d);
    json_out_close(&d->out);
    return status;
}

enum status export_json(struct store *store, const char *run_id, const char *path, struct err *err)
{
    struct document d = {.store = store, .err = err};
    struct file_out file;
    enum status status = file_out_replace(&file, path, "{\n  \"run_id\"", err);
    if (status) return status;
    json_out_begin(&d.out, file.stream);
    status = store_read_begin(store, err);
    if (!status) status = run_get(store, run_id, &d.run, err);
    if (!status) status = run_params_list(store, run_id, &d.arena, &d.params, &d.param_count, err);
    if (!status) status = write_document(&d);
    store_read_end(store);
    arena_release(&d.arena);
    int error = json_out_finish(&d.out);
    return file_out_close(&file, status, error, err);
}
