/* See run_model.h. */
#include "tui/view/run_model.h"

#include <stdlib.h>
#include <string.h>

#include "tui/widget/smooth.h"

enum { ROWS = 64, SAMPLES = 32 };

static const enum metric metrics[TRACE_COUNT] = {
    [TRACE_LOSS] = METRIC_LOSS,      [TRACE_VAL] = METRIC_VAL_LOSS,         [TRACE_LR] = METRIC_LR,
    [TRACE_GRAD] = METRIC_GRAD_NORM, [TRACE_SPEED] = METRIC_TOKENS_PER_SEC,
};

static void drop_smooth(struct run_model *model, int trace)
{
    free(model->smooth[trace]);
    model->smooth[trace] = NULL;
    model->smooth_capacity[trace] = 0;
}

/* After any change of the series, failed ones too: a smoothed line is as long as its series, or absent. */
static enum status smooth_all(struct run_model *model, struct err *err)
{
    enum status status = STATUS_OK;
    for (int t = 0; t < TRACE_COUNT; t++) {
        const struct series *series = &model->series[t];
        if (model->decay <= 0 || t == TRACE_VAL || t == TRACE_LR) {
            drop_smooth(model, t);
            continue;
        }
        if (!model->smooth[t] || series->count > model->smooth_capacity[t]) {
            size_t capacity = series->count * 2 + 64;
            drop_smooth(model, t);
            model->smooth[t] = malloc(capacity * sizeof *model->smooth[t]);
            if (!model->smooth[t]) {
                status = err_set(err, STATUS_NO_MEMORY, "no memory to smooth %zu points", series->count);
                continue;
            }
            model->smooth_capacity[t] = capacity;
        }
        smooth_points(series->points, series->count, model->decay, model->smooth[t]);
    }
    return status;
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
    if (!status) {
        next.mark_count = 0;
        next.marks = arena_alloc_array(&next.arena, next.order_count + 1, sizeof *next.marks);
        if (!next.marks) status = err_set(err, STATUS_NO_MEMORY, "no memory for the run's history");
    }
    if (status) {
        arena_release(&next.arena);
        return status;
    }
    for (size_t i = 0; i < next.order_count; i++)
        if (next.orders[i].applied_step >= 0) next.marks[next.mark_count++] = next.orders[i].applied_step;
    arena_release(&model->arena);
    *model = next;
    return STATUS_OK;
}

enum status run_model_set_range(struct run_model *model, struct store *store, int64_t first_step,
                                int64_t last_step, double decay, struct err *err)
{
    size_t points = decay > 0 ? MODEL_RAW_POINTS : MODEL_POINTS;
    enum status status = STATUS_OK;
    for (int t = 0; t < TRACE_COUNT && !status; t++)
        status = series_read(store, model->info.id, metrics[t], first_step, last_step, points,
                             &model->series[t], err);
    model->first_step = first_step;
    model->last_step = last_step;
    model->decay = decay;
    enum status smoothed = smooth_all(model, status ? NULL : err);
    return status ? status : smoothed;
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
        free(model->smooth[t]);
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
        status = series_update(store, model->info.id, &model->series[t], &changed, err);
    }
    enum status smoothed = smooth_all(model, status ? NULL : err);
    if (status || smoothed) return status ? status : smoothed;
    return read_rows(model, store, err);
}

int64_t run_model_newest_step(const struct run_model *model)
{
    const struct series *loss = &model->series[TRACE_LOSS];
    int64_t newest = loss->count ? loss->points[loss->count - 1].last_step : -1;
    if (model->has_last && model->last.step > newest) newest = model->last.step;
    return newest;
}
