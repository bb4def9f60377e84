/* See series.h. A range of steps is read from the coarsest stored level that is not coarser than the series.
 * Steps before the first and after the last stored bucket of that level are read from the next finer one,
 * down to the raw steps. All rows are merged into points of the series' level. */
#include "runs/series.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "runs/lineage.h"
#include "runs/slots.h"
#include "runs/table.h"

enum { ROWS_PER_POINT = 12 }; /* with more stored rows per point, a coarser level is used */

struct reader {
    struct store *store;
    const char *run_id;
    struct series *series;
    struct lineage lineage; /* whose steps are read; without runs: those of the run alone */
    int segment;            /* the newest segment with a step; 0: none */
    int64_t newest_step,
        first_new; /* its last step; first step of the segments newer than the series; or -1 */
    int64_t begin; /* the first step of all that is read: no point comes before it */
    struct err *err;
};

/* ---- folding ---- */

/* Adds the values of `point` to the moving average and returns it; NaN when it has none. `ema`: see rollup.h;
 * NaN: not stored. */
static double average(struct series *series, const struct series_point *point, double ema)
{
    int64_t finite = point->count - point->non_finite;
    if (series->decay <= 0 || finite <= 0) return NAN;
    double keep = finite == 1 ? series->decay : pow(series->decay, (double)finite);
    if (isnan(ema)) ema = (1 - keep) * point->mean;
    if (!isfinite(ema)) return NAN;
    series->ema = keep * series->ema + ema;
    series->ema_weight = keep * series->ema_weight + (1 - keep);
    return series->ema / series->ema_weight;
}

static int64_t fineness(const struct series *series)
{
    return slots_hold(series->metric) ? SERIES_FINE_SLOTS : SERIES_FINE;
}

/* The steps of the point that has this one. */
static int64_t level_at(const struct series *series, int64_t step)
{
    int64_t level = series->level;
    while (series->fine_start && level > 1 && level > step / fineness(series)) level /= 2;
    return level;
}

/* The first step of the point that has this one. */
static int64_t start_at(const struct series *series, int64_t step)
{
    int64_t level = level_at(series, step);
    return step / level * level;
}

/* How many points there are more than with equal ones, at most. */
static size_t finer_points(const struct series *series)
{
    size_t count = 0;
    for (int level = series->level; series->fine_start && level > 1; level /= 2)
        count += (size_t)fineness(series);
    return count;
}

/* Appends `point` or merges it into the last one; false when memory is short. A point before the range only
 * counts in the average. */
static bool fold(struct series *series, const struct series_point *point, double smooth)
{
    struct series_point *last = series->count ? &series->points[series->count - 1] : NULL;
    if (point->last_step < series->first_step) return true;
    if (last && start_at(series, last->first_step) == start_at(series, point->first_step)) {
        if (series->smooth && !isnan(smooth)) series->smooth[series->count - 1] = smooth;
        /* a segment has repeated an evaluation that was already read */
        if (series->level == 1)
            *last = *point;
        else
            series_point_merge(last, point);
        return true;
    }
    if (!list_reserve(&series->points, series->count, 1, &series->capacity, sizeof *point) ||
        (series->decay > 0 &&
         !list_reserve(&series->smooth, series->count, 1, &series->smooth_capacity, sizeof smooth)))
        return false;
    if (series->smooth) series->smooth[series->count] = smooth;
    series->points[series->count++] = *point;
    return true;
}

/* Doubles the level until there are at most `most` points, without those that fine_start adds. */
static void coarsen(struct series *series, size_t most)
{
    while (series->count > most + finer_points(series) && series->level < (1 << 30)) {
        size_t count = series->count;
        series->level *= 2;
        series->count = 0;
        for (size_t i = 0; i < count; i++) {
            struct series_point point = series->points[i];
            fold(series, &point, series->smooth ? series->smooth[i] : NAN);
        }
    }
}

/* Adds a point; `ema`: see average. */
static enum status take(struct reader *reader, const struct series_point *point, double ema)
{
    if (fold(reader->series, point, average(reader->series, point, ema))) return STATUS_OK;
    return err_no_memory(reader->err, "a series");
}

/* ---- reading ---- */

