/* The view of one run: header, live charts, sample text, events, and keys that send orders to its trainer.
 * Works the same on live and ended runs. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tui/view/chart_window.h"
#include "tui/view/labels.h"
#include "tui/view/run_charts.h"
#include "tui/view/save.h"
#include "tui/view/workbench.h"

enum { TEXT_ROWS = 4 /* of a sample below the ranks */ };

struct run_state {
    struct run_model model;
    struct chart_window window; /* its charts are those of the model */
    bool enlarged;
    bool log[MODEL_CHARTS_MAX];
    size_t sample; /* 0: the newest; of a classifier: the first class shown */
    int64_t order; /* id of the last order sent until it takes effect; 0: none */
};

/* ---- what is remembered ---- */

static void recall_charts(struct workbench *workbench, struct run_state *state)
{
    for (size_t c = 0; c < state->model.chart_count; c++) {
        const struct quantity *quantity = &state->model.chart[c].quantity;
        double decay = run_chart_recall(&workbench->settings, quantity, &state->log[c]);
        if (run_model_series(&state->model, c)->decay != decay)
            workbench_did(workbench,
                          run_model_smooth(&state->model, workbench->store, c, decay, &workbench->err));
    }
}

static void remember_chart(struct workbench *workbench, const struct run_state *state, size_t chart)
{
    run_chart_remember(&workbench->settings, &state->model.chart[chart].quantity, state->log[chart],
                       run_model_series(&state->model, chart)->decay);
}

/* The window of the run that was zoomed last: its id, the number of steps, the last one or -1. */
static void remember_zoom(struct workbench *workbench, const struct run_state *state)
{
    char words[RUN_ID_MAX + 48];
    snprintf(words, sizeof words, "%s %" PRId64 " %" PRId64, state->model.info.id, state->window.span,
             state->window.end);
    settings_set(&workbench->settings, "run.zoom", words);
}

static void recall_zoom(const struct workbench *workbench, struct run_state *state)
{
    const char *words = settings_get(&workbench->settings, "run.zoom");
    size_t n = strlen(state->model.info.id);
    int64_t span, end;
    if (strncmp(words, state->model.info.id, n) != 0 || words[n] != ' ' ||
        sscanf(words + n, " %" SCNd64 " %" SCNd64, &span, &end) != 2 || span <= 0 ||
        span > state->model.info.steps || end > state->model.info.steps)
        return;
    state->window.span = span;
    state->window.end = end < 0 ? -1 : end;
}

/* Makes the charts that the user has chosen for runs of this kind. The focus stays on its chart. */
static void choose_charts(struct workbench *workbench, struct run_state *state)
{
    char key[32];
    size_t *focus = &state->window.focus;
    const struct quantity focused = state->model.chart[*focus].quantity;
    bool any = *focus < state->model.chart_count;
    snprintf(key, sizeof key, "run.charts.%s", run_charts_kind(state->model.config));
    const char *names = settings_get(&workbench->settings, key);
    workbench_did(workbench, run_model_choose(&state->model, workbench->store, names, &workbench->err));
    recall_charts(workbench, state);
    *focus = 0;
    for (size_t c = 0; any && c < state->model.chart_count; c++)
        if (strcmp(state->model.chart[c].quantity.name, focused.name) == 0) *focus = c;
}

/* Tells the window which steps there are. */
static void count_steps(struct run_state *state)
{
    state->window.oldest = state->model.oldest_step;
    state->window.newest = run_model_newest_step(&state->model);
    state->window.live = status_is_live(state->model.info.status);
}

/* Reads the series again if the range on the screen, or its axis, needs another resolution. */
static void refine(struct workbench *workbench, struct run_state *state, bool anew)
{
    struct run_model *model = &state->model;
    int64_t first, last, want_first = 0, want_last = -1;
    chart_window_range(&state->window, &first, &last);
    if (state->window.span > 0) { /* add room on both sides, so that not every move reads */
        int64_t room = state->window.span / 2;
        want_first = first > room ? first - room : 0;
        if (state->window.end >= 0) want_last = last + room;
    }
    bool covered = model->first_step <= first && (model->last_step < 0 || model->last_step >= last);
    bool wide = (last - model->first_step) / 8 > last - first && model->series[TRACE_LOSS].level > 1;
    if (!anew && covered && !wide && model->log_steps == state->window.log_steps) return;
    model->log_steps = state->window.log_steps;
    workbench_did(workbench,
                  run_model_set_range(model, workbench->store, want_first, want_last, &workbench->err));
}

