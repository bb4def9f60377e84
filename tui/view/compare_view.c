/* The comparison of runs: their curves of one metric in one chart, and below it a row for each with the keys
 * in which they differ and what came of them. A row and its curve have a colour and a digit in common. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "tui/view/chart_window.h"
#include "tui/view/compare_table.h"
#include "tui/view/labels.h"
#include "tui/view/run_folds.h"
#include "tui/view/save.h"
#include "tui/view/workbench.h"
#include "tui/widget/axis.h"

struct compare_state {
    struct run_set ids;
    struct compare_model model;
    struct compare_request request;
    struct arena arena; /* of the quantities */
    struct quantity *quantities;
    size_t quantity_count, quantity;
    bool folded, log;
    char folds[INPUT_MAX];
    struct chart_window window;
    struct compare_table table;
    bool values_read; /* those of the table, at this place: */
    int64_t values_at;
};

/* ---- settings ---- */

static void recall(const struct workbench *workbench, struct compare_state *state)
{
    const struct settings *settings = &workbench->settings;
    int axis;
    double target;
    if (word_parse(compare_axis_words, settings_get(settings, "compare.axis"), &axis))
        state->request.axis = (enum compare_axis)axis;
    bool known = text_parse_double(settings_get(settings, "compare.target"), &target);
    state->request.target = known ? target : NAN;
    chart_window_init(&state->window, settings);
    state->folded = settings_has(settings, "runs.folded", "yes");
    snprintf(state->folds, sizeof state->folds, "%s", run_folds_keys(settings));
}

/* ---- reading ---- */

static void look_at(const struct workbench *workbench, struct compare_state *state,
                    const struct quantity *quantity)
{
    struct compare_request *request = &state->request;
    request->quantity = *quantity;
    request->look = run_chart_look(quantity);
    request->decay = run_chart_recall(&workbench->settings, quantity, &state->log);
}

/* Lists what the runs have recorded, and finds what was chosen in it. */
static enum status list_quantities(struct workbench *workbench, struct compare_state *state,
                                   const char *chosen, struct err *err)
{
    arena_release(&state->arena);
    state->quantity = state->quantity_count = 0;
    enum status status = compare_model_quantities(&state->model, workbench->store, &state->arena,
                                                  &state->quantities, &state->quantity_count, err);
    for (size_t i = 0; !status && i < state->quantity_count; i++)
        if (strcmp(state->quantities[i].name, chosen) == 0) state->quantity = i;
    return status;
}

/* Sets the first and the last place that the window can show. */
static void count_places(struct compare_state *state)
{
    const struct comparison *c = &state->model.comparison;
    state->window.oldest = state->model.first;
    state->window.newest = state->model.last;
    state->window.live = false;
    for (size_t i = 0; i < c->count; i++)
        state->window.live = state->window.live || status_is_live(c->runs[i].info->status);
}

static void show(struct workbench *workbench, struct compare_state *state)
{
    struct compare_request *request = &state->request;
    struct chart_window *window = &state->window;
    request->first = 0;
    request->last = -1;
    if (window->span > 0) chart_window_range(window, &request->first, &request->last);
    request->newest = window->end < 0;
    request->log_steps = window->log_steps;
    workbench_did(workbench, compare_model_show(&state->model, workbench->store, request, &workbench->err));
    count_places(state);
    state->values_read = false;
}

/* Opens the runs, or opens them anew after a change of the groups. */
static enum status read_all(struct workbench *workbench, struct compare_state *state, struct err *err)
{
    struct compare_model next;
    state->request.folds = state->folded ? state->folds : NULL;
    state->request.first = 0; /* all of it, so that the model knows where the runs begin and end */
    state->request.last = -1;
    state->request.log_steps = state->window.log_steps;
    enum status status = compare_model_open(&next, workbench->store, &state->ids, &state->request, err);
    compare_model_release(status ? &next : &state->model);
    if (!status) state->model = next;
    state->values_read = false;
    count_places(state);
    if (!status && state->window.span > 0) show(workbench, state);
    return status;
}

