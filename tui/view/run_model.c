/* See run_model.h. */
#include "tui/view/run_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 64 /* in each list */ };

static const enum metric metrics[TRACE_COUNT] = {
    [TRACE_LOSS] = METRIC_LOSS,       [TRACE_VAL] = METRIC_VAL_LOSS,         [TRACE_LR] = METRIC_LR,
    [TRACE_GRAD] = METRIC_GRAD_NORM,  [TRACE_SPEED] = METRIC_TOKENS_PER_SEC, [TRACE_OTHER] = METRIC_LOSS,
    [TRACE_MEASURE] = METRIC_MEASURE,
};

void smooth_points(const struct series_point *points, size_t count, double decay, double *out)
{
    double acc = 0, weight = 0; /* weight is 1 - decay^t */
    for (size_t i = 0; i < count; i++) {
        int64_t finite = points[i].count - points[i].non_finite;
        if (finite > 0 && isfinite(points[i].mean)) {
            double keep = finite == 1 ? decay : pow(decay, (double)finite);
            acc = keep * acc + (1 - keep) * points[i].mean;
            weight = keep * weight + (1 - keep);
        }
        out[i] = finite > 0 && weight > 0 ? acc / weight : NAN;
    }
}

static enum status smooth_trace(struct run_model *model, int t, struct err *err)
{
    const struct series *series = &model->series[t];
    size_t group = series->count / (2 * MODEL_POINTS) + 1, count = 0;
    double *smooth = arena_alloc_array(&model->smooth_arena, series->count + 1, sizeof *smooth);
    struct series_point *points =
        arena_alloc_array(&model->smooth_arena, series->count / group + 1, sizeof *points);
    if (!smooth || !points)
        return err_set(err, STATUS_NO_MEMORY, "no memory to smooth %zu points", series->count);
    smooth_points(series->points, series->count, model->decay, smooth);
    for (size_t i = 0; i < series->count; i += group) {
        size_t n = series->count - i < group ? series->count - i : group;
        points[count] = series->points[i];
        for (size_t k = 1; k < n; k++) series_point_merge(&points[count], &series->points[i + k]);
        smooth[count++] = smooth[i + n - 1];
    }
    model->smoothed[t] = (struct chart_trace){.points = points, .smooth = smooth, .count = count};
    return STATUS_OK;
}

/* The few evaluations and the schedule of the learning rate are shown as they are. */
static bool is_smoothed(int t)
{
    return t != TRACE_VAL && t != TRACE_LR && t != TRACE_MEASURE;
}

/* Call after any change of the series, even a failed one: smoothed traces must not outlive them. */
static enum status smooth_all(struct run_model *model, struct err *err)
{
    enum status status = STATUS_OK;
    arena_release(&model->smooth_arena);
    memset(model->smoothed, 0, sizeof model->smoothed);
    for (int t = 0; t < TRACE_COUNT && model->decay > 0 && !status; t++)
        if (is_smoothed(t)) status = smooth_trace(model, t, err);
    return status;
}

struct chart_trace run_model_trace(const struct run_model *model, enum model_trace t)
{
    if (model->smoothed[t].count) return model->smoothed[t];
    return (struct chart_trace){.points = model->series[t].points, .count = model->series[t].count};
}

static enum status read_rows(struct run_model *model, struct store *store, struct err *err)
{
    struct run_model next = *model; /* keep the old rows until all new ones are read */
    struct arena *arena = &next.arena;
    const char *id = model->info.id;
    *arena = (struct arena){0};
    enum status status = run_last_step(store, id, &next.last, err);
    next.has_last = status == STATUS_OK;
    if (status == STATUS_NOT_FOUND) status = STATUS_OK;
    struct run_history *history = &next.history;
    if (!status) status = run_history_read(store, id, ROWS, arena, history, err);
    if (!status) status = memory_usage_read(store, id, arena, &next.memory, err);
    next.mark_count = 0;
    next.marks =
        arena_alloc_array(arena, history->order_count + history->event_count + 1, sizeof *next.marks);
    if (!status && !next.marks) status = err_set(err, STATUS_NO_MEMORY, "no memory for the run's history");
    if (status) {
        arena_release(arena);
        return status;
    }
    for (size_t i = 0; i < history->order_count; i++)
        if (history->orders[i].applied_step >= 0)
            next.marks[next.mark_count++] = (struct chart_mark){history->orders[i].applied_step, false};
    for (size_t i = 0; i < history->event_count; i++)
        if (history->events[i].step >= 0 && strcmp(history->events[i].level, "info") != 0)
            next.marks[next.mark_count++] = (struct chart_mark){history->events[i].step, true};
    arena_release(&model->arena);
    *model = next;
    return STATUS_OK;
}

/* The id of the run of a trace; "" for none. */
static const char *run_of(const struct run_model *model, int t)
{
    if (t == TRACE_MEASURE && !*model->measure) return "";
    return t == TRACE_OTHER ? model->other.id : model->info.id;
}

/* The last step to read of the other run; a longer range would come in wider buckets. While this run trains
 * the range is doubled, so that the model seldom has to read again. */
static int64_t other_end(const struct run_model *model, int64_t last_step)
{
    if (last_step >= 0) return last_step;
    int64_t steps = model->info.steps > 0 ? model->info.steps : 0;
    bool live = model->info.status == RUN_RUNNING || model->info.status == RUN_PAUSED;
    return live ? steps * 2 + MODEL_SHORT_RUN / 4 : steps;
}

