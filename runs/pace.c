/* See pace.h. The points are the ends of the buckets in which a series of step times is read: their sum is
 * the active time. An import may lack these; then they are those of the losses. Tokens and wall time are
 * looked up there in the raw steps. */
#include "runs/pace.h"

#include <math.h>

#include "runs/database.h"
#include "runs/lineage.h"
#include "runs/series.h"

enum { PACE_POINTS = 128 };

struct pace_reader {
    struct store *store;
    struct lineage lineage;
    double base[LINEAGE_MAX]; /* of each run, when its wall time is 0 */
    int joined;               /* the runs from this one on have their base */
    struct err *err;
};

/* The newest row of a step of the run that did it; *found is false where there is none. */
static enum status read_step(struct pace_reader *r, int run, int64_t step, double *tokens, double *wall,
                             double *ms, bool *found)
{
    sqlite3_stmt *select;
    enum status status = store_query(
        r->store, &select, r->err,
        "select tokens, wall_time, step_ms from steps where run_id = ?1 and segment in (select segment from"
        " segments where run_id = ?1) and step = ?2 order by segment desc limit 1",
        "si", r->lineage.runs[run].id, step);
    *found = store_next(r->store, select, &status, r->err);
    if (!*found) return status;
    *tokens = store_column_double(select, 0);
    *wall = store_column_double(select, 1);
    *ms = store_column_double(select, 2);
    sqlite3_reset(select);
    return STATUS_OK;
}

/* Makes the wall times of a run continue those of its parent. */
static enum status join_run(struct pace_reader *r, int run)
{
    const struct ancestor *own = &r->lineage.runs[run];
    double tokens, wall, ms, before = 0;
    bool found;
    enum status status = read_step(r, run, own->first, &tokens, &wall, &ms, &found);
    if (status) return status;
    r->base[run] = found ? wall - (isfinite(ms) ? ms / 1e3 : 0) : NAN;
    if (run + 1 == r->lineage.count) return STATUS_OK;
    status = read_step(r, run + 1, own->parent_step - 1, &tokens, &wall, &ms, &found);
    if (!status && found) before = wall - r->base[run + 1];
    r->base[run] -= before;
    return status;
}

/* The youngest run that has done this step. */
static int run_of(const struct lineage *lineage, int64_t step)
{
    int run = 0;
    while (run + 1 < lineage->count && step < lineage->runs[run].parent_step) run++;
    return run;
}

/* Adds the point at the end of a step, if that is recorded. */
static enum status add_point(struct pace_reader *r, struct pace *pace, int64_t step, double active)
{
    struct pace_point *point = &pace->points[pace->count];
    int run = run_of(&r->lineage, step);
    double ms;
    bool found = false;
    enum status status = STATUS_OK;
    while (!status && r->joined > run) status = join_run(r, --r->joined);
    if (!status)
        status = read_step(r, run, step, &point->at[PACE_TOKENS], &point->at[PACE_WALL], &ms, &found);
    if (status || !found) return status;
    point->step = step;
    point->at[PACE_WALL] -= r->base[run];
    point->at[PACE_ACTIVE] = active;
    for (int u = 0; u < PACE_UNITS; u++) {
        double before = pace->count ? point[-1].at[u] : NAN;
        if (!isfinite(point->at[u]) || point->at[u] < before) point->at[u] = before;
    }
    pace->count++;
    return STATUS_OK;
}

static enum status add_points(struct pace_reader *r, const struct series *series, struct pace *pace)
{
    enum status status = STATUS_OK;
    double active = series->metric == METRIC_STEP_MS ? 0 : NAN;
    for (size_t i = 0; !status && i < series->count; i++) {
        const struct series_point *p = &series->points[i];
        double seconds = p->count > p->non_finite ? p->mean * (double)(p->count - p->non_finite) / 1e3 : 0;
        int64_t first = r->lineage.runs[r->lineage.count - 1].first;
        if (i == 0 && p->last_step > first)
            status = add_point(r, pace, first, active + seconds / (double)(p->last_step - first + 1));
        active += seconds;
        if (!status) status = add_point(r, pace, p->last_step, active);
    }
    return status;
}

enum status pace_read(struct store *store, const char *run_id, struct arena *arena, struct pace *out,
                      struct err *err)
{
    struct pace_reader r = {.store = store, .err = err};
    struct series series = {.inherits = true};
    struct pace pace = {0};
    enum status status = store_read_begin(store, err);
    if (status) return status;
    status = lineage_read(store, run_id, &r.lineage, err);
    r.joined = r.lineage.count;
    store_read_end(store);
    if (!status) status = series_read(store, run_id, METRIC_STEP_MS, 0, -1, PACE_POINTS, &series, err);
    if (!status && !series.count)
        status = series_read(store, run_id, METRIC_LOSS, 0, -1, PACE_POINTS, &series, err);
    if (!status) pace.points = arena_alloc_array(arena, series.count + 2, sizeof *pace.points);
    if (!status && !pace.points) status = err_no_memory(err, "the pace of a run");
    if (!status) status = add_points(&r, &series, &pace);
    series_release(&series);
    if (!status) *out = pace;
    return status;
}

double pace_at(const struct pace *pace, enum pace_unit unit, double step)
{
    size_t i = 0;
    if (!pace->count) return NAN;
    while (i < pace->count && (double)pace->points[i].step < step) i++; /* there are few points */
    if (i == pace->count) return pace->points[i - 1].at[unit];
    const struct pace_point *to = &pace->points[i], *from = i ? to - 1 : to;
    if (from == to || (double)to->step == step) return to->at[unit];
    double t = (step - (double)from->step) / (double)(to->step - from->step);
    return from->at[unit] + t * (to->at[unit] - from->at[unit]);
}

int64_t pace_step(const struct pace *pace, enum pace_unit unit, double value, bool after)
{
    size_t i = 0;
    if (!pace->count) return 0;
    while (i < pace->count && !(pace->points[i].at[unit] >= value)) i++;
    if (after) return pace->points[i < pace->count ? i : pace->count - 1].step;
    return i ? pace->points[i - 1].step : 0;
}
