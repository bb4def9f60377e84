/* The form of a new run: one line a configuration key, defaults shown until something is typed. Starting
 * hands the values to `anneal train` and waits for the run to appear; a bad value shows the trainer's own
 * sentence here. Beside the lines, where there is room, what they would train: the planned learning rate as a
 * chart, and what is wrong with them, as they are typed. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tui/view/launch.h"
#include "tui/view/workbench.h"
#include "tui/widget/axis.h"
#include "tui/widget/chart.h"
#include "tui/widget/input.h"
#include "tui/widget/table.h"

enum {
    FIELDS_MAX = 32,
    LABEL_W = 18,
    PREVIEW_W_MIN = 28,
    PREVIEW_W_MAX = 70,
    LINES_W = 48, /* "In the beginning (default)" */
    LINES_W_WIDE = 66,
    WIDE = 120,
    PREVIEW_W_NAMED = 44, /* the chart's whole title */
    CHART_H_MAX = 14
};

struct form_state {
    struct input input[FIELDS_MAX]; /* "": the default */
    size_t count, at;               /* at == count: the line that starts the run */
    size_t scroll;
    struct launch launch;
    char error[512];                        /* why the last start failed */
    char words[FIELDS_MAX][INPUT_MAX + 80]; /* scratch: the arguments of a start, or of a preview */
    struct form_preview preview;
    struct canvas canvas;
};

/* The words of the fields that were filled in; those of keys alone, or of all. Borrowed from the state. */
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
    (void)argument, (void)err; /* it cannot fail */
    struct form_state *state = opaque;
    state->count = workbench->options.field_count < FIELDS_MAX ? workbench->options.field_count : FIELDS_MAX;
    preview(workbench, state);
    set_typing(workbench, state);
    return STATUS_OK;
}

static void form_close(void *opaque)
{
    struct form_state *state = opaque;
    launch_release(&state->launch);
    canvas_release(&state->canvas);
}

