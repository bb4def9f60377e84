/* The form of a new run: one line for each configuration key, which shows the default until the user types a
 * value. Starting passes the values to `anneal train` and waits for the run to appear; for a bad value the
 * form shows the trainer's own error. Where there is room, a preview at the right shows the planned learning
 * rate as a chart and any problem with the values typed so far. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tui/view/launch.h"
#include "tui/view/workbench.h"
#include "tui/widget/axis.h"
#include "tui/widget/chart.h"
#include "tui/widget/layout.h"

enum { FIELDS_MAX = 32, LABEL_W = 18, LINES_W = 48 }; /* LINES_W fits "In the beginning (default)" */
/* NAMED: fits the chart's whole title */
enum { PREVIEW_W_MIN = 28, PREVIEW_W_MAX = 70, PREVIEW_W_NAMED = 44, CHART_H_MAX = 14 };

struct form_state {
    struct input input[FIELDS_MAX]; /* "": use the default */
    size_t count, at;               /* at == count: on the line that starts the run */
    size_t scroll;
    struct launch launch;
    char doing[256];                        /* the trainer's progress before its run exists */
    char error[512];                        /* the reason the last start failed */
    char words[FIELDS_MAX][INPUT_MAX + 80]; /* scratch: the arguments of a start or a preview */
    struct form_preview preview;
};

/* The arguments of the filled-in fields: of configuration keys only, or of all. Borrowed from `state`. */
static size_t gather_words(struct workbench *workbench, struct form_state *state, bool keys_alone,
                           const char *words[FIELDS_MAX])
{
    const struct form_field *fields = workbench->options.fields;
    size_t n = 0;
    for (size_t i = 0; i < state->count; i++) {
        if (!state->input[i].text[0] || (keys_alone && !strchr(fields[i].key, '.'))) continue;
        snprintf(state->words[i], sizeof state->words[i], "--%s=%s", fields[i].key, state->input[i].text);
        words[n++] = state->words[i];
    }
    return n;
}

static void preview(struct workbench *workbench, struct form_state *state)
{
    const char *words[FIELDS_MAX];
    size_t count = gather_words(workbench, state, true, words);
    workbench->options.preview(words, count, &state->preview);
}

/* The field in focus; NULL: the line that starts the run. */
static const struct form_field *field_at(const struct workbench *workbench, const struct form_state *state)
{
    return state->at < state->count ? &workbench->options.fields[state->at] : NULL;
}

static void set_typing(struct workbench *workbench, const struct form_state *state)
{
    workbench->typing = !state->launch.pid && state->at < state->count;
}

static enum status form_open(struct workbench *workbench, void *opaque, const char *argument, struct err *err)
{
    (void)argument, (void)err; /* opening cannot fail */
    struct form_state *state = opaque;
    state->count = workbench->options.field_count < FIELDS_MAX ? workbench->options.field_count : FIELDS_MAX;
    preview(workbench, state);
    set_typing(workbench, state);
    return STATUS_OK;
}

static void form_close(void *opaque)
{
    launch_release(&((struct form_state *)opaque)->launch);
}

static bool form_read(struct workbench *workbench, void *opaque, bool store_changed)
{
    struct form_state *state = opaque;
    struct err err = {0};
    char run_id[RUN_ID_MAX];
    (void)store_changed;
    if (!state->launch.pid) return false;
    enum status status = launch_poll(&state->launch, workbench->store, run_id, &err);
    if (status == STATUS_BUSY) snprintf(state->doing, sizeof state->doing, "%s", err.text);
    if (status == STATUS_BUSY) return true;
    if (status == STATUS_OK) {
        workbench_back(workbench); /* frees the state */
        workbench_push(workbench, &run_view, run_id);
        return true;
    }
    snprintf(state->error, sizeof state->error, "%s", err.text);
    set_typing(workbench, state);
    return true;
}

/* --- drawing --- */

