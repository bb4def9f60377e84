/* See quantity.h. */
#include "runs/quantity.h"

#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "runs/database.h"

/* A column counts as recorded if one of the newest rows or, for those before, `rollup` has a value; a measure
 * if it is among the newest values. A screen that follows a run asks after each change, so they are few. */
enum { NEWEST_ROWS = 64, MEASURE_ROWS = 4096 /* about 1 ms */, SQL_MAX = 1400 };

struct list {
    struct store *store;
    const char *run_id;
    struct arena *arena;
    struct quantity *rows;
    size_t count;
    struct err *err;
};

static enum status add(struct list *list, const char *prefix, const char *column, enum metric metric,
                       int device)
{
    struct quantity *row = arena_grow(list->arena, &list->rows, list->count, sizeof *row);
    if (!row) return err_no_memory(list->err, "a list of charts");
    *row = (struct quantity){.metric = metric, .device = device};
    char name[QUANTITY_NAME_MAX];
    snprintf(row->column, sizeof row->column, "%s", column);
    snprintf(name, sizeof name, "%s%s", prefix, column);
    clean_line(row->name, sizeof row->name, name);
    for (char *c = row->name; (c = strpbrk(c, ",=")) != NULL;) *c = '_';
    list->count++;
    return STATUS_OK;
}

static enum status add_step_metrics(struct list *list)
{
    char sql[SQL_MAX];
    sqlite3_stmt *select;
    bool known[ROLLUP_METRICS] = {false};
    snprintf(sql, sizeof sql,
             "select count(*) or exists(select 1 from runs where id = ?1 and status = 'finished')"
             " and (exists(select 1 from evals where run_id = ?1)"
             "  or exists(select 1 from measures where run_id = ?1))");
    for (int m = 0; m < ROLLUP_METRICS; m++)
        text_add(sql, sizeof sql, ", ",
                 "max(%s is not null or nan & %d) or"
                 " exists(select 1 from rollup where run_id = ?1 and metric = '%s')",
                 metric_name((enum metric)m), metric_column((enum metric)m)->null,
                 metric_name((enum metric)m));
    text_add(sql, sizeof sql, " ",
             "from (select * from steps where run_id = ?1 order by segment desc, step desc limit %d)",
             NEWEST_ROWS);
    enum status status = store_query(list->store, &select, list->err, sql, "s", list->run_id);
    bool row = store_next(list->store, select, &status, list->err);
    if (status) return status;
    bool any = row && sqlite3_column_int(select, 0) != 0;
    for (int m = 0; m < ROLLUP_METRICS; m++)
        known[m] = any ? sqlite3_column_int(select, m + 1) != 0 : m != METRIC_MFU;
    sqlite3_reset(select);
    for (int m = 0; !status && m < ROLLUP_METRICS; m++)
        if (known[m]) status = add(list, "", metric_name((enum metric)m), (enum metric)m, 0);
    return status;
}

/* Evaluations need not have the same measures, least of all in an import. */
static enum status add_measures(struct list *list)
{
    sqlite3_stmt *select;
    enum status status = store_query(
        list->store, &select, list->err,
        "select distinct name from (select name from measures where run_id = ?1 order by segment desc,"
        " step desc limit ?2) order by name",
        "sn", list->run_id, MEASURE_ROWS);
    while (store_next(list->store, select, &status, list->err)) {
        const char *name = (const char *)sqlite3_column_text(select, 0);
        if (!name || strlen(name) >= QUANTITY_COLUMN_MAX) continue; /* no measure of anneal is so long */
        status = add(list, "", name, METRIC_MEASURE, 0);
    }
    return status;
}

static enum status add_devices(struct list *list)
{
    static const char *const columns[] = {"utilization_pct", "memory_used_bytes", "process_bytes", "power_w",
                                          "temperature_c",   "sm_clock_mhz",      "load_1m"};
    enum { COLUMNS = sizeof columns / sizeof *columns };
    char sql[SQL_MAX], prefix[32];
    sqlite3_stmt *select;
    snprintf(sql, sizeof sql, "select gpu");
    for (int c = 0; c < COLUMNS; c++) text_add(sql, sizeof sql, ", ", "max(%s is not null)", columns[c]);
    text_add(sql, sizeof sql, " ",
             "from (select * from gpu_samples where run_id = ?1 order by wall_time desc limit %d) group by"
             " gpu order by gpu desc",
             NEWEST_ROWS);
    enum status status = store_query(list->store, &select, list->err, sql, "s", list->run_id);
    while (store_next(list->store, select, &status, list->err)) {
        int device = sqlite3_column_int(select, 0);
        snprintf(prefix, sizeof prefix, device < 0 ? "cpu." : "gpu%d.", device);
        for (int c = 0; !status && c < COLUMNS; c++)
            if (sqlite3_column_int(select, c + 1))
                status = add(list, prefix, columns[c], METRIC_DEVICE, device);
    }
    return status;
}

/* Adds a column if a row of the run has a value of it. */
static enum status add_if_any(struct list *list, const char *prefix, enum store_table table,
                              const char *column, enum metric metric)
{
    char sql[SQL_MAX];
    int64_t any = 0;
    snprintf(sql, sizeof sql, "select exists(select 1 from %s where run_id = ?1 and %s is not null)",
             store_tables[table].name, column);
    enum status status = store_number(list->store, &any, 0, list->err, sql, "s", list->run_id);
    return status || !any ? status : add(list, prefix, column, metric, 0);
}

enum status quantity_list(struct store *store, const char *run_id, struct arena *arena, struct quantity **out,
                          size_t *count, struct err *err)
{
    static const struct {
        const char *prefix;
        enum store_table table;
        const char *column;
        enum metric metric;
    } others[] = {
        {"rank.", TABLE_RANKS, "step_ms", METRIC_RANKS},
        {"rank.", TABLE_RANKS, "wait_ms", METRIC_RANKS},
        {"inference.", TABLE_INFERENCE, "decode_tokens_per_sec", METRIC_INFERENCE},
        {"inference.", TABLE_INFERENCE, "prefill_tokens_per_sec", METRIC_INFERENCE},
        {"inference.", TABLE_INFERENCE, "time_to_first_token_ms", METRIC_INFERENCE},
        {"inference.", TABLE_INFERENCE, "latency_median_ms", METRIC_INFERENCE},
    };
    struct list list = {store, run_id, arena, NULL, 0, err};
    enum status status = store_read_begin(store, err);
    if (status) return status;
    status = add_step_metrics(&list);
    if (!status) status = add_if_any(&list, "", TABLE_EVALS, metric_name(METRIC_VAL_LOSS), METRIC_VAL_LOSS);
    if (!status) status = add_measures(&list);
    if (!status) status = add_devices(&list);
    for (size_t i = 0; !status && i < sizeof others / sizeof *others; i++)
        status = add_if_any(&list, others[i].prefix, others[i].table, others[i].column, others[i].metric);
    store_read_end(store);
    if (status) return status;
    *out = list.rows;
    *count = list.count;
    return STATUS_OK;
}
