/* See rollup.h. */
#include "runs/rollup.h"

#include <math.h>

#include "runs/schema.h"
#include "runs/segment.h"

void rollup_bucket_clear(struct rollup_bucket *bucket)
{
    *bucket = (struct rollup_bucket){.min = NAN, .max = NAN, .last = NAN};
}

void rollup_bucket_add(struct rollup_bucket *bucket, double value)
{
    bucket->count++;
    if (!isfinite(value)) {
        bucket->non_finite++;
        return;
    }
    if (!(bucket->min <= value)) bucket->min = value;
    if (!(bucket->max >= value)) bucket->max = value;
    bucket->sum += value;
    bucket->last = value;
}

static void values_of(const struct step_record *record, double values[ROLLUP_METRICS])
{
    values[METRIC_LOSS] = record->loss;
    values[METRIC_LR] = record->lr;
    values[METRIC_GRAD_NORM] = record->grad_norm;
    values[METRIC_CLIP_SCALE] = record->clip_scale;
    values[METRIC_TOKENS_PER_SEC] = record->tokens_per_sec;
    values[METRIC_STEP_MS] = record->step_ms;
    values[METRIC_MFU] = record->mfu;
}

static enum status write_bucket(struct rollup *rollup, int level, struct store *store, const char *run_id,
                                struct err *err)
{
    sqlite3_stmt *insert;
    enum status status =
        store_prepare(store,
                      "insert or replace into rollup(run_id, metric, level, first_step, min, max, mean,"
                      " last, count, non_finite) values(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
                      &insert, err);
    for (int m = 0; !status && m < ROLLUP_METRICS; m++) {
        const struct rollup_bucket *bucket = &rollup->open[level][m];
        int64_t finite = bucket->count - bucket->non_finite;
        if (bucket->count == 0) continue;
        store_bind_text(insert, 1, run_id);
        store_bind_text(insert, 2, metric_name((enum metric)m));
        sqlite3_bind_int64(insert, 3, rollup_level[level]);
        sqlite3_bind_int64(insert, 4, rollup->first_step[level]);
        store_bind_double(insert, 5, bucket->min);
        store_bind_double(insert, 6, bucket->max);
        store_bind_double(insert, 7, finite ? bucket->sum / (double)finite : NAN);
        store_bind_double(insert, 8, bucket->last);
        sqlite3_bind_int64(insert, 9, bucket->count);
        sqlite3_bind_int64(insert, 10, bucket->non_finite);
        status = store_run(store, insert, err);
    }
    rollup->first_step[level] = -1;
    return status;
}

/* Bit m of `present`: the step has a value of metric m. */
static enum status add_values(struct rollup *rollup, struct store *store, const char *run_id, int64_t step,
                              const double values[ROLLUP_METRICS], unsigned present, struct err *err)
{
    enum status status = STATUS_OK;
    for (int level = 0; !status && level < ROLLUP_LEVELS; level++) {
        int64_t size = rollup_level[level], first = step / size * size;
        if (rollup->first_step[level] >= 0 && rollup->first_step[level] != first)
            status = write_bucket(rollup, level, store, run_id, err);
        if (!status && rollup->first_step[level] < 0) {
            rollup->first_step[level] = first;
            for (int m = 0; m < ROLLUP_METRICS; m++) rollup_bucket_clear(&rollup->open[level][m]);
        }
        for (int m = 0; m < ROLLUP_METRICS; m++)
            if (present & 1u << m) rollup_bucket_add(&rollup->open[level][m], values[m]);
        if (!status && step == first + size - 1) status = write_bucket(rollup, level, store, run_id, err);
    }
    return status;
}

enum status rollup_add(struct rollup *rollup, struct store *store, const char *run_id,
                       const struct step_record *record, struct err *err)
{
    double values[ROLLUP_METRICS];
    unsigned present = (1u << ROLLUP_METRICS) - 1;
    values_of(record, values);
    if (isnan(record->mfu)) present &= ~(1u << METRIC_MFU);
    return add_values(rollup, store, run_id, record->step, values, present, err);
}

enum status rollup_end(struct store *store, const char *run_id, int level, int64_t *end, struct err *err)
{
    sqlite3_stmt *statement;
    bool row;
    enum status status = store_prepare(
        store, "select max(first_step) from rollup where run_id = ?1 and metric = 'loss' and level = ?2",
        &statement, err);
    if (status) return status;
    store_bind_text(statement, 1, run_id);
    sqlite3_bind_int64(statement, 2, rollup_level[level]);
    status = store_step(store, statement, &row, err);
    if (status) return status;
    int64_t newest = row ? store_column_int(statement, 0, -1) : -1;
    *end = newest < 0 ? 0 : newest + rollup_level[level];
    sqlite3_reset(statement);
    return STATUS_OK;
}