/* A range that begins later does not show the first step. */
static void find_oldest_step(struct run_model *model)
{
    const struct series *loss = &model->series[TRACE_LOSS], *val = &model->series[TRACE_VAL];
    if (model->first_step > 0) return;
    int64_t oldest = loss->count ? loss->points[0].first_step : INT64_MAX;
    if (val->count && val->points[0].first_step < oldest) oldest = val->points[0].first_step;
    model->oldest_step = oldest == INT64_MAX ? 0 : oldest;
}

enum status run_model_set_range(struct run_model *model, struct store *store, int64_t first_step,
                                int64_t last_step, double decay, struct err *err)
{
    int64_t end = last_step < 0 || last_step > model->info.steps ? model->info.steps : last_step;
    size_t points = end - first_step <= MODEL_SHORT_RUN ? MODEL_SHORT_RUN : MODEL_POINTS;
    enum status status = STATUS_OK;
    model->series[TRACE_MEASURE].measure = model->measure;
    for (int t = 0; t < TRACE_COUNT && !status; t++)
        if (run_of(model, t)[0])
            status =
                series_read(store, run_of(model, t), metrics[t], first_step,
                            t == TRACE_OTHER ? other_end(model, last_step) : last_step,
                            decay > 0 && is_smoothed(t) ? MODEL_RAW_POINTS : points, &model->series[t], err);
    model->first_step = first_step;
    model->last_step = last_step;
    model->decay = decay;
    if (!status) find_oldest_step(model);
    enum status smoothed = smooth_all(model, status ? NULL : err);
    return status ? status : smoothed;
}

enum status run_model_compare(struct run_model *model, struct store *store, const char *run_id,
                              struct err *err)
{
    series_release(&model->series[TRACE_OTHER]);
    model->other = (struct run_info){0};
    if (strcmp(run_id, model->info.id) == 0) return STATUS_OK;
    if (run_find(store, run_id, &model->other, err)) return err->status;
    return run_model_set_range(model, store, model->first_step, model->last_step, model->decay, err);
}

enum status run_model_next_measure(struct run_model *model, struct store *store, struct err *err)
{
    const struct run_history *h = &model->history; /* newest first, and of a step the last name first */
    const char *next = "";
    for (size_t i = 0; i < h->measure_count && h->measures[i].step == h->measures[0].step; i++)
        if (strncmp(h->measures[i].name, model->measure, sizeof model->measure - 1) > 0)
            next = h->measures[i].name;
    series_release(&model->series[TRACE_MEASURE]);
    snprintf(model->measure, sizeof model->measure, "%s", next);
    return run_model_set_range(model, store, model->first_step, model->last_step, model->decay, err);
}

enum status run_model_open(struct run_model *model, struct store *store, const char *run_id, struct err *err)
{
    memset(model, 0, sizeof *model);
    enum status status = run_find(store, run_id, &model->info, err);
    if (!status) status = run_config(store, model->info.id, &model->config, err);
    if (!status) status = run_model_set_range(model, store, 0, -1, 0, err);
    if (!status) status = read_rows(model, store, err);
    if (status) run_model_release(model);
    return status;
}

void run_model_release(struct run_model *model)
{
    for (int t = 0; t < TRACE_COUNT; t++) series_release(&model->series[t]);
    arena_release(&model->smooth_arena);
    arena_release(&model->arena);
    free(model->config);
    memset(model, 0, sizeof *model);
}

enum status run_model_update(struct run_model *model, struct store *store, struct err *err)
{
    if (run_find(store, model->info.id, &model->info, err)) return err->status;
    enum status status = STATUS_OK;
    for (int t = 0; t < TRACE_COUNT && !status; t++)
        if (run_of(model, t)[0]) status = series_update(store, run_of(model, t), &model->series[t], err);
    if (!status && model->other.id[0] && model->last_step < 0 &&
        model->info.steps > model->series[TRACE_OTHER].last_step)
        status = run_model_set_range(model, store, model->first_step, -1, model->decay, err);
    if (!status) find_oldest_step(model);
    enum status smoothed = smooth_all(model, status ? NULL : err);
    if (status || smoothed) return status ? status : smoothed;
    return read_rows(model, store, err);
}

const struct event_record *run_model_event_beside(const struct run_model *model, int64_t step, bool later)
{
    const struct event_record *best = NULL;
    for (size_t i = 0; i < model->history.event_count; i++) { /* newest first */
        const struct event_record *event = &model->history.events[i];
        if (event->step < 0 || (later ? event->step <= step : event->step >= step)) continue;
        bool nearer = !best || (later ? event->step <= best->step : event->step >= best->step);
        if (nearer) best = event;
    }
    return best;
}

int64_t run_model_newest_step(const struct run_model *model)
{
    const struct series *loss = &model->series[TRACE_LOSS];
    int64_t newest = loss->count ? loss->points[loss->count - 1].last_step : -1;
    if (model->has_last && model->last.step > newest) newest = model->last.step;
    /* steps count from 0, an evaluation stores the steps done: the last one lies after the last step */
    if (model->history.eval_count && model->history.evals[0].step > newest)
        newest = model->history.evals[0].step;
    return newest;
}