/* Evaluations and generated texts are few: all their values are read, and coarsened afterwards. */
static bool are_few(enum metric metric)
{
    return metric == METRIC_VAL_LOSS || metric == METRIC_MEASURE || metric == METRIC_INFERENCE;
}

/* Writes the SQL that reads steps ?2 to ?3; of a measure, ?4 is its name. */
static void format_raw(const struct series *series, char *sql, size_t size)
{
    enum metric metric = series->metric;
    bool measure = metric == METRIC_MEASURE;
    const struct column_info *column = measure ? COLUMN(MEASURES, value)
                                       : metric == METRIC_INFERENCE
                                           ? table_column(TABLE_INFERENCE, series->name)
                                           : metric_column(metric);
    enum store_table table = measure ? TABLE_MEASURES : metric == METRIC_VAL_LOSS ? TABLE_EVALS : TABLE_STEPS;
    if (metric == METRIC_INFERENCE)
        snprintf(sql, size,
                 "select cast(substr(checkpoint, 6) as integer) as step, %s, 0 from inference"
                 " where run_id = ?1 and checkpoint glob 'step-[0-9]*' and step between ?2 and ?3"
                 " order by step, id",
                 column->name);
    else
        snprintf(sql, size,
                 "select step, %s, nan & %d %s" IN_ITS_SEGMENTS
                 "and t.step between ?2 and ?3 %s order by t.segment, t.step",
                 column->name, column->null, table_history(table), measure ? "and t.name = ?4" : "");
}

/* Reads the rows of steps first..last that count (table.h). */
static enum status read_raw(struct reader *reader, int64_t first, int64_t last)
{
    char sql[TABLE_HISTORY_MAX + 280];
    sqlite3_stmt *select;
    format_raw(reader->series, sql, sizeof sql);
    enum status status =
        reader->series->metric == METRIC_MEASURE
            ? store_query(reader->store, &select, reader->err, sql, "siis", reader->run_id, first, last,
                          reader->series->name)
            : store_query(reader->store, &select, reader->err, sql, "sii", reader->run_id, first, last);
    while (store_next(reader->store, select, &status, reader->err)) {
        int64_t step = sqlite3_column_int64(select, 0);
        if (step > reader->series->cursor) reader->series->cursor = step;
        double value = store_column_double(select, 1);
        if (isnan(value) && sqlite3_column_int(select, 2) == 0) continue;
        struct series_point point = series_point_of(step, value);
        reader->series->newest = value;
        status = take(reader, &point, NAN);
    }
    return status;
}

/* The SQL that gives the sums of the series' average. */
static const char *ema_column(const struct series *series)
{
    const char *column = rollup_ema_column(series->decay);
    return column ? column : "null";
}

/* Sets *lacking if a bucket was written without them by an older version. */
static enum status find_lacking(struct reader *reader, int level, int64_t from, int64_t end, bool *lacking)
{
    int64_t found = 0;
    char sql[300];
    snprintf(sql, sizeof sql,
             "select exists(select 1 from rollup where run_id = ?1 and metric = ?2 and level = ?3 and"
             " first_step >= ?4 and first_step < ?5 and count > non_finite and %s is null)",
             ema_column(reader->series));
    enum status status = store_number(reader->store, &found, 0, reader->err, sql, "ssiii", reader->run_id,
                                      metric_name(reader->series->metric), rollup_level[level], from, end);
    *lacking = found != 0;
    return status;
}

static enum status read_buckets(struct reader *reader, int level, int64_t from, int64_t end)
{
    sqlite3_stmt *select;
    char sql[300];
    int64_t size = rollup_level[level];
    snprintf(sql, sizeof sql,
             "select first_step, min, max, mean, last, count, non_finite, %s from rollup where run_id = ?1"
             " and metric = ?2 and level = ?3 and first_step >= ?4 and first_step < ?5 order by first_step",
             ema_column(reader->series));
    enum status status = store_query(reader->store, &select, reader->err, sql, "ssiii", reader->run_id,
                                     metric_name(reader->series->metric), size, from, end);
    while (store_next(reader->store, select, &status, reader->err)) {
        int64_t first = sqlite3_column_int64(select, 0);
        struct series_point point = {first,
                                     first + size - 1,
                                     NAN,
                                     NAN,
                                     NAN,
                                     NAN,
                                     sqlite3_column_int64(select, 5),
                                     sqlite3_column_int64(select, 6)};
        if (point.count > point.non_finite) { /* else they are NULL */
            point.min = sqlite3_column_double(select, 1);
            point.max = sqlite3_column_double(select, 2);
            point.mean = sqlite3_column_double(select, 3);
            point.last = sqlite3_column_double(select, 4);
        }
        status = take(reader, &point, store_column_double(select, 7));
    }
    if (!status && end - 1 > reader->series->cursor) reader->series->cursor = end - 1;
    return status;
}