static enum status run_open(struct workbench *workbench, void *opaque, const char *argument, struct err *err)
{
    struct run_state *state = opaque;
    if (run_model_open(&state->model, workbench->store, argument, err)) return err->status;
    chart_window_init(&state->window, &workbench->settings);
    count_steps(state);
    choose_charts(workbench, state);
    recall_zoom(workbench, state);
    refine(workbench, state, false);
    memcpy(workbench->visited, state->model.info.id, sizeof workbench->visited);
    return STATUS_OK;
}

static void run_close(void *opaque)
{
    run_model_release(&((struct run_state *)opaque)->model);
}

static bool run_read(struct workbench *workbench, void *opaque, bool store_changed)
{
    struct run_state *state = opaque;
    struct run_model *model = &state->model;
    struct store *store = workbench->store;
    if (!store_changed && !status_is_live(model->info.status)) return false;
    if (!store_changed) { /* liveness and heartbeat change without a commit */
        workbench_did(workbench, run_get(store, model->info.id, &model->info, &workbench->err));
        state->window.live = status_is_live(model->info.status);
        return true;
    }
    const struct run_history *h = &model->history;
    bool reads = state->sample && !h->class_count && state->sample < h->sample_count;
    int64_t read_step = reads ? h->samples[state->sample].step : -1;
    if (!workbench_did(workbench, run_model_update(model, store, &workbench->err))) return true;
    for (size_t i = 0; reads && i < h->sample_count; i++) /* newer ones come before it */
        if (h->samples[i].step == read_step) state->sample = i;
    count_steps(state);
    choose_charts(workbench, state);
    if (state->window.span > 0) refine(workbench, state, false);
    if (state->order && workbench_order_done(workbench, model->info.id, state->order, false))
        state->order = 0;
    return true;
}

static struct chart_trace *add_trace(struct chart *chart, const struct series *series, const char *name,
                                     enum style style)
{
    struct chart_trace *added = &chart->trace[chart->trace_count++];
    *added = (struct chart_trace){.name = name,
                                  .points = series->points,
                                  .smooth = series->smooth,
                                  .count = series->count,
                                  .fork_step = series->fork_step,
                                  .style = style};
    return added;
}

/* Sets the star at the best evaluation, in the chart of what is followed and in those of the loss. */
static void mark_best(struct chart *chart, const struct run_model *model, const struct quantity *quantity)
{
    const struct run_info *info = &model->info;
    bool loss = quantity->metric == METRIC_LOSS || quantity->metric == METRIC_VAL_LOSS,
         measure = quantity->metric == METRIC_MEASURE && strcmp(quantity->column, info->best_metric) == 0;
    chart->best_step = measure || (loss && !*info->best_metric) ? info->best_step : -1;
    chart->best = measure ? info->best_value : info->best_val_loss;
}

/* The chart borrows the title of `look`. */
static struct chart make_chart(const struct run_state *state, size_t which, struct chart_look *look)
{
    const struct run_model *model = &state->model;
    const struct quantity *quantity = &model->chart[which].quantity;
    const struct series *series = run_model_series(model, which);
    *look = run_chart_look(quantity);
    bool loss = quantity->metric == METRIC_LOSS;
    struct chart chart = {.log = state->log[which],
                          .focused = which == state->window.focus,
                          .ended = !status_is_live(model->info.status),
                          .decay = series->decay,
                          .marks = model->marks,
                          .mark_count = model->mark_count,
                          .events = loss};
    run_chart_dress(look, &chart);
    chart_window_fill(&state->window, &chart);
    mark_best(&chart, model, quantity);
    add_trace(&chart, series, loss ? "train" : NULL, look->style)->marks = look->marks;
    if (loss) add_trace(&chart, &model->series[TRACE_VAL], "val", STYLE_VAL)->marks = true;
    return chart;
}