static bool form_read(struct workbench *workbench, void *opaque, bool store_changed)
{
    struct form_state *state = opaque;
    struct err err = {0};
    char run_id[RUN_ID_MAX];
    (void)store_changed;
    if (!state->launch.pid) return false;
    enum status status = launch_poll(&state->launch, workbench->store, run_id, &err);
    if (status == STATUS_BUSY) return true;
    if (status == STATUS_OK) {
        workbench_replace(workbench, &run_view, run_id); /* frees the state */
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
    int x = row.x + 2, w = row.w - LABEL_W - 4;
    grid_text(grid, x, row.y, LABEL_W - 1, focused ? STYLE_ACCENT : STYLE_TEXT, focused ? ATTR_BOLD : 0,
              field->label);
    if (focused) grid_put(grid, row.x, row.y, 0x25B8, STYLE_ACCENT, ATTR_BOLD);
    x += LABEL_W;
    if (w > 40) w = 40;
    bool choice = field->choices != NULL;
    if (choice && focused) { /* in the margins, so that all values line up */
        grid_put(grid, x - 2, row.y, 0x2190, STYLE_ACCENT, 0);
        grid_put(grid, x + w, row.y, 0x2192, STYLE_ACCENT, 0);
    }
    bool empty = input->text[0] == '\0';
    const char *text = empty ? field->fallback : input->text;
    int cursor = 0, used;
    if (!choice && !empty) { /* the end being typed stays in sight */
        char before[INPUT_MAX];
        memcpy(before, input->text, input->cursor);
        before[input->cursor] = '\0';
        cursor = glyph_text_width(before);
        while (cursor > w - 2) {
            uint32_t c = glyph_next(&text);
            cursor -= glyph_width(c);
        }
    }
    used = grid_text(grid, x, row.y, w, empty ? STYLE_DIM : STYLE_TEXT, empty ? 0 : ATTR_BOLD, text);
    static const char by_default[] = "(default)";
    if (empty && used + 1 + (int)sizeof by_default - 1 <= w)
        grid_text(grid, x + used + 1, row.y, w - used - 1, STYLE_DIM, 0, by_default);
    if (focused && !choice) {
        grid_fill(grid, (struct rect){x + used, row.y, 0, 1}, ' ', STYLE_TEXT, 0);
        grid_mark(grid, (struct rect){x + cursor, row.y, 1, 1}, ATTR_REVERSE);
    }
}

static void draw_start(struct grid *grid, struct rect row, const struct form_state *state)
{
    bool focused = state->at == state->count;
    grid_printf(grid, row.x + 2, row.y, row.w - 4, STYLE_GOOD, ATTR_BOLD | (focused ? ATTR_REVERSE : 0),
                " %s ", state->launch.pid ? "starting ..." : "Start training");
}

/* The sentence below the lines, and its style. */
static enum style note_text(struct workbench *workbench, const struct form_state *state, char *buf,
                            size_t size)
{
    if (state->launch.pid) {
        snprintf(buf, size, "The trainer reads its data and makes the run. Esc: do not wait.");
    } else if (state->error[0]) {
        snprintf(buf, size, "not started: %s", state->error);
        return STYLE_BAD;
    } else if (field_at(workbench, state)) {
        snprintf(buf, size, "%s", field_at(workbench, state)->hint);
    } else {
        snprintf(buf, size, "Enter starts the trainer; it goes on when the workbench is closed.");
    }
    return STYLE_TEXT;
}

/* As many rows at the bottom as the sentence takes, at most half the screen, below a rule with the key in it.
 * Returns the rows. */
static int draw_note(struct workbench *workbench, struct grid *grid, const struct form_state *state)
{
    char text[600];
    const struct form_field *field = field_at(workbench, state);
    enum style style = note_text(workbench, state, text, sizeof text);
    int rows = wrap_rows(text, grid->w - 2), w = grid->w;
    if (rows > grid->h / 2) rows = grid->h / 2;
    int y = grid->h - 2 - rows;
    grid_fill(grid, (struct rect){0, y, w, 1}, 0x2500, STYLE_RULE, 0);
    if (!state->launch.pid && !state->error[0] && field)
        grid_printf(grid, 1, y, w - 2, STYLE_DIM, 0, " %s ", field->key);
    wrap_draw(grid, (struct rect){1, y + 1, w - 2, rows}, style, text);
    return rows + 1;
}

/* The planned learning rate, and below it what would be trained, or why it would not be. */
static void draw_preview(struct workbench *workbench, struct grid *grid, struct rect area,
                         struct form_state *state)
{
    const struct form_preview *preview = &state->preview;
    struct rect chart_area = {area.x, area.y, area.w, area.h - 4 < CHART_H_MAX ? area.h - 4 : CHART_H_MAX};
    struct rect text = {area.x, area.y + chart_area.h + 1, area.w, area.h - chart_area.h - 1};
    if (chart_area.h < CHART_MIN_H) return;
    char title[64], peak[24];
    double highest = 0;
    for (size_t i = 0; i < preview->count; i++) highest = fmax(highest, preview->lr[i].max);
    snprintf(title, sizeof title, "%s peak %s, end",
             area.w < PREVIEW_W_NAMED ? "lr" : "learning rate:", axis_format(highest, peak, sizeof peak));
    struct chart chart = {.title = title,
                          .trace = {{.points = preview->lr, .count = preview->count, .style = STYLE_LR}},
                          .trace_count = 1,
                          .last_step = preview->total_steps > 1 ? preview->total_steps - 1 : 1,
                          .zero = true,
                          .cursor = -1,
                          .best_step = -1};
    if (preview->problem[0]) {
        wrap_draw(grid, (struct rect){area.x, area.y + 1, area.w, area.h - 1}, STYLE_WARN, preview->problem);
        return;
    }
    workbench_did(workbench, chart_draw(grid, chart_area, &chart, &state->canvas, &workbench->err));
    wrap_draw(grid, text, STYLE_DIM, preview->facts);
}

static void form_draw(struct workbench *workbench, void *opaque, struct grid *grid)
{
    struct form_state *state = opaque;
    int x = grid_text(grid, 1, 0, grid->w - 2, STYLE_ACCENT, ATTR_BOLD, "New run") + 3;
    grid_text_fitting(grid, x, 0, grid->w - x - 1, STYLE_DIM, 0,
                      (const char *[]){"what is left empty keeps its default", "empty: the default", NULL});
    struct rect body = {0, 2, grid->w, grid->h - 3 - draw_note(workbench, grid, state)};
    int beside = grid->w - (grid->w >= WIDE ? LINES_W_WIDE : LINES_W) - 2; /* columns for the preview */
    if (beside > PREVIEW_W_MAX) beside = PREVIEW_W_MAX;
    if (beside >= PREVIEW_W_MIN) {
        draw_preview(workbench, grid, (struct rect){grid->w - beside - 1, 2, beside, body.h}, state);
        body.w = grid->w - beside - 2;
    }
    size_t rows = state->count + 2, page = (size_t)body.h; /* fields, a blank row, the start line */
    size_t at = state->at == state->count ? state->count + 1 : state->at;
    table_scroll(&state->scroll, at, rows, page);
    for (size_t i = state->scroll; i < rows && i - state->scroll < page; i++) {
        struct rect row = {body.x, body.y + (int)(i - state->scroll), body.w, 1};
        if (i < state->count)
            draw_field(grid, row, &workbench->options.fields[i], &state->input[i], i == state->at);
        else if (i == state->count + 1)
            draw_start(grid, row, state);
    }
}

/* --- keys --- */

/* The choice `direction` away from the present one, round about. */
static void turn_choice(const struct form_field *field, struct input *input, int direction)
{
    char words[256], *rest = words, *word[16];
    int count = 0, at = 0;
    const char *now = input->text[0] ? input->text : field->fallback;
    snprintf(words, sizeof words, "%s", field->choices);
    for (char *w; count < 16 && (w = strsep(&rest, "|")) != NULL; count++) {
        word[count] = w;
        if (strcmp(w, now) == 0) at = count;
    }
    const char *next = word[(at + direction + count) % count];
    input_set(input, strcmp(next, field->fallback) == 0 ? "" : next);
}

static void start(struct workbench *workbench, struct form_state *state)
{
    size_t n = 0;
    const char *arguments[FIELDS_MAX * 2 + 8];
    struct err err = {0};
    if (state->launch.pid) return;
    state->error[0] = '\0';
    arguments[n++] = "anneal";
    arguments[n++] = "train";
    arguments[n++] = "--progress";
    arguments[n++] = "none";
    n += gather_words(workbench, state, false, arguments + n);
    arguments[n] = NULL;
    if (launch_start(&state->launch, store_home(workbench->store), arguments, &err))
        snprintf(state->error, sizeof state->error, "%s", err.text);
}

static void edit(const struct form_field *field, struct input *input, enum action action, uint32_t code)
{
    if (field->choices) {
        if (action == ACTION_CHOICE_RIGHT || code == ' ')
            turn_choice(field, input, 1);
        else if (action == ACTION_CHOICE_LEFT)
            turn_choice(field, input, -1);
        else if (action == ACTION_CLEAR || code == K_BACKSPACE)
            input_set(input, "");
        return;
    }
    if (action == ACTION_CHOICE_LEFT)
        input_left(input);
    else if (action == ACTION_CHOICE_RIGHT)
        input_right(input);
    else if (action == ACTION_CLEAR)
        input_set(input, "");
    else if (code == K_BACKSPACE)
        input_backspace(input);
    else if (code == K_DELETE)
        input_delete(input);
    else if (code == K_HOME)
        input_home(input);
    else if (code == K_END)
        input_end(input);
    else if (code < K_UP)
        input_type(input, code);
}

static void form_key(struct workbench *workbench, void *opaque, enum action action, uint32_t code)
{
    struct form_state *state = opaque;
    const struct form_field *field = field_at(workbench, state);
    if (action == ACTION_BACK) {
        workbench_back(workbench);
        return;
    }
    if (state->launch.pid) return; /* its values are on their way */
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
    .name = "the form",
    .context = CONTEXT_FORM,
    .state_bytes = sizeof(struct form_state),
    .open = form_open,
    .read = form_read,
    .draw = form_draw,
    .key = form_key,
    .close = form_close,
};