static enum status compare_open(struct workbench *workbench, void *opaque, const char *argument,
                                struct err *err)
{
    struct compare_state *state = opaque;
    (void)argument;
    static const struct quantity loss = {.name = "loss", .metric = METRIC_LOSS};
    look_at(workbench, state, &loss);
    recall(workbench, state);
    for (size_t i = 0; i < workbench->compared.count; i++)
        run_set_add(&state->ids, workbench->compared.runs[i].id, workbench->compared.runs[i].since);
    if (read_all(workbench, state, err)) return err->status;
    if (state->model.run_count == 0) return err_set(err, STATUS_NOT_FOUND, "no run to compare is left");
    if (list_quantities(workbench, state, settings_get(&workbench->settings, "compare.quantity"), err))
        return err->status;
    if (state->quantity < state->quantity_count &&
        strcmp(state->quantities[state->quantity].name, state->request.quantity.name) != 0) {
        look_at(workbench, state, &state->quantities[state->quantity]);
        show(workbench, state);
    }
    return STATUS_OK;
}

static void compare_close(void *opaque)
{
    struct compare_state *state = opaque;
    compare_model_release(&state->model);
    run_set_release(&state->ids);
    arena_release(&state->arena);
}

/* Takes over how the user has looked at the chart in a run; whether that has changed. */
static bool recall_look(const struct workbench *workbench, struct compare_state *state)
{
    struct chart_window *window = &state->window;
    bool log = state->log, log_steps = window->log_steps, outliers = window->outliers;
    double decay = state->request.decay;
    look_at(workbench, state, &state->request.quantity);
    chart_window_recall(window, &workbench->settings);
    return decay != state->request.decay || log != state->log || log_steps != window->log_steps ||
           outliers != window->outliers;
}

static bool compare_read(struct workbench *workbench, void *opaque, bool store_changed)
{
    struct compare_state *state = opaque;
    bool changed = false, looks = recall_look(workbench, state);
    if (looks) show(workbench, state);
    if (store_changed || state->window.live) /* a trainer dies without a commit */
        workbench_did(workbench, compare_model_update(&state->model, workbench->store, &state->request,
                                                      &changed, &workbench->err));
    if (changed) count_places(state);
    if (store_changed || changed) state->values_read = false;
    return changed || looks;
}

/* ---- the chart ---- */

enum { OVER_MAX = 96 };

/* The curve of the selected row lies on top. `over`: says what the axis counts, and what a band is; the chart
 * borrows it. */
static struct chart make_chart(const struct compare_state *state, char over[OVER_MAX])
{
    const struct compare_model *model = &state->model;
    const char *unit;
    struct chart chart = {.bare = true,
                          .runs = true,
                          .focused = true,
                          .log = state->log,
                          .decay = state->request.decay,
                          .ended = !state->window.live,
                          .best_step = -1};
    run_chart_dress(&state->request.look, &chart);
    chart.unit = over;
    chart.counted = compare_axis_columns[state->request.axis];
    chart.x_scale = compare_model_scale(model, state->request.axis, &unit);
    snprintf(over, OVER_MAX, "%s%sby %s%s%s%s", state->request.look.unit ? state->request.look.unit : "",
             state->request.look.unit ? " " : "", compare_axis_words[state->request.axis], *unit ? ", " : "",
             unit, model->curve_count < model->run_count ? "; shaded: lowest to highest" : "");
    chart_window_fill(&state->window, &chart);
    for (size_t i = 0; i < model->curve_count; i++) {
        size_t c = (state->table.selected + i) % model->curve_count;
        const struct compare_curve *curve = &model->curves[c];
        chart.trace[chart.trace_count++] =
            (struct chart_trace){.name = model->comparison.runs[c].title,
                                 .points = curve->points,
                                 .count = curve->count,
                                 .fork_step = curve->fork,
                                 .style = (enum style)(STYLE_CURVE + c),
                                 .marker = COMPARE_DIGITS[c],
                                 .band = model->comparison.runs[c].run_count > 1};
    }
    return chart;
}

static void draw_chart(struct compare_state *state, struct grid *grid, struct rect area)
{
    char over[OVER_MAX];
    struct chart chart = make_chart(state, over);
    chart_window_clear(&state->window);
    chart_window_add(&state->window, area, 0);
    chart_draw(grid, area, &chart);
}