/* Reads steps first..last from the stored levels up to index `level` (-1: raw steps only). */
static enum status read_range(struct reader *reader, int level, int64_t first, int64_t last)
{
    if (first > last) return STATUS_OK;
    if (level < 0) return read_raw(reader, first, last);
    int64_t size = rollup_level[level], end;
    enum status status = rollup_end(reader->store, reader->run_id, level, &end, reader->err);
    if (status) return status;
    int64_t from = (first + size - 1) / size * size, bound = (last + 1) / size * size;
    if (bound < end) end = bound;
    bool lacking = false;
    if (reader->series->decay > 0 && from < end && end - from <= SERIES_EXACT_STEPS)
        status = find_lacking(reader, level, from, end, &lacking);
    if (status) return status;
    if (lacking || from >= end) return read_range(reader, level - 1, first, last);
    status = read_range(reader, level - 1, first, from - 1);
    if (!status) status = read_buckets(reader, level, from, end);
    if (!status) status = read_range(reader, level - 1, end, last);
    return status;
}

/* Reads values that are recorded by time or by rank, a slot of steps at a time. */
static enum status read_slots(struct reader *reader, int64_t first, int64_t last)
{
    struct series *series = reader->series;
    struct slots slots = {reader->store, reader->run_id, series, reader->newest_step, NAN};
    enum status status = STATUS_OK;
    if (last > reader->newest_step) last = reader->newest_step;
    if (first < reader->begin) first = reader->begin;
    if (last - first > 4 * (int64_t)SERIES_SLOTS * series->level) return STATUS_OK; /* no run is so long */
    for (int64_t at = first; !status && at <= last;) {
        struct series_point point = {.first_step = at,
                                     .last_step = start_at(series, at) + level_at(series, at) - 1};
        if (point.last_step > last) point.last_step = last;
        status = slots_read(&slots, &point, reader->err);
        if (!status && point.count) status = take(reader, &point, NAN);
        at = point.last_step + 1;
    }
    if (!status && last > series->cursor) series->cursor = last;
    return status;
}

/* Reads steps first..last of this run of the lineage, those of its parents first. */
static enum status read_steps(struct reader *reader, int level, int64_t first, int64_t last, int run)
{
    struct series *series = reader->series;
    const struct ancestor *own = &reader->lineage.runs[run];
    bool evaluations = are_few(series->metric);
    enum status status = STATUS_OK;
    if (slots_hold(series->metric)) return read_slots(reader, first, last);
    if (run + 1 < reader->lineage.count) {
        /* steps count from 0, an evaluation has the number of steps done */
        int64_t end = evaluations ? own->parent_step : own->parent_step - 1;
        if (run == 0) series->fork_step = own->parent_step;
        status = read_steps(reader, level, first, end < last ? end : last, run + 1);
    }
    if (status) return status;
    if (run < reader->lineage.count) reader->run_id = own->id;
    return evaluations ? read_raw(reader, first, last) : read_range(reader, level, first, last);
}

/* The index of the coarsest stored level that is not coarser than the series. */
static int stored_level(const struct series *series)
{
    int level = ROLLUP_LEVELS - 1;
    while (level >= 0 && rollup_level[level] > series->level) level--;
    return level;
}

/* Reads steps first..last, each from the coarsest stored level that is not coarser than the points there. */
static enum status read_levels(struct reader *reader, int64_t first, int64_t last)
{
    const struct series *series = reader->series;
    int level = stored_level(series), k = series->fine_start && !are_few(series->metric) ? -1 : level;
    enum status status = STATUS_OK;
    for (; !status && k <= level; k++) {
        int64_t end = k < level ? rollup_level[k + 1] * SERIES_FINE - 1 : last;
        if (end > last) end = last;
        if (first > end && k < level) continue;
        status = read_steps(reader, k, first, end, 0);
        first = end + 1;
    }
    return status;
}