static void draw_field(struct grid *grid, struct rect row, const struct form_field *field,
                       const struct input *input, bool focused)
{
    enum { VALUE_W = 40 };
    int x = row.x + 2 + LABEL_W, w = row.w - LABEL_W - 4 < VALUE_W ? row.w - LABEL_W - 4 : VALUE_W;
    struct pen pen = {grid, x, row.y, x + w};
    grid_text(grid, row.x + 2, row.y, LABEL_W - 1, focused ? STYLE_ACCENT : STYLE_TEXT,
              focused ? ATTR_BOLD : 0, field->label);
    if (focused) grid_put(grid, row.x, row.y, 0x25B8, STYLE_ACCENT, ATTR_BOLD);
    if (field->choices && focused) { /* arrows in the margins, so that all values line up */
        grid_put(grid, x - 2, row.y, 0x2190, STYLE_ACCENT, 0);
        grid_put(grid, x + w, row.y, 0x2192, STYLE_ACCENT, 0);
    }
    if (focused && !field->choices && *input->text) {
        input_draw(grid, x, row.y, w, input, true, 0, 0);
        return;
    }
    pen_print(&pen, *input->text ? STYLE_TEXT : STYLE_DIM, *input->text ? ATTR_BOLD : 0, "%s",
              *input->text ? input->text : field->fallback);
    if (!*input->text && pen.end - pen.x >= (int)strlen(" (default)"))
        pen_print(&pen, STYLE_DIM, 0, " (default)");
    if (focused && !field->choices) grid_mark(grid, (struct rect){x, row.y, 1, 1}, ATTR_REVERSE);
}

/* Draws the sentence below the lines: as many rows at the bottom as it takes, at most half the screen, under
 * a rule with the field's key. Returns the rows. */
static int draw_note(struct workbench *workbench, struct grid *grid, const struct form_state *state)
{
    const struct form_field *field = field_at(workbench, state);
    bool error = !state->launch.pid && state->error[0];
    char waiting[sizeof state->doing + 64];
    snprintf(waiting, sizeof waiting, "The trainer prepares its data before the run begins. Esc cancels.%s%s",
             *state->doing ? "\n" : "", state->doing);
    const char *text = state->launch.pid ? waiting
                       : error           ? state->error
                       : field           ? field->hint
                               : "Enter starts the trainer; it continues when the workbench is closed.";
    int rows = wrap_rows(text, grid->w - 2);
    if (rows > grid->h / 2) rows = grid->h / 2;
    struct pen rule = {grid, 1, grid->h - 2 - rows, grid->w - 1};
    grid_fill(grid, (struct rect){0, rule.y, grid->w, 1}, 0x2500, STYLE_RULE, 0);
    if (error)
        pen_print(&rule, STYLE_BAD, 0, " not started ");
    else if (field && !state->launch.pid)
        pen_print(&rule, STYLE_DIM, 0, " %s ", field->key);
    wrap_draw(grid, (struct rect){1, rule.y + 1, grid->w - 2, rows}, error ? STYLE_BAD : STYLE_TEXT, text);
    return rows + 1;
}

/* Draws the planned learning rate and below it a summary of the run, or the problem with its settings. */
static void draw_preview(struct grid *grid, struct rect area, const struct form_state *state)
{
    const struct form_preview *preview = &state->preview;
    bool warned = preview->warning[0] && !preview->problem[0];
    int rows = warned ? wrap_rows(preview->warning, area.w) + 1 : 0, most = area.h - 4 - rows;
    struct rect plot = {area.x, area.y, area.w, most < CHART_H_MAX ? most : CHART_H_MAX}, text = area;
    char title[64];
    double highest = 0;
    if (plot.h < CHART_MIN_H) return;
    for (size_t i = 0; i < preview->count; i++) highest = fmax(highest, preview->lr[i].max);
    snprintf(title, sizeof title, "%s peak %s, end",
             area.w < PREVIEW_W_NAMED ? "lr" : "learning rate:", AXIS_TEXT(highest));
    struct chart chart = {.title = title,
                          .trace = {{.points = preview->lr, .count = preview->count, .style = STYLE_LR}},
                          .trace_count = 1,
                          .last_step = preview->total_steps > 1 ? preview->total_steps - 1 : 1,
                          .zero = true,
                          .cursor = -1,
                          .best_step = -1};
    rect_skip(&text, preview->problem[0] ? 1 : plot.h + 1);
    wrap_draw(grid, text, preview->problem[0] ? STYLE_WARN : STYLE_DIM,
              preview->problem[0] ? preview->problem : preview->facts);
    if (!preview->problem[0]) chart_draw(grid, plot, &chart);
    if (!warned) return;
    rect_skip(&text, wrap_rows(preview->facts, area.w));
    wrap_draw(grid, text, STYLE_WARN, preview->warning);
}

/* Draws the fields, a blank row and the line that starts the run. Where they do not fit, the fields scroll
 * above that line; in a single row, only the line in focus is drawn. */
