/* See rollup.h. */
#include "runs/rollup.h"

#include <math.h>
#include <stdio.h>

#include "core/base/text.h"
#include "runs/table.h"

/* ---- metrics and points ---- */

static const struct column_info *const columns[METRIC_COUNT] = {
    [METRIC_LOSS] = COLUMN(STEPS, loss),
    [METRIC_LR] = COLUMN(STEPS, lr),
    [METRIC_GRAD_NORM] = COLUMN(STEPS, grad_norm),
    [METRIC_CLIP_SCALE] = COLUMN(STEPS, clip_scale),
    [METRIC_TOKENS_PER_SEC] = COLUMN(STEPS, tokens_per_sec),
    [METRIC_STEP_MS] = COLUMN(STEPS, step_ms),
    [METRIC_MFU] = COLUMN(STEPS, mfu),
    [METRIC_VAL_LOSS] = COLUMN(EVALS, val_loss),
};

const struct column_info *metric_column(enum metric metric)
{
    return columns[metric];
}

const char *metric_name(enum metric metric)
{
    return metric_column(metric)->name;
}

struct series_point series_point_of(int64_t step, double value)
{
    bool finite = isfinite(value);
    if (!finite) value = NAN;
    return (struct series_point){step, step, value, value, value, value, 1, !finite};
}

void series_point_merge(struct series_point *into, const struct series_point *next)
{
    int64_t a = into->count - into->non_finite, b = next->count - next->non_finite;
    into->last_step = next->last_step;
    into->count += next->count;
    into->non_finite += next->non_finite;
    if (b == 0) return;
    into->min = fmin(into->min, next->min);
    into->max = fmax(into->max, next->max);
    into->mean = a ? into->mean + (next->mean - into->mean) * ((double)b / (double)(a + b)) : next->mean;
    into->last = next->last;
}

/* ---- buckets ---- */

const char *rollup_ema_column(double decay)
{
    static const struct column_info *const ema[ROLLUP_DECAYS] = {
        COLUMN(ROLLUP, ema_9), COLUMN(ROLLUP, ema_99), COLUMN(ROLLUP, ema_999)};
    for (int d = 0; d < ROLLUP_DECAYS; d++)
        if (rollup_decay[d] == decay) return ema[d]->name;
    return NULL;
}

static void add_value(struct rollup_bucket *bucket, int64_t step, double value)
{
    struct series_point point = series_point_of(step, value);
    series_point_merge(&bucket->point, &point);
    for (int d = 0; d < ROLLUP_DECAYS && !point.non_finite; d++)
        bucket->ema[d] = rollup_decay[d] * bucket->ema[d] + (1 - rollup_decay[d]) * value;
}

static enum status write_bucket(struct rollup *rollup, int level, struct store *store, const char *run_id,
                                struct err *err)
{
    enum status status = STATUS_OK;
    for (int m = 0; !status && m < ROLLUP_METRICS; m++) {
        const struct series_point *bucket = &rollup->open[level][m].point;
        const double *ema = rollup->open[level][m].ema;
        if (bucket->count == 0) continue;
        status =
            store_do(store, err,
                     "insert or replace into rollup(run_id, metric, level, first_step, min, max, mean, last,"
                     " count, non_finite, ema_9, ema_99, ema_999)"
                     " values(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
                     "ssiiddddiiddd", run_id, metric_name((enum metric)m), rollup_level[level],
                     rollup->first_step[level], bucket->min, bucket->max, bucket->mean, bucket->last,
                     bucket->count, bucket->non_finite, ema[0], ema[1], ema[2]);
    }
    rollup->first_step[level] = -1;
    return status;
}

/* Bit m of `present` is set if the step has a value of metric m. */
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
            for (int m = 0; m < ROLLUP_METRICS; m++)
                rollup->open[level][m] =
                    (struct rollup_bucket){.point = {.min = NAN, .max = NAN, .mean = NAN, .last = NAN}};
        }
        for (int m = 0; m < ROLLUP_METRICS; m++)
            if (present & 1u << m) add_value(&rollup->open[level][m], step, values[m]);
        if (!status && step == first + size - 1) status = write_bucket(rollup, level, store, run_id, err);
    }
    return status;
}

enum status rollup_add(struct rollup *rollup, struct store *store, const char *run_id,
                       const struct step_record *record, struct err *err)
{
    double values[ROLLUP_METRICS];
    unsigned present = 0;
    for (int m = 0; m < ROLLUP_METRICS; m++) {
        const struct column_info *column = metric_column((enum metric)m);
        values[m] = column_number(column, record);
        if (column->null || !isnan(values[m])) present |= 1u << m;
    }
    return add_values(rollup, store, run_id, record->step, values, present, err);
}

enum status rollup_end(struct store *store, const char *run_id, int level, int64_t *end, struct err *err)
{
    return store_number(store, end, 0, err,
                        "select max(first_step) + ?2 from rollup where run_id = ?1 and metric = 'loss' and"
                        " level = ?2",
                        "si", run_id, rollup_level[level]);
}

/* Adds those of the steps first to end - 1 that count (table.h). */
static enum status replay(struct rollup *rollup, struct store *store, const char *run_id, int64_t first,
                          int64_t end, struct err *err)
{
    sqlite3_stmt *select;
    char sql[800];
    snprintf(sql, sizeof sql, "select step, nan");
    for (int m = 0; m < ROLLUP_METRICS; m++)
        text_add(sql, sizeof sql, ", ", "%s", metric_name((enum metric)m));
    text_add(sql, sizeof sql, " ",
             COUNTED_STEPS IN_ITS_SEGMENTS "and step >= ?2 and step < ?3 order by t.segment, t.step");
    enum status status = store_query(store, &select, err, sql, "sii", run_id, first, end);
    while (store_next(store, select, &status, err)) {
        double values[ROLLUP_METRICS];
        unsigned present = 0;
        int nan = sqlite3_column_int(select, 1);
        for (int m = 0; m < ROLLUP_METRICS; m++) {
            values[m] = store_column_double(select, m + 2);
            if (!isnan(values[m]) || nan & metric_column((enum metric)m)->null) present |= 1u << m;
        }
        status = add_values(rollup, store, run_id, sqlite3_column_int64(select, 0), values, present, err);
    }
    return status;
}

enum status rollup_begin(struct rollup *rollup, struct store *store, const char *run_id, int64_t first_step,
                         struct err *err)
{
    int64_t end, from = first_step, largest = rollup_level[ROLLUP_LEVELS - 1];
    enum status status = STATUS_OK;
    for (int level = 0; !status && level < ROLLUP_LEVELS; level++) {
        for (int m = 0; !status && m < ROLLUP_METRICS; m++)
            status = store_do(store, err,
                              "delete from rollup where run_id = ?1 and metric = ?2 and level = ?3"
                              " and first_step > ?4",
                              "ssii", run_id, metric_name((enum metric)m), rollup_level[level],
                              first_step - rollup_level[level]);
        if (status) break;
        rollup->first_step[level] = -1;
        status = rollup_end(store, run_id, level, &end, err);
        if (!status && end < from) from = end;
    }
    return status ? status : replay(rollup, store, run_id, from / largest * largest, first_step, err);
}