/* The last step that the series may have. */
static int64_t end_of(const struct series *series)
{
    return series->last_step < 0 ? SERIES_LAST_STEP : series->last_step;
}

/* Reads the steps before the range that still count in its averages: those left out weigh less than
 * one part in 10^8 together. */
static enum status read_lead(struct reader *reader)
{
    struct series *series = reader->series;
    if (series->decay <= 0 || series->first_step == 0 || series->metric >= METRIC_VAL_LOSS) return STATUS_OK;
    int64_t lead = (int64_t)(20 / (1 - series->decay)), first = series->first_step - lead;
    return read_steps(reader, 0, first > 0 ? first : 0, series->first_step - 1, 0);
}

/* ---- choosing the level ---- */

static enum status read_segments(struct reader *reader)
{
    sqlite3_stmt *select;
    reader->newest_step = reader->first_new = -1;
    reader->begin = 0;
    enum status status = store_query(
        reader->store, &select, reader->err,
        "select segment, ifnull((select max(step) from steps s where s.run_id = ?1 and s.segment = "
        "g.segment),"
        "  g.first_step - 1),"
        " (select min(first_step) from segments where run_id = ?1 and segment > ?2),"
        " (select min(first_step) from segments where run_id = ?1)"
        " from segments g where run_id = ?1 and first_step is not null order by segment desc limit 1",
        "sn", reader->run_id, reader->series->segment);
    if (!store_next(reader->store, select, &status, reader->err)) return status;
    reader->segment = sqlite3_column_int(select, 0);
    reader->newest_step = store_column_int(select, 1, -1);
    reader->first_new = store_column_int(select, 2, -1);
    reader->begin = store_column_int(select, 3, 0);
    sqlite3_reset(select);
    return STATUS_OK;
}

/* Reads the lineage of a series that inherits, and lowers `begin` to the first step of the run's parents. */
static enum status read_lineage(struct reader *reader)
{
    struct lineage *lineage = &reader->lineage;
    if (!reader->series->inherits) return STATUS_OK;
    enum status status = lineage_read(reader->store, reader->run_id, lineage, reader->err);
    for (int i = 1; !status && i < lineage->count; i++) {
        int64_t first = lineage->runs[i].first;
        if (first >= 0 && first < reader->begin) reader->begin = first;
    }
    if (!status && lineage->count > 1 && reader->newest_step < 0) /* a fork without steps of its own yet */
        reader->newest_step = lineage->runs[0].parent_step - 1;
    return status;
}

static void choose_level(struct reader *reader)
{
    struct series *series = reader->series;
    int64_t first = series->first_step, last = series->last_step, level = 1;
    size_t most = series->max_points;
    series->level = 1;
    if (are_few(series->metric)) return;
    if (last < 0 || last > reader->newest_step) last = reader->newest_step;
    if (first < reader->begin) first = reader->begin;
    int64_t steps = last < first ? 0 : last - first + 1;
    for (int i = 0; i < ROLLUP_LEVELS && series->metric < METRIC_VAL_LOSS &&
                    (size_t)(steps / level / ROWS_PER_POINT) > most;
         i++)
        level = rollup_level[i];
    while (level < (1 << 30) && (size_t)(steps / level) > most) level *= 2;
    series->level = (int)level;
}

