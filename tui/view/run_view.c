/* The view of one run: header, live charts, sample text, events, and keys that send orders to its trainer.
 * Works the same on live and ended runs. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tui/view/labels.h"
#include "tui/view/run_model.h"
#include "tui/view/workbench.h"
#include "tui/widget/axis.h"
#include "tui/widget/chart.h"
#include "tui/widget/layout.h"

enum { TEXT_ROWS = 4 }; /* of a sample below the ranks */
enum { CHART_LOSS, CHART_LR, CHART_GRAD, CHART_SPEED, CHART_COUNT };

struct run_state {
    struct run_model model;
    int focus; /* index of a chart */
    bool enlarged;
    bool log[CHART_COUNT];
    bool outliers; /* the charts are scaled to rare outliers, too */
    bool log_steps;
    bool perplexity; /* the chart of the loss shows exp(loss); else the model's measure, if any */
    int64_t cursor;  /* step; -1: none, follow the newest */
    int64_t span;    /* steps shown; 0: the whole run */
    int64_t end;     /* last step shown when zoomed; -1: the newest */
    int plot_w;      /* columns of the focused chart when last drawn: the size of a cursor move */
    size_t sample;   /* 0: the newest; of a classifier: the first class shown */
    int64_t order;   /* id of the last order sent until it takes effect; 0: none */
};

static bool is_set(const struct workbench *workbench, const char *key)
{
    const char *value = settings_get(&workbench->settings, key);
    return value && strcmp(value, "yes") == 0;
}

/* Changes a choice and remembers it. */
static void toggle(struct workbench *workbench, const char *key, bool *choice)
{
    *choice = !*choice;
    settings_set(&workbench->settings, key, *choice ? "yes" : "no");
}

static enum status run_open(struct workbench *workbench, void *opaque, const char *argument, struct err *err)
{
    struct run_state *state = opaque;
    if (run_model_open(&state->model, workbench->store, argument, err)) return err->status;
    /* drop the comparison with a deleted run without a failure */
    struct err gone = {0};
    if (workbench->compared[0] &&
        run_model_compare(&state->model, workbench->store, workbench->compared, &gone))
        workbench->compared[0] = '\0';
    state->outliers = is_set(workbench, "run.outliers");
    state->log_steps = is_set(workbench, "run.log_steps");
    state->cursor = state->end = -1;
    memcpy(workbench->visited, state->model.info.id, sizeof workbench->visited);
    return STATUS_OK;
}

static void run_close(void *opaque)
{
    run_model_release(&((struct run_state *)opaque)->model);
}

/* The range of steps in the charts. */
static void visible_range(const struct run_state *state, int64_t *first, int64_t *last)
{
    int64_t newest = run_model_newest_step(&state->model), oldest = state->model.oldest_step;
    if (newest < oldest + 1) newest = oldest + 1;
    *first = oldest;
    *last = newest;
    if (state->span <= 0) {
        /* during training the end advances a few columns at a time: curves stand still in between */
        int64_t leap = 1;
        while (leap * 96 < newest - oldest) leap *= 2;
        if (label_is_live(state->model.info.status)) *last = (newest + leap - 1) / leap * leap;
        return;
    }
    *last = state->end < 0 ? newest : state->end;
    *first = *last - state->span > oldest ? *last - state->span : oldest;
}

/* Reads the series again if the range on the screen needs another resolution. */
static void refine(struct workbench *workbench, struct run_state *state, bool anew)
{
    struct run_model *model = &state->model;
    int64_t first, last, want_first = 0, want_last = -1;
    visible_range(state, &first, &last);
    if (state->span > 0) { /* add room on both sides, so that not every move reads */
        want_first = first - state->span > 0 ? first - state->span : 0;
        if (state->end >= 0) want_last = last + state->span;
    }
    bool covered = model->first_step <= first && (model->last_step < 0 || model->last_step >= last);
    bool wide = last - model->first_step > 8 * (last - first) && model->series[TRACE_LOSS].level > 1;
    if (!anew && covered && !wide) return;
    workbench_did(workbench, run_model_set_range(model, workbench->store, want_first, want_last, model->decay,
                                                 &workbench->err));
}

static void report_order(struct workbench *workbench, struct run_state *state)
{
    for (size_t i = 0; i < state->model.history.order_count; i++) {
        const struct order_row *order = &state->model.history.orders[i];
        if (order->id != state->order || order->applied_step < 0) continue;
        workbench_say(workbench, "%s at step %" PRId64 "%s%s", verb_words[order->verb], order->applied_step,
                      order->result ? ": " : "", order->result ? order->result : "");
        state->order = 0;
    }
}