static enum status replay(struct rollup *rollup, struct store *store, const char *run_id,
                          const struct segment_range *range, struct err *err)
{
    sqlite3_stmt *select;
    bool row;
    /* of each column of the select after `step`: the metric, and the bit that tells NaN from absent */
    static const struct {
        enum metric metric;
        int nan_bit;
    } columns[ROLLUP_METRICS] = {{METRIC_LOSS, NAN_STEP_LOSS},
                                 {METRIC_LR, NAN_STEP_LR},
                                 {METRIC_GRAD_NORM, NAN_STEP_GRAD_NORM},
                                 {METRIC_CLIP_SCALE, NAN_STEP_CLIP_SCALE},
                                 {METRIC_TOKENS_PER_SEC, NAN_STEP_TOKENS_PER_SEC},
                                 {METRIC_STEP_MS, NAN_STEP_STEP_MS},
                                 {METRIC_MFU, 0}};
    enum status status =
        store_prepare(store,
                      "select step, loss, lr, grad_norm, clip_scale, tokens_per_sec, step_ms, mfu, nan from"
                      " steps where run_id = ?1 and segment = ?2 and step between ?3 and ?4"
                      " order by step",
                      &select, err);
    if (status) return status;
    store_bind_text(select, 1, run_id);
    sqlite3_bind_int(select, 2, range->segment);
    sqlite3_bind_int64(select, 3, range->first);
    sqlite3_bind_int64(select, 4, range->last);
    while (!(status = store_step(store, select, &row, err)) && row) {
        double values[ROLLUP_METRICS];
        unsigned present = 0;
        int nan = sqlite3_column_int(select, ROLLUP_METRICS + 1);
        for (int i = 0; i < ROLLUP_METRICS; i++) {
            values[columns[i].metric] = store_column_double(select, i + 1);
            if (!isnan(values[columns[i].metric]) || nan & columns[i].nan_bit)
                present |= 1u << columns[i].metric;
        }
        status = add_values(rollup, store, run_id, sqlite3_column_int64(select, 0), values, present, err);
        if (status) {
            sqlite3_reset(select);
            return status;
        }
    }
    return status;
}

/* Removes the buckets of `level` that reach `first_step` or beyond. */
static enum status remove_from(struct store *store, const char *run_id, int level, int64_t first_step,
                               struct err *err)
{
    enum status status = STATUS_OK;
    for (int m = 0; !status && m < ROLLUP_METRICS; m++) {
        sqlite3_stmt *delete;
        status = store_prepare(
            store, "delete from rollup where run_id = ?1 and metric = ?2 and level = ?3 and first_step > ?4",
            &delete, err);
        if (status) break;
        store_bind_text(delete, 1, run_id);
        store_bind_text(delete, 2, metric_name((enum metric)m));
        sqlite3_bind_int64(delete, 3, rollup_level[level]);
        sqlite3_bind_int64(delete, 4, first_step - rollup_level[level]);
        status = store_run(store, delete, err);
    }
    return status;
}

enum status rollup_begin(struct rollup *rollup, struct store *store, const char *run_id, int segment,
                         int64_t first_step, struct err *err)
{
    int64_t from = first_step;
    enum status status = STATUS_OK;
    for (int level = 0; !status && level < ROLLUP_LEVELS; level++) {
        int64_t end = 0;
        rollup->first_step[level] = -1;
        status = remove_from(store, run_id, level, first_step, err);
        if (!status) status = rollup_end(store, run_id, level, &end, err);
        if (!status && end < from) from = end;
    }
    from = from / rollup_level[ROLLUP_LEVELS - 1] * rollup_level[ROLLUP_LEVELS - 1];
    struct segment_list list = {0};
    if (!status && segment > 1) status = segment_read(store, run_id, segment - 1, &list, err);
    for (size_t i = 0; !status && i < list.count; i++) {
        struct segment_range range = list.ranges[i];
        if (range.first < from) range.first = from;
        if (range.last > first_step - 1) range.last = first_step - 1;
        if (range.first <= range.last) status = replay(rollup, store, run_id, &range, err);
    }
    segment_release(&list);
    return status;
}