static void draw_chart(struct workbench *workbench, struct run_state *state, struct grid *grid,
                       struct rect area, size_t which)
{
    struct run_model *model = &state->model;
    struct chart_look look;
    const struct series_value *values;
    workbench_did(workbench, run_model_show(model, workbench->store, which, &workbench->err));
    struct chart chart = make_chart(state, which, &look);
    bool read = workbench_did(workbench, run_model_values(model, workbench->store, which,
                                                          state->window.cursor, &values, &workbench->err));
    for (int t = 0; t < chart.trace_count && read; t++) chart.trace[t].at = &values[t];
    chart_window_add(&state->window, area, which);
    chart_draw(grid, area, &chart);
}

static void save(struct workbench *workbench, struct run_state *state, bool entered)
{
    struct chart_look look;
    size_t chart = state->window.focus;
    if (chart >= state->model.chart_count) {
        workbench_say(workbench, "there is no chart to save");
        return;
    }
    if (!workbench_did(workbench, run_model_show(&state->model, workbench->store, chart, &workbench->err)))
        return;
    struct chart shown = make_chart(state, chart, &look);
    save_shown(workbench, &shown, NULL, state->model.info.name, entered);
}

/* Draws the charts that have room, the focused one in place of the last if it has none. */
static void draw_charts(struct workbench *workbench, struct run_state *state, struct grid *grid,
                        const struct run_layout *layout)
{
    size_t last = (size_t)layout->chart_count - 1, focus = state->window.focus;
    chart_window_clear(&state->window);
    for (size_t c = 0; c <= last && c < state->model.chart_count; c++)
        draw_chart(workbench, state, grid, layout->chart[c], c == last && focus > last ? focus : c);
}

/* Leaves `others` rows of the area if it can, but takes enough for the slowest rank. */
static void draw_ranks(struct grid *grid, struct rect *area, const struct run_model *model, int rows,
                       int others)
{
    enum { LEAST = 3 };
    int most = area->h - others > area->h / 2 ? area->h - others : area->h / 2;
    if (most < LEAST) most = LEAST;
    struct rect ranks = {area->x, area->y, area->w, rows < most ? rows : most};
    if (ranks.h <= area->h) rect_skip(area, panel_draw_ranks(grid, ranks, model));
}

static void run_draw(struct workbench *workbench, void *opaque, struct grid *grid)
{
    struct run_state *state = opaque;
    const struct run_model *model = &state->model;
    struct run_layout layout;
    int classes = (int)model->history.class_count, text = classes ? 2 + classes : 0,
        ranks = model->history.rank_count > 1 ? 2 + (int)model->history.rank_count : 0;
    if (ranks && !text) text = TEXT_ROWS;
    layout_run(grid->w, grid->h, state->enlarged ? 1 : (int)model->chart_count, ranks + text, &layout);
    workbench_hint(workbench, &model->info);
    workbench_hint_charts(workbench, state->window.span > 0, model->history.event_count > 0);
    panel_draw_header(grid, layout.header, model, &workbench->keymap, workbench->now);
    draw_charts(workbench, state, grid, &layout);
    if (ranks) draw_ranks(grid, &layout.sample, model, ranks, text);
    int used = classes ? panel_draw_confusion(grid, layout.sample, model, &workbench->keymap, &state->sample)
                       : panel_draw_sample(grid, layout.sample, model, &workbench->keymap, state->sample);
    if (layout.events.h > 0)
        rect_skip(&layout.events, used - layout.sample.h); /* events get the text's blank rows */
    panel_draw_events(grid, layout.events, model);
    if (layout.side.w) panel_draw_side(grid, layout.side, model, &workbench->keymap);
}

/* Moves the cursor to an event and shows its sentence. Without a cursor the next event is the first. */
static void move_to_event(struct workbench *workbench, struct run_state *state, bool later)
{
    int64_t from = state->window.cursor < 0 && !later ? INT64_MAX : state->window.cursor;
    const struct event_record *event = run_model_event_beside(&state->model, from, later);
    char text[512];
    snprintf(text, sizeof text, "no event %s this step", later ? "after" : "before");
    if (event) {
        panel_event_text(event, text, sizeof text);
        chart_window_place(&state->window, event->step);
        refine(workbench, state, false);
    }
    workbench_say(workbench, "%s", text);
}