static void draw_lines(struct workbench *workbench, struct grid *grid, struct rect area,
                       struct form_state *state)
{
    bool focused = state->at == state->count, fit = (int)state->count + 2 <= area.h;
    bool start = focused || area.h > 1;
    size_t page = fit ? state->count : (size_t)(area.h - start);
    table_scroll(&state->scroll, focused ? state->count - 1 : state->at, state->count, page);
    for (size_t i = state->scroll; i < state->count && i - state->scroll < page; i++) {
        struct rect row = {area.x, area.y + (int)(i - state->scroll), area.w, 1};
        draw_field(grid, row, &workbench->options.fields[i], &state->input[i], i == state->at);
    }
    struct rect last = {area.x + 1, area.y + (fit ? (int)state->count + 1 : area.h - 1), area.w, 1};
    if (start)
        grid_line(grid, &last, STYLE_GOOD, ATTR_BOLD | (focused ? ATTR_REVERSE : 0), " %s ",
                  state->launch.pid ? "starting ..." : "Start training");
}

static void form_draw(struct workbench *workbench, void *opaque, struct grid *grid)
{
    struct form_state *state = opaque;
    struct pen pen = {grid, 1, 0, grid->w - 1};
    pen_print(&pen, STYLE_ACCENT, ATTR_BOLD, "New run");
    pen.x += 2;
    pen_print(&pen, STYLE_DIM, 0, "empty fields: the default");
    struct rect body = {0, 2, grid->w, grid->h - 3 - draw_note(workbench, grid, state)};
    int beside = grid->w - LINES_W - 2; /* columns for the preview */
    if (beside > PREVIEW_W_MAX) beside = PREVIEW_W_MAX;
    if (beside >= PREVIEW_W_MIN) {
        draw_preview(grid, (struct rect){grid->w - beside - 1, 2, beside, body.h}, state);
        body.w = grid->w - beside - 2;
    }
    draw_lines(workbench, grid, body, state);
}

/* --- keys --- */

/* Selects the next or previous choice, wrapping around. */
static void turn_choice(const struct form_field *field, struct input *input, bool after)
{
    enum { CHOICES_MAX = 16 };
    char words[256], *rest = words, *word[CHOICES_MAX];
    int count = 0, at = 0;
    snprintf(words, sizeof words, "%s", field->choices);
    while (count < CHOICES_MAX && (word[count] = strsep(&rest, "|")) != NULL) {
        if (strcmp(word[count], *input->text ? input->text : field->fallback) == 0) at = count;
        count++;
    }
    const char *next = word[(at + (after ? 1 : count - 1)) % count];
    input_set(input, strcmp(next, field->fallback) == 0 ? "" : next);
}

static void start(struct workbench *workbench, struct form_state *state)
{
    const char *arguments[FIELDS_MAX + 3] = {"train", LAUNCH_PROGRESS};
    struct err err = {0};
    arguments[2 + gather_words(workbench, state, false, arguments + 2)] = NULL;
    state->doing[0] = '\0';
    if (launch_start(&state->launch, store_home(workbench->store), arguments, NULL, &err))
        snprintf(state->error, sizeof state->error, "%s", err.text);
}

static void edit(const struct form_field *field, struct input *input, enum action action, uint32_t code)
{
    if (!field->choices)
        input_key(input, code);
    else if (action == ACTION_CHOICE_LEFT || action == ACTION_CHOICE_RIGHT || code == ' ')
        turn_choice(field, input, action != ACTION_CHOICE_LEFT);
    else if (action == ACTION_CLEAR || code == K_BACKSPACE)
        input_set(input, "");
}

static void form_key(struct workbench *workbench, void *opaque, enum action action, uint32_t code)
{
    struct form_state *state = opaque;
    const struct form_field *field = field_at(workbench, state);
    if (action == ACTION_BACK) {
        bool starting = state->launch.pid != 0;
        launch_cancel(&state->launch);
        workbench_back(workbench);
        if (starting) workbench_say(workbench, "cancelled: the run was not started");
        return;
    }
    if (state->launch.pid) return; /* the trainer has the values */
    if (action != ACTION_NONE || (field && !field->choices)) state->error[0] = '\0';
    if (action == ACTION_NEXT) {
        state->at = field ? state->at + 1 : 0;
    } else if (action == ACTION_PREVIOUS) {
        state->at = state->at > 0 ? state->at - 1 : state->count;
    } else if (action == ACTION_ENTER && field) {
        state->at++;
    } else if (action == ACTION_ENTER || action == ACTION_START) {
        start(workbench, state);
    } else if (field) {
        edit(field, &state->input[state->at], action, code);
        preview(workbench, state);
    }
    set_typing(workbench, state);
}

const struct view_ops form_view = {
    CONTEXT_FORM, sizeof(struct form_state), form_open, form_read, form_draw, form_key, form_close};