static bool run_read(struct workbench *workbench, void *opaque, bool store_changed)
{
    struct run_state *state = opaque;
    struct run_model *model = &state->model;
    struct store *store = workbench->store;
    if (!store_changed && !label_is_live(model->info.status)) return false;
    if (!store_changed) { /* liveness and heartbeat change without a commit */
        workbench_did(workbench, run_find(store, model->info.id, &model->info, &workbench->err));
        return true;
    }
    if (!workbench_did(workbench, run_model_update(model, store, &workbench->err))) return true;
    if (state->span > 0) refine(workbench, state, false);
    if (state->order) report_order(workbench, state);
    return true;
}

static struct chart_trace *add_trace(struct chart *chart, const struct run_model *model,
                                     enum model_trace trace, const char *name, enum style style)
{
    struct chart_trace *added = &chart->trace[chart->trace_count++];
    *added = run_model_trace(model, trace);
    added->name = name;
    added->style = style;
    return added;
}

/* Shows a measure of the evaluations instead of the loss. */
static void show_measure(struct chart *chart, const struct run_model *model)
{
    chart->title = model->measure;
    chart->decay = 0;
    bool followed = strcmp(model->measure, model->info.best_metric) == 0;
    chart->best_step = followed ? model->info.best_step : -1;
    chart->best = model->info.best_value;
    chart->trace_count = 0;
    add_trace(chart, model, TRACE_MEASURE, NULL, STYLE_VAL)->marks = true;
}

static void draw_chart(struct run_state *state, struct grid *grid, struct rect area, int which)
{
    static const struct {
        const char *title, *unit, *name;
        bool zero;
        double least_span;
        enum model_trace trace;
        enum style style;
    } kinds[CHART_COUNT] = {
        [CHART_LOSS] = {"loss", NULL, "train", false, 0, TRACE_LOSS, STYLE_TRAIN},
        [CHART_LR] = {"learning rate", NULL, NULL, true, 0, TRACE_LR, STYLE_LR},
        [CHART_GRAD] = {"gradient norm", NULL, NULL, false, 0, TRACE_GRAD, STYLE_GRAD},
        [CHART_SPEED] = {"throughput", "tokens/s", NULL, false, 0.25, TRACE_SPEED, STYLE_SPEED},
    };
    const struct run_model *model = &state->model;
    bool loss = which == CHART_LOSS;
    struct chart chart = {.title = kinds[which].title,
                          .unit = kinds[which].unit,
                          .zero = kinds[which].zero,
                          .least_span = kinds[which].least_span,
                          .log = state->log[which],
                          .log_steps = state->log_steps,
                          .outliers = state->outliers,
                          .focused = which == state->focus,
                          .ended = !label_is_live(model->info.status),
                          .decay = which == CHART_LR ? 0 : model->decay,
                          .cursor = state->cursor,
                          .best_step = loss && !*model->info.best_metric ? model->info.best_step : -1,
                          .best = model->info.best_val_loss,
                          .marks = model->marks,
                          .mark_count = model->mark_count,
                          .events = loss};
    visible_range(state, &chart.first_step, &chart.last_step);
    add_trace(&chart, model, kinds[which].trace, kinds[which].name, kinds[which].style);
    if (loss) add_trace(&chart, model, TRACE_VAL, "val", STYLE_VAL)->marks = true;
    if (loss && model->other.id[0])
        add_trace(&chart, model, TRACE_OTHER, model->other.name, STYLE_LR)->trend = true;
    if (which == state->focus) state->plot_w = chart_plot(area).w;
    if (loss && state->perplexity) chart.title = "perplexity";
    chart.exponential = loss && state->perplexity;
    if (loss && *model->measure) show_measure(&chart, model);
    chart_draw(grid, area, &chart);
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
    layout_run(grid->w, grid->h, state->enlarged, ranks + text, &layout);
    workbench_hint(workbench, model->info.status);
    panel_draw_header(grid, layout.header, model, workbench->now);
    for (int c = 0; c < layout.chart_count; c++) {
        bool focused =
            layout.chart_count == 1 || (layout.chart_count == 2 && c == 1 && state->focus != CHART_LOSS);
        draw_chart(state, grid, layout.chart[c], focused ? state->focus : c);
    }
    if (ranks) draw_ranks(grid, &layout.sample, model, ranks, text);
    int used = classes ? panel_draw_confusion(grid, layout.sample, model, &state->sample)
                       : panel_draw_sample(grid, layout.sample, model, state->sample);
    if (layout.events.h > 0)
        rect_skip(&layout.events, used - layout.sample.h); /* events get the text's blank rows */
    panel_draw_events(grid, layout.events, model);
    if (layout.side.w) panel_draw_side(grid, layout.side, model);
}

