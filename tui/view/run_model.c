/* See run_model.h. */
#include "tui/view/run_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 64, SAMPLES = 32 };

static const enum metric metrics[TRACE_COUNT] = {
    [TRACE_LOSS] = METRIC_LOSS,      [TRACE_VAL] = METRIC_VAL_LOSS,         [TRACE_LR] = METRIC_LR,
    [TRACE_GRAD] = METRIC_GRAD_NORM, [TRACE_SPEED] = METRIC_TOKENS_PER_SEC, [TRACE_OTHER] = METRIC_LOSS,
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
        out[i] = weight > 0 ? acc / weight : NAN;
    }
}

static enum status smooth_trace(struct run_model *model, int t, struct err *err)
{
    const struct series *series = &model->series[t];
    if (!model->smoothed[t].smooth || series->count > model->smoothed[t].capacity) {
        size_t capacity = series->count * 2 + 64;
        double *smooth = realloc(model->smoothed[t].smooth, capacity * sizeof *smooth);
        if (smooth) model->smoothed[t].smooth = smooth;
        struct series_point *points = realloc(model->smoothed[t].points, capacity * sizeof *points);
        if (points) model->smoothed[t].points = points;
        if (!smooth || !points)
            return err_set(err, STATUS_NO_MEMORY, "no memory to smooth %zu points", series->count);
        model->smoothed[t].capacity = capacity;
    }
    double *smooth = model->smoothed[t].smooth;
    smooth_points(series->points, series->count, model->decay, smooth);
    size_t group = series->count / (2 * MODEL_POINTS) + 1, count = 0;
    for (size_t i = 0; i < series->count; i += group) {
        size_t n = series->count - i < group ? series->count - i : group;
        struct series_point *point = &model->smoothed[t].points[count];
        *point = series->points[i];
        for (size_t k = 1; k < n; k++) series_point_merge(point, &series->points[i + k]);
        smooth[count++] = smooth[i + n - 1];
    }
    model->smoothed[t].count = count;
    model->smoothed[t].valid = true;
    return STATUS_OK;
}

/* After any change of the series, failed ones too: what is drawn never outlives the series it came from. */
static enum status smooth_all(struct run_model *model, struct err *err)
{
    enum status status = STATUS_OK;
    for (int t = 0; t < TRACE_COUNT; t++) {
        model->smoothed[t].valid = false;
        if (model->decay > 0 && t != TRACE_VAL && t != TRACE_LR && smooth_trace(model, t, err))
            status = STATUS_NO_MEMORY;
    }
    return status;
}

struct model_curve run_model_curve(const struct run_model *model, int t)
{
    if (model->smoothed[t].valid && model->smoothed[t].count)
        return (struct model_curve){model->smoothed[t].points, model->smoothed[t].smooth,
                                    model->smoothed[t].count};
    return (struct model_curve){model->series[t].points, NULL, model->series[t].count};
}

static enum status read_rows(struct run_model *model, struct store *store, struct err *err)
{
    struct run_model next = *model; /* the old rows stay until all new ones are there */
    const char *id = model->info.id;
    arena_init(&next.arena, 16384);
    enum status status = series_last_step(store, id, &next.last, err);
    next.has_last = status == STATUS_OK;
    if (status == STATUS_NOT_FOUND) status = STATUS_OK;
    if (!status)
        status = series_stopping(store, id, ROWS, &next.arena, &next.stopping, &next.stopping_count, err);
    if (!status) status = series_evals(store, id, ROWS, &next.arena, &next.evals, &next.eval_count, err);
    if (!status)
        status = series_samples(store, id, SAMPLES, &next.arena, &next.samples, &next.sample_count, err);
    if (!status) status = series_events(store, id, ROWS, &next.arena, &next.events, &next.event_count, err);
    if (!status)
        status =
            series_checkpoints(store, id, ROWS, &next.arena, &next.checkpoints, &next.checkpoint_count, err);
    if (!status) status = order_list(store, id, ROWS, &next.arena, &next.orders, &next.order_count, err);
    if (!status) status = memory_usage_read(store, id, &next.arena, &next.memory, err);
    if (!status) {
        next.mark_count = next.event_mark_count = 0;
        next.marks = arena_alloc_array(&next.arena, next.order_count + 1, sizeof *next.marks);
        next.event_marks = arena_alloc_array(&next.arena, next.event_count + 1, sizeof *next.event_marks);
        if (!next.marks || !next.event_marks)
            status = err_set(err, STATUS_NO_MEMORY, "no memory for the run's history");
    }
    if (status) {
        arena_release(&next.arena);
        return status;
    }
    for (size_t i = 0; i < next.order_count; i++)
        if (next.orders[i].applied_step >= 0) next.marks[next.mark_count++] = next.orders[i].applied_step;
    for (size_t i = 0; i < next.event_count; i++)
        if (next.events[i].step >= 0 && strcmp(next.events[i].level, "info") != 0)
            next.event_marks[next.event_mark_count++] = next.events[i].step;
    arena_release(&model->arena);
    *model = next;
    return STATUS_OK;
}

