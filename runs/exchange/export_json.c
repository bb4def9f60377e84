/* See export_json.h. */
#include "runs/exchange/export_json.h"

#include <math.h>
#include <string.h>

#include "core/base/json_out.h"
#include "core/base/text.h"
#include "runs/exchange/out_file.h"
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

/* ---- configuration ---- */

/* "16" is a number, "true" a truth, anything else a text. */
static void write_config_value(struct json_out *out, const char *name, const char *value)
{
    int64_t integer;
    double number;
    if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0)
        json_out_bool(out, name, *value == 't');
    else if (text_parse_int(value, &integer))
        json_out_int(out, name, integer);
    else if (text_parse_double(value, &number) && isfinite(number))
        json_out_real(out, name, number);
    else
        json_out_text(out, name, value);
}

/* The length of the section in "section.key": up to the last dot. */
static size_t section_length(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? (size_t)(dot - name) : 0;
}

static bool same_section(const char *a, const char *b)
{
    size_t n = section_length(a);
    return n == section_length(b) && memcmp(a, b, n) == 0;
}

static enum status write_config(struct document *d)
{
    json_out_open(&d->out, "config", '{', JSON_OUT_LINES);
    for (size_t i = 0; i < d->param_count; i++) {
        const char *name = d->params[i].name;
        size_t n = section_length(name), earlier = 0;
        while (earlier < i && !same_section(d->params[earlier].name, name)) earlier++;
        if (earlier < i) continue; /* written with that one */
        char *section = arena_printf(&d->arena, "%.*s", (int)n, name);
        if (!section) return err_set(d->err, STATUS_NO_MEMORY, "exporting: not enough memory");
        json_out_open(&d->out, section, '{', JSON_OUT_LINES);
        for (size_t j = i; j < d->param_count; j++)
            if (same_section(d->params[j].name, name))
                write_config_value(&d->out, d->params[j].name + n + (n > 0), d->params[j].value);
        json_out_close(&d->out);
    }
    json_out_close(&d->out);
    return STATUS_OK;
}

/* ---- training ---- */

/* The columns of a row from `first` on as members: null for what is absent or not finite. */
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
            json_out_null(out, name);
            break;
        default:
            text = (const char *)sqlite3_column_text(row, i);
            json_out_bytes(out, name, text, (size_t)sqlite3_column_bytes(row, i));
        }
    }
}

static enum status write_totals(struct document *d)
{
    char sql[TABLE_HISTORY_MAX + 80], from[TABLE_HISTORY_MAX];
    sqlite3_stmt *select;
    double epoch = NAN, milliseconds = 0, tokens = 0;
    bool row = false;
    snprintf(sql, sizeof sql, "select epoch, step_ms, tokens_per_sec %s order by t.segment, t.step",
             table_history(TABLE_STEPS, from));
    enum status status = store_query(d->store, &select, d->err, sql, "s", d->run.id);
    while (!status && !(status = store_step(d->store, select, &row, d->err)) && row) {
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
        json_out_null(&d->out, "epochs_completed");
    json_out_real(&d->out, "final_loss", d->run.final_loss);
    json_out_real(&d->out, "best_val_loss", d->run.best_val_loss);
    json_out_real(&d->out, "avg_tokens_per_sec", milliseconds > 0 ? tokens / (milliseconds / 1e3) : NAN);
    return status;
}

/* The rows of `sql`, of the run ?1 and with the number ?2: in a list objects, in an object members by their
 * first column. */
static enum status write_query(struct document *d, const char *name, char open, enum json_out_layout layout,
                               const char *sql, double number)
{
    sqlite3_stmt *select;
    bool row;
    enum status status = store_query(d->store, &select, d->err, sql, "sd", d->run.id, number);
    json_out_open(&d->out, name, open, JSON_OUT_LINES);
    while (!status && !d->out.error && !(status = store_step(d->store, select, &row, d->err)) && row) {
        const char *member = open == '{' ? (const char *)sqlite3_column_text(select, 0) : NULL;
        json_out_open(&d->out, member, '{', layout);
        write_members(&d->out, select, open == '{');
        json_out_close(&d->out);
    }
    if (d->out.error) sqlite3_reset(select);
    json_out_close(&d->out);
    return status;
}

/* The rows of a table that count in the order of their steps, the columns of its CSV but run and, where
 * `placed` says so, segment. */
static enum status write_rows(struct document *d, const char *name, enum store_table table, bool placed,
                              enum json_out_layout layout)
{
    const struct column_info *columns[COLUMNS_MAX];
    char sql[TABLE_HISTORY_MAX + 300], from[TABLE_HISTORY_MAX];
    int count = table_csv_columns(table, columns), n = snprintf(sql, sizeof sql, "select ");
    for (int i = placed ? 1 : 2; i < count; i++)
        n += snprintf(sql + n, sizeof sql - (size_t)n, "%s%s", columns[i]->name, i + 1 < count ? ", " : " ");
    snprintf(sql + n, sizeof sql - (size_t)n, "%s order by t.segment, t.step", table_history(table, from));
    return write_query(d, name, '[', layout, sql, NAN);
}

#define TIME_AND_SHARE                                                                                       \
    "sum(time_us) / 1e3 as time_ms, case when ?2 > 0 then sum(time_us) / 1e3 / ?2 end as share"              \
    " from layer_profile where run_id = ?1 group by "

static enum status write_profile(struct document *d)
{
    sqlite3_stmt *select;
    bool row;
    double total = 0, steps = 0;
    enum status status = store_query(d->store, &select, d->err,
                                     "select coalesce(sum(time_us), 0) / 1e3, (select count(*) from (select"
                                     " distinct segment, step from layer_profile where run_id = ?1))"
                                     " from layer_profile where run_id = ?1",
                                     "s", d->run.id);
    if (!status) status = store_step(d->store, select, &row, d->err);
    if (!status && row) {
        total = store_column_double(select, 0);
        steps = sqlite3_column_double(select, 1);
        sqlite3_reset(select);
    }
    json_out_open(&d->out, "profiler_report", '{', JSON_OUT_LINES);
    json_out_real(&d->out, "total_time_ms", total);
    json_out_real(&d->out, "avg_step_ms", steps > 0 ? total / steps : NAN);
    if (!status)
        status = write_query(d, "phase_breakdown", '{', JSON_OUT_FLAT,
                             "select phase, " TIME_AND_SHARE "phase order by time_ms desc, phase", total);
    if (!status) /* ten of them */
        status = write_query(d, "top_operations", '[', JSON_OUT_FLAT,
                             "select op, coalesce(sum(calls), 0) as calls, " TIME_AND_SHARE
                             "op order by time_ms desc, op limit 10",
                             total);
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
    enum status status = write_config(d);
    if (!status) status = write_training(d);
    if (!status) status = write_rows(d, "inference", TABLE_SAMPLES, false, JSON_OUT_LINES);
    json_out_close(&d->out);
    return status;
}

enum status export_json(struct store *store, const char *run_id, const char *path, struct err *err)
{
    struct document d = {.store = store, .err = err};
    struct out_file file;
    enum status status = out_file_open(&file, path, err);
    if (status) return status;
    json_out_begin(&d.out, file.stream);
    status = store_read_begin(store, err);
    if (!status) status = run_get(store, run_id, &d.run, err);
    if (!status) status = run_params_list(store, run_id, &d.arena, &d.params, &d.param_count, err);
    if (!status) status = write_document(&d);
    store_read_end(store);
    arena_release(&d.arena);
    int error = json_out_finish(&d.out);
    return out_file_close(&file, status, error, err);
}
