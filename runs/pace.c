/* See pace.h. The points are the ends of the buckets in which a series of step times is read: their sum is
 * the active time. Tokens and wall time are looked up there in the raw steps. */
#include "runs/pace.h"

#include <math.h>
#include <stdio.h>

#include "runs/database.h"
#include "runs/run.h"
#include "runs/series.h"

enum { PACE_POINTS = 128, PARENTS_MAX = 64 };

/* The run that did a range of the steps: a fork's own steps follow those of its parents. */
struct stretch {
    char id[RUN_ID_MAX];
    int64_t first;       /* its first step; -1: none is recorded */
    int64_t parent_step; /* where it was forked; 0: nowhere */
    double base;         /* what to subtract from wall times */
};

struct pace_reader {
    struct store *store;
    struct stretch stretches[PARENTS_MAX]; /* the run first, then its parents */
    int count, joined;                     /* the stretches from `joined` on have their base */
    struct err *err;
};

/* Lists the run and its parents. */
static enum status read_stretches(struct pace_reader *r, const char *run_id)
{
    char id[RUN_ID_MAX];
    snprintf(id, sizeof id, "%s", run_id);
    while (*id && r->count < PARENTS_MAX) {
        sqlite3_stmt *select;
        bool row;
        struct stretch *stretch = &r->stretches[r->count++];
        snprintf(stretch->id, sizeof stretch->id, "%s", id);
        stretch->first = -1;
        *id = '\0';
        enum status status =
            store_query(r->store, &select, r->err,
                        "select (select min(first_step) from segments where run_id = r.id), r.parent_step,"
                        " p.id from runs r left join runs p on p.id = r.parent_id where r.id = ?1",
                        "s", stretch->id);
        if (!status) status = store_step(r->store, select, &row, r->err);
        if (status || !row) return status;
        stretch->first = store_column_int(select, 0, -1);
        stretch->parent_step = store_column_int(select, 1, 0);
        if (stretch->parent_step > 0) store_column_text(select, 2, id, sizeof id);
        sqlite3_reset(select);
    }
    r->joined = r->count;
    return STATUS_OK;
}

/* The newest row of a step of the run that did it; *found is false where there is none. */
static enum status read_step(struct pace_reader *r, int stretch, int64_t step, double *tokens, double *wall,
                             double *ms, bool *found)
{
    sqlite3_stmt *select;
    enum status status = store_query(
        r->store, &select, r->err,
        "select tokens, wall_time, step_ms from steps where run_id = ?1 and segment in (select segment from"
        " segments where run_id = ?1) and step = ?2 order by segment desc limit 1",
        "si", r->stretches[stretch].id, step);
    if (!status) status = store_step(r->store, select, found, r->err);
    if (status || !*found) return status;
    *tokens = store_column_double(select, 0);
    *wall = store_column_double(select, 1);
    *ms = store_column_double(select, 2);
    sqlite3_reset(select);
    return STATUS_OK;
}

/* Makes the wall times of a stretch continue those of its parent. */
static enum status join_stretch(struct pace_reader *r, int s)
{
    struct stretch *own = &r->stretches[s];
    double tokens, wall, ms, before = 0;
    bool found;
    enum status status = read_step(r, s, own->first, &tokens, &wall, &ms, &found);
    if (status) return status;
    own->base = found ? wall - (isfinite(ms) ? ms / 1e3 : 0) : NAN;
    if (s + 1 == r->count) return STATUS_OK;
    status = read_step(r, s + 1, own->parent_step - 1, &tokens, &wall, &ms, &found);
    if (!status && found) before = wall - own[1].base;
    own->base -= before;
    return status;
}

/* The youngest run that has done this step. */
static int stretch_of(const struct pace_reader *r, int64_t step)
{
    int s = 0;
    while (s + 1 < r->count && step < r->stretches[s].parent_step) s++;
    return s;
}

/* Adds the point at the end of a step, if that is recorded. */
static enum status add_point(struct pace_reader *r, struct pace *pace, int64_t step, double active)
{
    struct pace_point *point = &pace->points[pace->count];
    int s = stretch_of(r, step);
    double ms;
    bool found = false;
    enum status status = STATUS_OK;
    while (!status && r->joined > s) status = join_stretch(r, --r->joined);
    if (!status) status = read_step(r, s, step, &point->at[PACE_TOKENS], &point->at[PACE_WALL], &ms, &found);
    if (status || !found) return status;
    point->step = step;
    point->at[PACE_WALL] -= r->stretches[s].base;
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
    double active = 0;
    for (size_t i = 0; !status && i < series->count; i++) {
        const struct series_point *p = &series->points[i];
        double seconds = p->count > p->non_finite ? p->mean * (double)(p->count - p->non_finite) / 1e3 : 0;
        int64_t first = r->stretches[r->count - 1].first;
        if (i == 0 && p->last_step > first)
            status = add_point(r, pace, first, seconds / (double)(p->last_step - first + 1));
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
    status = read_stretches(&r, run_id);
    store_read_end(store);
    if (!status) status = series_read(store, run_id, METRIC_STEP_MS, 0, -1, PACE_POINTS, &series, err);
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