/* Smooths the focused chart with the next factor. */
static void cycle_smoothing(struct workbench *workbench, struct run_state *state)
{
    struct run_model *model = &state->model;
    size_t chart = state->window.focus;
    if (chart >= model->chart_count) return;
    struct chart_look look = run_chart_look(&model->chart[chart].quantity);
    double next = run_chart_next_decay(run_model_series(model, chart)->decay);
    if (!look.smoothable) {
        workbench_say(workbench, "%s is shown as it is", look.title);
        return;
    }
    if (!workbench_did(workbench, run_model_smooth(model, workbench->store, chart, next, &workbench->err)))
        return;
    workbench_say(workbench,
                  next > 0 ? "%s smoothed by %g a step; the values themselves are dimmed behind"
                           : "%s without smoothing",
                  look.title, next);
    remember_chart(workbench, state, chart);
}

/* To an older or newer sample; of a classifier up or down the list of its classes. */
static void move_text(struct run_state *state, bool up)
{
    const struct run_history *h = &state->model.history;
    if (h->class_count ? up : !up)
        state->sample -= state->sample > 0;
    else
        state->sample += state->sample + 1 < (h->class_count ? h->class_count : h->sample_count);
}

/* Opens the view on this run that the action asks for; false: it asks for none. */
static bool open_view(struct workbench *workbench, const struct run_state *state, enum action action)
{
    static const struct view_ops *const views[ACTION_COUNT] = {[ACTION_CHARTS] = &charts_view,
                                                               [ACTION_MEMORY] = &memory_view,
                                                               [ACTION_PROFILE] = &profile_view,
                                                               [ACTION_STOPPING] = &stopping_view,
                                                               [ACTION_CONFIGURATION] = &configuration_view,
                                                               [ACTION_CHECKPOINTS] = &checkpoints_view,
                                                               [ACTION_PROMPT] = &playground_view,
                                                               [ACTION_AGAIN] = &form_view,
                                                               [ACTION_RUN_LOG] = &log_view};
    if (views[action]) workbench_push(workbench, views[action], state->model.info.id);
    return views[action] != NULL;
}

static bool run_key(struct workbench *workbench, void *opaque, enum action action, uint32_t code)
{
    struct run_state *state = opaque;
    const struct run_model *model = &state->model;
    struct chart_window *window = &state->window, before = *window;
    int64_t sent = 0;
    if (chart_window_key(workbench, window, action)) {
        refine(workbench, state, window->span != before.span);
        if (window->span != before.span || window->end != before.end) remember_zoom(workbench, state);
        return true;
    }
    if (open_view(workbench, state, action)) return true;
    switch (action) {
    case ACTION_FOCUS_NEXT:
    case ACTION_FOCUS_PREVIOUS:
        if (model->chart_count)
            window->focus = (window->focus + (action == ACTION_FOCUS_NEXT ? 1 : model->chart_count - 1)) %
                            model->chart_count;
        break;
    case ACTION_ENLARGE:
        state->enlarged = !state->enlarged;
        break;
    case ACTION_LOG:
        state->log[window->focus] = !state->log[window->focus];
        if (window->focus < model->chart_count) remember_chart(workbench, state, window->focus);
        break;
    case ACTION_SMOOTH:
        cycle_smoothing(workbench, state);
        break;
    case ACTION_SAMPLE_OLDER:
    case ACTION_SAMPLE_NEWER:
        move_text(state, action == ACTION_SAMPLE_OLDER);
        break;
    case ACTION_SAVE:
        save(workbench, state, code == K_ENTERED);
        break;
    case ACTION_LR_LOWER:
    case ACTION_LR_HIGHER:
    case ACTION_LR:
        sent = workbench_order_lr(workbench, &model->info, action, code);
        break;
    case ACTION_EVENT_NEXT:
    case ACTION_EVENT_PREVIOUS:
        move_to_event(workbench, state, action == ACTION_EVENT_NEXT);
        break;
    case ACTION_RESUME:
        workbench_resume(workbench, &model->info, code == K_CONFIRMED);
        break;
    case ACTION_BACK:
        if (status_is_live(model->info.status))
            workbench_say(workbench, "%s continues training in the background", model->info.name);
        return false;
    default:
        sent = workbench_order(workbench, &model->info, action, code == K_CONFIRMED);
    }
    if (sent) state->order = sent;
    return true;
}

const struct view_ops run_view = {
    CONTEXT_RUN, sizeof(struct run_state), run_open, run_read, run_draw, run_key, run_close};
