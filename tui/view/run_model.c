/* See run_model.h. */
#include "tui/view/run_model.h"

#include <stdlib.h>
#include <string.h>

#include "tui/view/run_charts.h"

enum { ROWS = 64 /* in each list; no screen has columns for a confusion matrix of more classes */ };

/* Users look for what they can load: of most runs the trainer has removed nearly all that it wrote. */
static void drop_removed_checkpoints(struct store *store, const char *id, struct run_history *history)
{
    size_t n = 0;
    for (size_t i = 0; i < history->checkpoint_count; i++)
        if (run_has_checkpoint(store, id, &history->checkpoints[i]))
            history->checkpoints[n++] = history->checkpoints[i];
    history->checkpoint_count = n;
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
    next.listed_checkpoints = status ? 0 : history->checkpoint_count;
    if (!status) drop_removed_checkpoints(store, id, history);
    if (!status) status = memory_usage_read(store, id, arena, &next.memory, err);
    next.mark_count = 0;
    next.marks =
        arena_alloc_array(arena, history->order_count + history->event_count + 2, sizeof *next.marks);
    if (!status && !next.marks) status = err_no_memory(err, "the run's history");
    if (status) {
        arena_release(arena);
        return status;
    }
    int64_t fork_step = model->series[TRACE_LOSS].fork_step;
    if (fork_step > 0) next.marks[next.mark_count++] = (struct chart_mark){fork_step, false};
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

/* A range that begins later does not show the first step. */
static void find_oldest_step(struct run_model *model)
{
    const struct series *loss = &model->series[TRACE_LOSS], *val = &model->series[TRACE_VAL];
    if (model->first_step > 0) return;
    int64_t oldest = loss->count ? loss->points[0].first_step : INT64_MAX;
    if (val->count && val->points[0].first_step < oldest) oldest = val->points[0].first_step;
    model->oldest_step = oldest == INT64_MAX ? 0 : oldest;
}

/* The shared series that shows a quantity; TRACE_COUNT: none does. */
static enum model_trace shared_trace(const struct quantity *quantity)
{
    return strcmp(quantity->name, "loss") == 0   ? TRACE_LOSS
           : quantity->metric == METRIC_VAL_LOSS ? TRACE_VAL
                                                 : TRACE_COUNT;
}

const struct series *run_model_series(const struct run_model *model, size_t chart)
{
    enum model_trace shared = shared_trace(&model->chart[chart].quantity);
    return shared < TRACE_COUNT ? &model->series[shared] : &model->chart[chart].own;
}

/* Reads a series for the model's range. */
static enum status read_series(struct run_model *model, struct store *store, struct series *series,
                               enum metric metric, struct err *err)
{
    int64_t first = model->first_step, last = model->last_step,
            end = last < 0 || last > model->info.steps ? model->info.steps : last;
    size_t points = end - first <= MODEL_SHORT_RUN ? MODEL_SHORT_RUN : MODEL_POINTS;
    series->inherits = true;
    series->fine_start = model->log_steps;
    return series_read(store, model->info.id, metric, first, last, points, series, err);
}

enum status run_model_show(struct run_model *model, struct store *store, size_t which, struct err *err)
{
    struct model_chart *chart = &model->chart[which];
    enum model_reading was = chart->reading;
    enum status status = STATUS_OK;
    if (was == CHART_CURRENT || shared_trace(&chart->quantity) < TRACE_COUNT) return STATUS_OK;
    chart->own.name = chart->quantity.column;
    chart->own.device = chart->quantity.device;
    if (was == CHART_BEHIND)
        status = series_update(store, model->info.id, &chart->own, err);
    else
        status = read_series(model, store, &chart->own, chart->quantity.metric, err);
    if (!status) chart->reading = CHART_CURRENT;
    chart->values.read = false;
    return status;
}

static void forget_values(struct run_model *model)
{
    for (size_t c = 0; c < model->chart_count; c++) model->chart[c].values.read = false;
}

enum status run_model_values(struct run_model *model, struct store *store, size_t chart, int64_t step,
                             const struct series_value **out, struct err *err)
{
    struct model_values *values = &model->chart[chart].values, next = {true, step, {{0}}};
    const struct series *series[TRACE_COUNT] = {run_model_series(model, chart), &model->series[TRACE_VAL]};
    enum status status = STATUS_OK;
    int count = model->chart[chart].quantity.metric == METRIC_LOSS ? TRACE_COUNT : 1;
    bool read = values->read && values->step == step;
    if (step < 0) step = run_model_newest_step(model);
    for (int t = 0; t < count && !status && !read; t++)
        status = series_value_read(store, model->info.id, series[t], step, &next.at[t], err);
    if (!status && !read) *values = next;
    if (!status) *out = values->at;
    return status;
}

enum status run_model_set_range(struct run_model *model, struct store *store, int64_t first_step,
                                int64_t last_step, struct err *err)
{
    enum status status = STATUS_OK;
    model->first_step = first_step;
    model->last_step = last_step;
    for (int t = 0; t < TRACE_COUNT && !status; t++)
        status =
            read_series(model, store, &model->series[t], t == TRACE_VAL ? METRIC_VAL_LOSS : METRIC_LOSS, err);
    for (size_t c = 0; c < model->chart_count; c++) model->chart[c].reading = CHART_UNREAD;
    forget_values(model);
    if (!status) find_oldest_step(model);
    return status;
}

/* Makes next[] the model's charts; those that it has already bring their series. */
static void replace_charts(struct run_model *model, struct model_chart *next, size_t count)
{
    for (size_t c = 0; c < model->chart_count; c++) {
        struct model_chart *old = &model->chart[c];
        size_t k = 0;
        while (k < count && strcmp(next[k].quantity.name, old->quantity.name) != 0) k++;
        if (k < count) {
            next[k].own = old->own;
            next[k].reading = old->reading;
        } else {
            series_release(&old->own);
        }
    }
    memcpy(model->chart, next, count * sizeof *next);
    model->chart_count = count;
}

enum status run_model_choose(struct run_model *model, struct store *store, const char *names, struct err *err)
{
    struct arena arena = {0};
    struct quantity *all;
    size_t count, which[MODEL_CHARTS_MAX];
    enum status status = run_charts_list(store, model->info.id, model->config, &arena, &all, &count, err);
    if (status) {
        arena_release(&arena);
        return status;
    }
    memset(model->recorded, 0, sizeof model->recorded);
    for (size_t i = 0; i < count; i++)
        if (all[i].metric < METRIC_COUNT) model->recorded[all[i].metric] = true;
    size_t chosen = run_charts_choose(all, count, names, which, MODEL_CHARTS_MAX);
    struct model_chart *next = arena_alloc_array(&arena, MODEL_CHARTS_MAX, sizeof *next);
    if (!next) status = err_no_memory(err, "%zu charts", chosen);
    for (size_t c = 0; !status && c < chosen; c++) next[c] = (struct model_chart){.quantity = all[which[c]]};
    if (!status) replace_charts(model, next, chosen);
    arena_release(&arena);
    return status;
}

enum status run_model_smooth(struct run_model *model, struct store *store, size_t chart, double decay,
                             struct err *err)
{
    forget_values(model);
    if (shared_trace(&model->chart[chart].quantity) == TRACE_LOSS) {
        model->series[TRACE_LOSS].decay = decay;
        return read_series(model, store, &model->series[TRACE_LOSS], METRIC_LOSS, err);
    }
    model->chart[chart].own.decay = decay;
    model->chart[chart].reading = CHART_UNREAD;
    return STATUS_OK;
}

enum status run_model_open(struct run_model *model, struct store *store, const char *run_id, struct err *err)
{
    memset(model, 0, sizeof *model);
    enum status status = run_find(store, run_id, &model->info, err);
    if (!status) status = run_config(store, model->info.id, &model->config, err);
    if (!status) status = run_model_set_range(model, store, 0, -1, err);
    if (!status) status = read_rows(model, store, err);
    if (status) run_model_release(model);
    return status;
}

void run_model_release(struct run_model *model)
{
    for (int t = 0; t < TRACE_COUNT; t++) series_release(&model->series[t]);
    for (size_t c = 0; c < model->chart_count; c++) series_release(&model->chart[c].own);
    arena_release(&model->arena);
    free(model->config);
    memset(model, 0, sizeof *model);
}

enum status run_model_update(struct run_model *model, struct store *store, struct err *err)
{
    enum status status = run_get(store, model->info.id, &model->info, err);
    if (status == STATUS_NOT_FOUND) /* the message that was read last may be that of its deletion */
        snprintf(model->info.message, sizeof model->info.message,
                 "deleted since; this is what was read last");
    if (status) return status;
    for (int t = 0; t < TRACE_COUNT && !status; t++)
        status = series_update(store, model->info.id, &model->series[t], err);
    for (size_t c = 0; c < model->chart_count; c++)
        if (model->chart[c].reading == CHART_CURRENT) model->chart[c].reading = CHART_BEHIND;
    forget_values(model);
    if (!status) find_oldest_step(model);
    return status ? status : read_rows(model, store, err);
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
    if (model->history.measure_count && model->history.measures[0].step > newest)
        newest = model->history.measures[0].step;
    return newest < SERIES_LAST_STEP ? newest : SERIES_LAST_STEP;
}