static void save(struct workbench *workbench, const struct compare_state *state, bool entered)
{
    char over[OVER_MAX];
    struct chart chart = make_chart(state, over);
    save_shown(workbench, &chart, &state->model.comparison, "runs", entered);
}

/* Reads the values at the cursor, unless they are those. */
static void read_values(struct workbench *workbench, struct compare_state *state)
{
    bool all = true;
    if (state->values_read && state->values_at == state->window.cursor) return;
    for (size_t c = 0; c < state->model.curve_count; c++)
        all = workbench_did(workbench, compare_model_value(&state->model, workbench->store, &state->request,
                                                           c, state->window.cursor, &state->table.values[c],
                                                           &workbench->err)) &&
              all;
    state->values_read = all;
    state->values_at = state->window.cursor;
}

static void draw_header(const struct compare_state *state, struct grid *grid)
{
    const struct compare_model *model = &state->model;
    struct pen pen = {grid, 1, 0, grid->w - 1};
    int64_t cursor = state->window.cursor;
    const char *unit;
    double scale = compare_model_scale(model, state->request.axis, &unit);
    pen_word(&pen, STYLE_ACCENT, ATTR_BOLD, "compare");
    pen_print(&pen, STYLE_TEXT, 0, "%zu run%s", model->run_count, text_plural((int64_t)model->run_count));
    if (model->curve_count < model->run_count)
        pen_print(&pen, STYLE_TEXT, 0, " in %zu curve%s", model->curve_count,
                  text_plural((int64_t)model->curve_count));
    if (model->left_out) pen_print(&pen, STYLE_WARN, 0, ", %zu left out", model->left_out);
    pen.x += 2;
    if (cursor >= 0 && scale > 0)
        pen_word(&pen, STYLE_ACCENT, ATTR_BOLD, "@%s %s", AXIS_TEXT((double)cursor / scale), unit);
    else if (cursor >= 0)
        pen_word(&pen, STYLE_ACCENT, ATTR_BOLD, "@%lld", (long long)cursor);
    const char *obstacle = comparison_loss_obstacle(&model->comparison);
    if (obstacle) pen_print(&pen, STYLE_WARN, 0, "losses are not comparable: %s", obstacle);
}

static void compare_draw(struct workbench *workbench, void *opaque, struct grid *grid)
{
    enum { CHART_LEAST = 6 };
    struct compare_state *state = opaque;
    int table = (int)state->model.curve_count + 1, most = grid->h - 2 - CHART_LEAST;
    workbench_hint_charts(workbench, state->window.span > 0, false);
    if (table > most) table = most;
    if (table < 2) table = 2;
    draw_header(state, grid);
    draw_chart(state, grid, (struct rect){0, 1, grid->w, grid->h - 2 - table});
    state->table.model = &state->model;
    state->table.request = &state->request;
    read_values(workbench, state);
    compare_table_draw(&state->table, grid, (struct rect){0, grid->h - 1 - table, grid->w, table});
}

/* ---- keys ---- */

static void choose_quantity(struct workbench *workbench, struct compare_state *state, bool next)
{
    /* a run that trains may have recorded others */
    if (state->window.live)
        workbench_did(workbench,
                      list_quantities(workbench, state, state->request.quantity.name, &workbench->err));
    size_t count = state->quantity_count;
    if (count == 0) return;
    state->quantity = (state->quantity + (next ? 1 : count - 1)) % count;
    look_at(workbench, state, &state->quantities[state->quantity]);
    settings_set(&workbench->settings, "compare.quantity", state->request.quantity.name);
    show(workbench, state);
}

static void choose_axis(struct workbench *workbench, struct compare_state *state)
{
    state->request.axis = (enum compare_axis)((state->request.axis + 1) % COMPARE_AXES);
    state->window.span = 0;
    state->window.cursor = state->window.end = -1;
    settings_set(&workbench->settings, "compare.axis", compare_axis_words[state->request.axis]);
    show(workbench, state);
}