/* Moves to a step; while zoomed the window follows. */
static void place_cursor(struct workbench *workbench, struct run_state *state, int64_t step)
{
    int64_t first, last, newest = run_model_newest_step(&state->model);
    visible_range(state, &first, &last);
    state->cursor = step < state->model.oldest_step ? state->model.oldest_step
                    : step > newest                 ? newest
                                                    : step;
    if (state->span <= 0 || (state->cursor >= first && state->cursor <= last)) return;
    int64_t end =
        state->cursor < first ? state->cursor + state->span * 3 / 4 : state->cursor + state->span / 4;
    state->end = end >= newest ? -1 : end;
    refine(workbench, state, false);
}

/* Moves the cursor about a column of the focused chart. */
static void move_cursor(struct workbench *workbench, struct run_state *state, int direction)
{
    int64_t first, last, newest = run_model_newest_step(&state->model);
    if (newest < 0) return;
    visible_range(state, &first, &last);
    int64_t to = direction < 0 ? last : first;
    if (state->cursor >= 0) {
        struct axis axis = {0};
        axis_init_steps(&axis, (double)first, (double)last, state->log_steps, 1);
        double column = state->plot_w > 1 ? 1.0 / (state->plot_w - 1) : 1;
        double at = axis_position(&axis, fmax((double)state->cursor, axis.lo)) + direction * column;
        to = (int64_t)floor(axis_value(&axis, fmin(fmax(at, -1), 2)) + 0.5);
        if (to == state->cursor || (to < state->cursor) != (direction < 0)) to = state->cursor + direction;
    }
    place_cursor(workbench, state, to);
}

/* Moves the cursor to an event and shows its sentence. Without a cursor the next event is the first. */
static void move_to_event(struct workbench *workbench, struct run_state *state, bool later)
{
    int64_t from = state->cursor < 0 && !later ? INT64_MAX : state->cursor;
    const struct event_record *event = run_model_event_beside(&state->model, from, later);
    char text[512];
    snprintf(text, sizeof text, "no event %s this step", later ? "after" : "before");
    if (event) panel_event_text(event, text, sizeof text);
    if (event) place_cursor(workbench, state, event->step);
    workbench_say(workbench, "%s", text);
}

static void zoom(struct workbench *workbench, struct run_state *state, enum action action)
{
    int64_t newest = run_model_newest_step(&state->model), first, last;
    visible_range(state, &first, &last);
    int64_t span = action == ACTION_ZOOM_IN ? (last - first) / 2 : (last - first) * 2;
    if (span < 8) span = 8;
    int64_t end = state->cursor + span / 2;
    int64_t oldest = state->model.oldest_step;
    bool all = action == ACTION_ZOOM_ALL || span >= newest - oldest;
    if (all || (state->cursor >= 0 && end > newest))
        state->end = -1;
    else if (state->cursor >= 0)
        state->end = end < oldest + span ? oldest + span : end;
    state->span = all ? 0 : span;
    refine(workbench, state, true);
}

/* Moves the window by half its steps; the cursor stays at its step. */
static void pan(struct workbench *workbench, struct run_state *state, bool earlier)
{
    int64_t newest = run_model_newest_step(&state->model), first, last;
    visible_range(state, &first, &last);
    if (state->span <= 0) {
        workbench_say(workbench, "all steps are shown; + zooms in");
        return;
    }
    int64_t end = earlier ? last - state->span / 2 : last + state->span / 2;
    int64_t least = state->model.oldest_step + state->span;
    if (end < least) end = least;
    state->end = end >= newest ? -1 : end;
    refine(workbench, state, false);
}

static void cycle_smoothing(struct workbench *workbench, struct run_state *state)
{
    struct run_model *model = &state->model;
    double next = model->decay == 0 ? 0.9 : model->decay < 0.95 ? 0.99 : 0;
    bool done = workbench_did(workbench, run_model_set_range(model, workbench->store, model->first_step,
                                                             model->last_step, next, &workbench->err));
    if (done && next > 0)
        workbench_say(workbench, "smoothing %g a step; the values themselves are dimmed behind", next);
    else if (done)
        workbench_say(workbench, "no smoothing");
}

