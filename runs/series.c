/* See series.h. A range of steps is read from the coarsest stored level that is not coarser than the series.
 * Steps before the first and after the last stored bucket of that level are read from the next finer one,
 * down to the raw steps. All rows are merged into points of the series' level. */
#include "runs/series.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "runs/table.h"

enum { ROWS_PER_POINT = 16 /* with more stored rows per point, a coarser level is used */ };

#define LAST_STEP (INT64_C(1) << 60) /* a larger number is not a step */

struct reader {
    struct store *store;
    const char *run_id;
    struct series *series;
    int segment; /* the newest segment with a step; 0: none */
    int64_t newest_step,
        first_new; /* its last step; first step of the segments newer than the series; or -1 */
    struct err *err;
};

/* ---- folding ---- */

/* Appends `point` or merges it into the last one; false when memory is short. */
static bool fold(struct series *series, const struct series_point *point)
{
    struct series_point *last = series->count ? &series->points[series->count - 1] : NULL;
    if (last && last->first_step / series->level == point->first_step / series->level) {
        /* a segment has repeated an evaluation that was already read */
        if (series->level == 1)
            *last = *point;
        else
            series_point_merge(last, point);
        return true;
    }
    if (!list_reserve(&series->points, series->count, 1, &series->capacity, sizeof *point)) return false;
    series->points[series->count++] = *point;
    return true;
}

/* Doubles the level until there are at most `most` points. */
static void coarsen(struct series *series, size_t most)
{
    while (series->count > most && series->level < (1 << 30)) {
        size_t count = series->count;
        series->level *= 2;
        series->count = 0;
        for (size_t i = 0; i < count; i++) {
            struct series_point point = series->points[i];
            fold(series, &point);
        }
    }
}

static enum status no_memory(sqlite3_stmt *select, struct err *err)
{
    sqlite3_reset(select);
    return err_set(err, STATUS_NO_MEMORY, "reading a series: not enough memory");
}

/* ---- reading ---- */

/* Evaluations are few: all their values are read, and coarsened afterwards. */
static bool is_of_evaluations(enum metric metric)
{
    return metric >= METRIC_VAL_LOSS;
}

/* Reads the rows of steps first..last that count (table.h). */
static enum status read_raw(struct reader *reader, int64_t first, int64_t last)
{
    enum metric metric = reader->series->metric;
    bool measure = metric == METRIC_MEASURE;
    const struct column_info *column =
        measure ? &store_columns[COLUMN_MEASURES_value] : metric_column(metric);
    char sql[TABLE_HISTORY_MAX + 240], from[TABLE_HISTORY_MAX];
    sqlite3_stmt *select;
    bool row;
    /* with the list of segments SQLite can look up each one's steps by number */
    snprintf(sql, sizeof sql,
             "select step, %s, nan & %d %s and t.segment in (select segment from segments where"
             " run_id = ?1) and t.step between ?2 and ?3 %s order by t.segment, t.step",
             column->name, column->null,
             table_history(measure                     ? TABLE_MEASURES
                           : metric == METRIC_VAL_LOSS ? TABLE_EVALS
                                                       : TABLE_STEPS,
                           from),
             measure ? "and t.name = ?4" : "");
    enum status status =
        measure ? store_query(reader->store, &select, reader->err, sql, "siis", reader->run_id, first, last,
                              reader->series->measure)
                : store_query(reader->store, &select, reader->err, sql, "sii", reader->run_id, first, last);
    while (!status && !(status = store_step(reader->store, select, &row, reader->err)) && row) {
        int64_t step = sqlite3_column_int64(select, 0);
        if (step > reader->series->cursor) reader->series->cursor = step;
        double value = store_column_double(select, 1);
        if (isnan(value) && sqlite3_column_int(select, 2) == 0) continue;
        struct series_point point = series_point_of(step, value);
        if (!fold(reader->series, &point)) return no_memory(select, reader->err);
    }
    return status;
}

