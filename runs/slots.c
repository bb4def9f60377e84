/* See slots.h. A sample of a device belongs to the step that was being computed: the first one that ends at
 * or after it. */
#include "runs/slots.h"

#include <math.h>
#include <stdio.h>

#include "runs/table.h"

bool slots_hold(enum metric metric)
{
    return metric == METRIC_RANKS || metric == METRIC_DEVICE;
}

/* The end of a step in Unix seconds; NaN: it was not recorded. */
static enum status step_time(struct slots *slots, int64_t step, double *time, struct err *err)
{
    sqlite3_stmt *select;
    enum status status = store_query(slots->store, &select, err,
                                     "select wall_time " COUNTED_STEPS IN_ITS_SEGMENTS "and t.step = ?2",
                                     "si", slots->run_id, step);
    *time = NAN;
    if (!store_next(slots->store, select, &status, err)) return status;
    *time = store_column_double(select, 0);
    sqlite3_reset(select);
    return STATUS_OK;
}

/* Merges the rows of a query, the newest first. */
static enum status merge_rows(struct slots *slots, sqlite3_stmt *select, struct series_point *point,
                              struct err *err)
{
    struct series_point merged = {point->first_step, point->last_step, NAN, NAN, NAN, NAN, 0, 0};
    double newest = NAN;
    enum status status = STATUS_OK;
    while (store_next(slots->store, select, &status, err)) {
        struct series_point value = series_point_of(point->last_step, store_column_double(select, 0));
        if (merged.count == 0) newest = value.last;
        series_point_merge(&merged, &value);
    }
    if (isfinite(newest)) merged.last = newest;
    *point = merged;
    return status;
}

static enum status read_ranks(struct slots *slots, struct series_point *point, struct err *err)
{
    char sql[TABLE_HISTORY_MAX + 240];
    sqlite3_stmt *select;
    const struct column_info *column = table_column(TABLE_RANKS, slots->series->name);
    snprintf(sql, sizeof sql,
             "select v from (select %s as v " COUNTED_RANKS IN_ITS_SEGMENTS
             "and t.step > ?2 and t.step <= ?3 order by t.segment desc, t.step desc limit %d)"
             " where v is not null",
             column->name, SERIES_SLOT_ROWS);
    /* a row has the number of steps done */
    enum status status = store_query(slots->store, &select, err, sql, "sii", slots->run_id, point->first_step,
                                     point->last_step + 1);
    return status ? status : merge_rows(slots, select, point, err);
}

static enum status read_device(struct slots *slots, struct series_point *point, struct err *err)
{
    const struct column_info *column = table_column(TABLE_GPU, slots->series->name);
    char sql[300];
    sqlite3_stmt *select;
    enum status status = STATUS_OK;
    double since = slots->since, until = INFINITY;
    if (isnan(since) && point->first_step > 0) status = step_time(slots, point->first_step - 1, &since, err);
    if (isnan(since) && point->first_step == 0) since = 0;
    if (!status && point->last_step < slots->newest_step)
        status = step_time(slots, point->last_step, &until, err);
    if (status || isnan(until)) return status; /* the next slot has its samples, too */
    slots->since = until;
    if (isnan(since)) return STATUS_OK;
    snprintf(sql, sizeof sql,
             "select v from (select %s as v from gpu_samples where run_id = ?1 and wall_time > ?2 and "
             "wall_time <= ?3"
             " and gpu = ?4 order by wall_time desc limit %d) where v is not null",
             column->name, SERIES_SLOT_ROWS);
    status = store_query(slots->store, &select, err, sql, "sddn", slots->run_id, since, until,
                         slots->series->device);
    return status ? status : merge_rows(slots, select, point, err);
}

enum status slots_read(struct slots *slots, struct series_point *point, struct err *err)
{
    point->count = 0;
    return slots->series->metric == METRIC_RANKS ? read_ranks(slots, point, err)
                                                 : read_device(slots, point, err);
}