/* The first chart shows the loss, then perplexity, which a classifier has not, then each measure of the
 * evaluations, then the loss. */
static void show_next_quantity(struct workbench *workbench, struct run_state *state)
{
    struct run_model *model = &state->model;
    if (!state->perplexity && !*model->measure && !model->history.class_count) {
        state->perplexity = true;
        return;
    }
    state->perplexity = false;
    workbench_did(workbench, run_model_next_measure(model, workbench->store, &workbench->err));
}

static void go_back(struct workbench *workbench, struct run_state *state)
{
    char name[RUN_NAME_MAX];
    bool live = label_is_live(state->model.info.status);
    memcpy(name, state->model.info.name, sizeof name);
    workbench_back(workbench); /* frees the state */
    if (live) workbench_say(workbench, "%s continues training in the background", name);
}

/* Moves the cursor to the first step, or removes it to follow the newest. */
static void go_to_end(struct workbench *workbench, struct run_state *state, bool newest)
{
    int64_t oldest = state->model.oldest_step;
    state->cursor = newest ? -1 : oldest;
    if (newest || state->span > 0) state->end = newest ? -1 : oldest + state->span;
    refine(workbench, state, false);
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

static void run_key(struct workbench *workbench, void *opaque, enum action action, uint32_t code)
{
    struct run_state *state = opaque;
    const struct run_model *model = &state->model;
    int64_t sent = 0;
    switch (action) {
    case ACTION_FOCUS_NEXT:
    case ACTION_FOCUS_PREVIOUS:
        state->focus = (state->focus + (action == ACTION_FOCUS_NEXT ? 1 : CHART_COUNT - 1)) % CHART_COUNT;
        break;
    case ACTION_ENLARGE:
        state->enlarged = !state->enlarged;
        break;
    case ACTION_CURSOR_LEFT:
    case ACTION_CURSOR_RIGHT:
        move_cursor(workbench, state, action == ACTION_CURSOR_LEFT ? -1 : 1);
        break;
    case ACTION_FIRST:
    case ACTION_LAST:
        go_to_end(workbench, state, action == ACTION_LAST);
        break;
    case ACTION_ZOOM_IN:
    case ACTION_ZOOM_OUT:
    case ACTION_ZOOM_ALL:
        zoom(workbench, state, action);
        break;
    case ACTION_PAN_LEFT:
    case ACTION_PAN_RIGHT:
        pan(workbench, state, action == ACTION_PAN_LEFT);
        break;
    case ACTION_LOG:
        state->log[state->focus] = !state->log[state->focus];
        break;
    case ACTION_LOG_STEPS:
        toggle(workbench, "run.log_steps", &state->log_steps);
        break;
    case ACTION_OUTLIERS:
        toggle(workbench, "run.outliers", &state->outliers);
        workbench_say(workbench, state->outliers ? "the charts show all values"
                                                 : "rare outliers are marked at the edge");
        break;
    case ACTION_NEXT_QUANTITY:
        show_next_quantity(workbench, state);
        break;
    case ACTION_SMOOTH:
        cycle_smoothing(workbench, state);
        break;
    case ACTION_SAMPLE_OLDER:
    case ACTION_SAMPLE_NEWER:
        move_text(state, action == ACTION_SAMPLE_OLDER);
        break;
    case ACTION_MEMORY:
    case ACTION_PROFILE:
        workbench_push(workbench, action == ACTION_MEMORY ? &memory_view : &profile_view, model->info.id);
        break;
    case ACTION_LR_LOWER:
    case ACTION_LR_HIGHER:
        sent = workbench_order_lr(workbench, &model->info, action == ACTION_LR_HIGHER);
        break;
    case ACTION_EVENT_NEXT:
    case ACTION_EVENT_PREVIOUS:
        move_to_event(workbench, state, action == ACTION_EVENT_NEXT);
        break;
    case ACTION_RESUME:
        workbench_resume(workbench, &model->info, code == K_CONFIRMED);
        break;
    case ACTION_BACK:
        go_back(workbench, state);
        return;
    default:
        sent = workbench_order(workbench, &model->info, action, code == K_CONFIRMED);
    }
    if (sent) state->order = sent;
}

const struct view_ops run_view = {
    CONTEXT_RUN, sizeof(struct run_state), run_open, run_read, run_draw, run_key, run_close};