enum status series_read(struct store *store, const char *run_id, enum metric metric, int64_t first_step,
                        int64_t last_step, size_t max_points, struct series *series, struct err *err)
{
    struct reader reader = {.store = store, .run_id = run_id, .series = series, .err = err};
    first_step = first_step < 0 ? 0 : first_step > SERIES_LAST_STEP ? SERIES_LAST_STEP : first_step;
    if (series->decay <= 0) {
        free(series->smooth);
        series->smooth = NULL;
        series->smooth_capacity = 0;
    }
    *series = (struct series){.points = series->points,
                              .smooth = series->smooth,
                              .capacity = series->capacity,
                              .smooth_capacity = series->smooth_capacity,
                              .decay = series->decay,
                              .inherits = series->inherits,
                              .fine_start = series->fine_start,
                              .metric = metric,
                              .name = series->name,
                              .device = series->device,
                              .level = 1,
                              .first_step = first_step,
                              .last_step = last_step > SERIES_LAST_STEP ? SERIES_LAST_STEP : last_step,
                              .max_points = max_points == 0                                   ? 1
                                            : slots_hold(metric) && max_points > SERIES_SLOTS ? SERIES_SLOTS
                                                                                              : max_points,
                              .cursor = first_step - 1};
    enum status status = store_read_begin(store, err);
    if (status) return status;
    status = read_segments(&reader);
    if (!status) status = read_lineage(&reader);
    if (!status) {
        choose_level(&reader);
        status = read_lead(&reader);
    }
    if (!status) status = read_levels(&reader, series->first_step, end_of(series));
    series->segment = reader.segment;
    store_read_end(store);
    if (status)
        series->count = 0;
    else if (are_few(metric))
        coarsen(series, series->max_points);
    return status;
}

/* Drops the whole points from step `bound` on, and reads from there again. */
static void drop_replaced(struct series *series, int64_t bound)
{
    bound = start_at(series, bound);
    if (bound < series->first_step) bound = series->first_step;
    while (series->count && series->points[series->count - 1].last_step >= bound) series->count--;
    if (bound <= series->cursor) series->cursor = bound - 1;
}

enum status series_update(struct store *store, const char *run_id, struct series *series, struct err *err)
{
    struct reader reader = {.store = store, .run_id = run_id, .series = series, .err = err};
    int64_t before = series->cursor;
    double ema = series->ema, weight = series->ema_weight;
    enum status status = store_read_begin(store, err);
    if (status) return status;
    status = read_segments(&reader);
    if (!status && reader.first_new >= 0 && series->decay > 0) {
        store_read_end(store);
        return series_read(store, run_id, series->metric, series->first_step, series->last_step,
                           series->max_points, series, err);
    }
    if (!status && reader.first_new >= 0) {
        drop_replaced(series, reader.first_new);
        series->segment = reader.segment;
    }
    if (!status && slots_hold(series->metric) && series->count) /* more may have been recorded in its time */
        series->cursor = series->points[--series->count].first_step - 1;
    if (!status && series->cursor < series->fork_step)
        status = lineage_read(store, run_id, &reader.lineage, err);
    if (!status) status = read_levels(&reader, series->cursor + 1, end_of(series));
    store_read_end(store);
    if (status) {
        series->cursor = before;
        series->ema = ema;
        series->ema_weight = weight;
        return status;
    }
    if (series->count > 2 * series->max_points + finer_points(series)) coarsen(series, series->max_points);
    return STATUS_OK;
}

/* The index after the last point that begins at or before `step`. */
static size_t points_until(const struct series *series, int64_t step)
{
    size_t lo = 0, hi = series->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (series->points[mid].first_step <= step)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

enum status series_value_read(struct store *store, const char *run_id, const struct series *series,
                              int64_t step, struct series_value *out, struct err *err)
{
    size_t end = points_until(series, step);
    const struct series_point *point = end ? &series->points[end - 1] : NULL;
    *out = (struct series_value){false, NAN, NAN};
    if (!point) return STATUS_OK;
    if (slots_hold(series->metric)) {
        *out = (struct series_value){true, point->last, NAN};
        return STATUS_OK;
    }
    /* the step itself; if it has none, what its point holds before it, or the point before */
    int64_t from[] = {step, end > 1 ? point[-1].first_step : point->first_step},
            to[] = {step, step < point->last_step ? step : point->last_step};
    struct series exact = {.name = series->name, .decay = series->decay, .inherits = series->inherits};
    enum status status = STATUS_OK;
    for (int i = 0; i < 2 && !status && !exact.count; i++)
        status = series_read(store, run_id, series->metric, from[i], to[i], SIZE_MAX, &exact, err);
    if (!status && exact.count)
        *out = (struct series_value){true, exact.newest, exact.smooth ? exact.smooth[exact.count - 1] : NAN};
    series_release(&exact);
    return status;
}

void series_release(struct series *series)
{
    free(series->points);
    free(series->smooth);
    *series = (struct series){0};
}