static void choose_smoothing(struct workbench *workbench, struct compare_state *state)
{
    struct compare_request *request = &state->request;
    if (!request->look.smoothable) return;
    request->decay = run_chart_next_decay(request->decay);
    run_chart_remember(&workbench->settings, &request->quantity, state->log, request->decay);
    show(workbench, state);
}

/* Takes the target that was typed; no text means none. */
static void choose_target(struct workbench *workbench, struct compare_state *state, bool entered)
{
    char text[64] = "";
    double number = NAN;
    if (!entered) {
        if (!isnan(state->request.target)) text_format_double(state->request.target, text, sizeof text);
        workbench_prompt(workbench, ACTION_TARGET, text, "%s", state->request.look.title);
        return;
    }
    if (workbench->answer.text[0] &&
        (!text_parse_double(workbench->answer.text, &number) || !isfinite(number))) {
        workbench_say(workbench, "%s is not a number: type a value to reach, such as 3.2, or nothing",
                      workbench->answer.text);
        return;
    }
    state->request.target = number;
    settings_set(&workbench->settings, "compare.target", workbench->answer.text);
    show(workbench, state);
}

static void fold(struct workbench *workbench, struct compare_state *state)
{
    state->folded = !state->folded;
    if (!workbench_did(workbench, read_all(workbench, state, &workbench->err))) {
        state->folded = !state->folded;
        return;
    }
    settings_set(&workbench->settings, "runs.folded", state->folded ? "yes" : "no");
    state->table.selected = 0;
    if (state->model.curve_count == state->model.run_count && state->folded)
        workbench_say(workbench, "no two of these runs differ in %s alone", state->folds);
    else
        workbench_say(workbench,
                      state->folded ? "runs that differ in %s alone are one curve"
                                    : "each run has a curve of its own",
                      state->folds);
}

/* Puts the run of the selected row first. */
static void measure_against(struct workbench *workbench, struct compare_state *state)
{
    const struct run_info *run = state->model.comparison.runs[state->table.selected].info;
    memcpy(state->request.base, run->id, sizeof state->request.base);
    if (!workbench_did(workbench, read_all(workbench, state, &workbench->err))) return;
    state->table.selected = 0;
    workbench_say(workbench, "the others are measured against %s", state->model.comparison.runs[0].stem);
}

static bool compare_key(struct workbench *workbench, void *opaque, enum action action, uint32_t code)
{
    struct compare_state *state = opaque;
    struct chart_window *window = &state->window, before = *window;
    if (keys_move(action, &state->table.selected, state->model.curve_count, state->table.page)) return true;
    if (chart_window_key(workbench, window, action)) {
        if (window->span != before.span || window->end != before.end || window->log_steps != before.log_steps)
            show(workbench, state);
        return true;
    }
    switch (action) {
    case ACTION_OPEN:
        workbench_push(workbench, &run_view, state->model.comparison.runs[state->table.selected].info->id);
        break;
    case ACTION_FOCUS_NEXT:
    case ACTION_FOCUS_PREVIOUS:
        choose_quantity(workbench, state, action == ACTION_FOCUS_NEXT);
        break;
    case ACTION_AXIS:
        choose_axis(workbench, state);
        break;
    case ACTION_TARGET:
        choose_target(workbench, state, code == K_ENTERED);
        break;
    case ACTION_BASELINE:
        measure_against(workbench, state);
        break;
    case ACTION_FOLD_RUNS:
        fold(workbench, state);
        break;
    case ACTION_LOG:
        state->log = !state->log;
        run_chart_remember(&workbench->settings, &state->request.quantity, state->log, state->request.decay);
        break;
    case ACTION_SMOOTH:
        choose_smoothing(workbench, state);
        break;
    case ACTION_SAVE:
        save(workbench, state, code == K_ENTERED);
        break;
    case ACTION_EARLIER:
        state->table.first_column -= state->table.first_column > 0;
        break;
    case ACTION_LATER:
        state->table.first_column++;
        break;
    default:
        return false;
    }
    return true;
}

const struct view_ops compare_view = {
    CONTEXT_COMPARE, sizeof(struct compare_state), compare_open, compare_read, compare_draw, compare_key,
    compare_close};