/* The run that a trace is of; "" for no run. */
static const char *run_of(const struct run_model *model, int t)
{
    return t == TRACE_OTHER ? model->other.id : model->info.id;
}

/* The last step that is read of the other run: no more than this one has, or a long one would be read in
 * buckets as wide as this one. While this one goes on the range is twice as long, so that it is seldom read
 * anew. */
static int64_t other_end(const struct run_model *model, int64_t last_step)
{
    if (last_step >= 0) return last_step;
    int64_t steps = model->info.steps > 0 ? model->info.steps : 0;
    bool live = model->info.status == RUN_RUNNING || model->info.status == RUN_PAUSED;
    return live ? steps * 2 + MODEL_SHORT_RUN / 4 : steps;
}

enum status run_model_set_range(struct run_model *model, struct store *store, int64_t first_step,
                                int64_t last_step, double decay, struct err *err)
{
    int64_t end = last_step < 0 || last_step > model->info.steps ? model->info.steps : last_step;
    size_t points = end - first_step <= MODEL_SHORT_RUN ? MODEL_SHORT_RUN : MODEL_POINTS;
    if (decay > 0) points = MODEL_RAW_POINTS;
    enum status status = STATUS_OK;
    for (int t = 0; t < TRACE_COUNT && !status; t++)
        if (run_of(model, t)[0])
            status = series_read(store, run_of(model, t), metrics[t], first_step,
                                 t == TRACE_OTHER ? other_end(model, last_step) : last_step, points,
                                 &model->series[t], err);
    model->first_step = first_step;
    model->last_step = last_step;
    model->decay = decay;
    enum status smoothed = smooth_all(model, status ? NULL : err);
    return status ? status : smoothed;
}

enum status run_model_compare(struct run_model *model, struct store *store, const char *run_id,
                              struct err *err)
{
    struct run_info other = {0};
    series_release(&model->series[TRACE_OTHER]);
    model->other = other;
    if (strcmp(run_id, model->info.id) == 0) return STATUS_OK;
    if (run_find(store, run_id, &other, err)) return err->status;
    model->other = other;
    return run_model_set_range(model, store, model->first_step, model->last_step, model->decay, err);
}

enum status run_model_open(struct run_model *model, struct store *store, const char *run_id, struct err *err)
{
    memset(model, 0, sizeof *model);
    arena_init(&model->arena, 16384);
    enum status status = run_find(store, run_id, &model->info, err);
    if (!status) status = run_config(store, model->info.id, &model->config, err);
    if (!status) status = run_model_set_range(model, store, 0, -1, 0, err);
    if (!status) status = read_rows(model, store, err);
    if (status) run_model_release(model);
    return status;
}

void run_model_release(struct run_model *model)
{
    for (int t = 0; t < TRACE_COUNT; t++) {
        series_release(&model->series[t]);
        free(model->smoothed[t].points);
        free(model->smoothed[t].smooth);
    }
    arena_release(&model->arena);
    free(model->config);
    memset(model, 0, sizeof *model);
}

enum status run_model_update_info(struct run_model *model, struct store *store, struct err *err)
{
    struct run_info info;
    if (run_find(store, model->info.id, &info, err)) return err->status;
    model->info = info;
    return STATUS_OK;
}

enum status run_model_update(struct run_model *model, struct store *store, struct err *err)
{
    if (run_model_update_info(model, store, err)) return err->status;
    enum status status = STATUS_OK;
    for (int t = 0; t < TRACE_COUNT && !status; t++) {
        bool changed;
        if (run_of(model, t)[0])
            status = series_update(store, run_of(model, t), &model->series[t], &changed, err);
    }
    if (!status && model->other.id[0] && model->last_step < 0 &&
        model->info.steps > model->series[TRACE_OTHER].last_step)
        status = run_model_set_range(model, store, model->first_step, -1, model->decay, err);
    enum status smoothed = smooth_all(model, status ? NULL : err);
    if (status || smoothed) return status ? status : smoothed;
    return read_rows(model, store, err);
}

const struct event_record *run_model_event_beside(const struct run_model *model, int64_t step, bool later)
{
    const struct event_record *best = NULL;
    for (size_t i = 0; i < model->event_count; i++) { /* newest first */
        const struct event_record *event = &model->events[i];
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
    /* steps count from 0, an evaluation carries how many were done: the last one lies after the last step */
    if (model->eval_count && model->evals[0].step > newest) newest = model->evals[0].step;
    return newest;
}