static enum status read_buckets(struct reader *reader, int level, int64_t from, int64_t end)
{
    sqlite3_stmt *select;
    bool row;
    int64_t size = rollup_level[level];
    enum status status =
        store_query(reader->store, &select, reader->err,
                    "select first_step, min, max, mean, last, count, non_finite from rollup where"
                    " run_id = ?1 and metric = ?2 and level = ?3 and first_step >= ?4 and"
                    " first_step < ?5 order by first_step",
                    "ssiii", reader->run_id, metric_name(reader->series->metric), size, from, end);
    while (!status && !(status = store_step(reader->store, select, &row, reader->err)) && row) {
        int64_t first = sqlite3_column_int64(select, 0);
        struct series_point point = {first,
                                     first + size - 1,
                                     store_column_double(select, 1),
                                     store_column_double(select, 2),
                                     store_column_double(select, 3),
                                     store_column_double(select, 4),
                                     sqlite3_column_int64(select, 5),
                                     sqlite3_column_int64(select, 6)};
        if (!fold(reader->series, &point)) return no_memory(select, reader->err);
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
    if (from >= end) return read_range(reader, level - 1, first, last);
    status = read_range(reader, level - 1, first, from - 1);
    if (!status) status = read_buckets(reader, level, from, end);
    if (!status) status = read_range(reader, level - 1, end, last);
    return status;
}

static enum status read_from(struct reader *reader, int64_t first)
{
    struct series *series = reader->series;
    int64_t last = series->last_step < 0 ? LAST_STEP : series->last_step;
    if (is_of_evaluations(series->metric)) return read_raw(reader, first, last);
    int level = ROLLUP_LEVELS - 1;
    while (level >= 0 && rollup_level[level] > series->level) level--;
    return read_range(reader, level, first, last);
}

/* ---- choosing the level ---- */

static enum status read_segments(struct reader *reader)
{
    sqlite3_stmt *select;
    bool row;
    reader->newest_step = reader->first_new = -1;
    enum status status = store_query(
        reader->store, &select, reader->err,
        "select segment, (select max(step) from steps s where s.run_id = ?1 and s.segment = g.segment),"
        " (select min(first_step) from segments where run_id = ?1 and segment > ?2)"
        " from segments g where run_id = ?1 and first_step is not null order by segment desc limit 1",
        "sn", reader->run_id, reader->series->segment);
    if (!status) status = store_step(reader->store, select, &row, reader->err);
    if (status || !row) return status;
    reader->segment = sqlite3_column_int(select, 0);
    reader->newest_step = store_column_int(select, 1, -1);
    reader->first_new = store_column_int(select, 2, -1);
    sqlite3_reset(select);
    return STATUS_OK;
}

static void choose_level(struct reader *reader)
{
    struct series *series = reader->series;
    int64_t last = series->last_step, level = 1;
    size_t most = series->max_points;
    series->level = 1;
    if (is_of_evaluations(series->metric)) return;
    if (last < 0 || last > reader->newest_step) last = reader->newest_step;
    int64_t steps = last < series->first_step ? 0 : last - series->first_step + 1;
    for (int i = 0; i < ROLLUP_LEVELS && (size_t)(steps / level / ROWS_PER_POINT) > most; i++)
        level = rollup_level[i];
    while (level < (1 << 30) && (size_t)(steps / level) > most) level *= 2;
    series->level = (int)level;
}

enum status series_read(struct store *store, const char *run_id, enum metric metric, int64_t first_step,
                        int64_t last_step, size_t max_points, struct series *series, struct err *err)
{
    struct reader reader = {.store = store, .run_id = run_id, .series = series, .err = err};
    first_step = first_step < 0 ? 0 : first_step > LAST_STEP ? LAST_STEP : first_step;
    *series = (struct series){.points = series->points,
                              .capacity = series->capacity,
                              .metric = metric,
                              .measure = series->measure,
                              .level = 1,
                              .first_step = first_step,
                              .last_step = last_step > LAST_STEP ? LAST_STEP : last_step,
                              .max_points = max_points ? max_points : 1,
                              .cursor = first_step - 1};
    enum status status = store_read_begin(store, err);
    if (status) return status;
    status = read_segments(&reader);
    if (!status) {
        choose_level(&reader);
        status = read_from(&reader, series->first_step);
    }
    series->segment = reader.segment;
    store_read_end(store);
    if (status)
        series->count = 0;
    else if (is_of_evaluations(metric))
        coarsen(series, series->max_points);
    return status;
}

/* Drops the whole points from step `bound` on, and reads from there again. */
static void drop_replaced(struct series *series, int64_t bound)
{
    bound = bound / series->level * series->level;
    if (bound < series->first_step) bound = series->first_step;
    while (series->count && series->points[series->count - 1].last_step >= bound) series->count--;
    if (bound <= series->cursor) series->cursor = bound - 1;
}

enum status series_update(struct store *store, const char *run_id, struct series *series, struct err *err)
{
    struct reader reader = {.store = store, .run_id = run_id, .series = series, .err = err};
    int64_t before = series->cursor;
    enum status status = store_read_begin(store, err);
    if (status) return status;
    status = read_segments(&reader);
    if (!status && reader.first_new >= 0) {
        drop_replaced(series, reader.first_new);
        series->segment = reader.segment;
    }
    if (!status) status = read_from(&reader, series->cursor + 1);
    store_read_end(store);
    if (status) {
        series->cursor = before;
        return status;
    }
    if (series->count > 2 * series->max_points) coarsen(series, series->max_points);
    return STATUS_OK;
}

void series_release(struct series *series)
{
    free(series->points);
    *series = (struct series){0};
}
