/* The columns of the list of runs: all fields that there are, the shown ones first and in their order. Each
 * change goes to the settings, from which the list takes its columns. */
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "runs/listing.h"
#include "tui/view/run_cells.h"
#include "tui/view/workbench.h"

enum { COLUMNS_TEXT_MAX = 1024 };

struct columns_state {
    struct arena arena;
    struct field *fields; /* all, each once; the first `chosen` are columns, in their order */
    size_t count, chosen;
    size_t *shown; /* numbers of the fields that have the letters typed */
    size_t shown_count;
    struct input letters;
    size_t at, scroll, page; /* rows */
};

/* Whether the two names mean the same field. */
static bool is_same(const struct field *a, const struct field *b)
{
    if (strcmp(a->name, b->name) == 0) return true;
    return a->column && a->column == b->column;
}

static bool has_field(const struct columns_state *state, const struct field *field)
{
    for (size_t i = 0; i < state->count; i++)
        if (is_same(&state->fields[i], field)) return true;
    return false;
}

static void arrange(struct columns_state *state)
{
    state->shown_count = 0;
    for (size_t i = 0; i < state->count; i++)
        if (strcasestr(state->fields[i].name, state->letters.text)) state->shown[state->shown_count++] = i;
    if (state->at >= state->shown_count) state->at = state->shown_count ? state->shown_count - 1 : 0;
}

/* Puts the fields of a list with commas first, as the columns. */
static void choose(struct columns_state *state, const char *columns)
{
    char text[COLUMNS_TEXT_MAX], *rest = text;
    snprintf(text, sizeof text, "%s", columns);
    state->chosen = 0;
    for (char *name; (name = strsep(&rest, ",")) != NULL && state->chosen < LISTING_COLUMNS_MAX;) {
        struct field field;
        if (!field_find(name + strspn(name, " "), &field)) continue;
        size_t i = 0;
        while (i < state->count && !is_same(&state->fields[i], &field)) i++;
        if (i < state->chosen || i == state->count) continue; /* twice, or not one that was listed */
        memmove(state->fields + state->chosen + 1, state->fields + state->chosen,
                (i - state->chosen) * sizeof field);
        state->fields[state->chosen++] = field;
    }
}

static enum status columns_open(struct workbench *workbench, void *opaque, const char *argument,
                                struct err *err)
{
    struct columns_state *state = opaque;
    const char *columns = settings_get(&workbench->settings, "runs.columns"), *const * names, *rest;
    size_t count;
    (void)argument;
    columns = columns && *columns ? columns : RUN_CELLS_DEFAULT;
    enum status status = field_names_read(workbench->store, &state->arena, &names, &count, err);
    if (status) return status;
    state->fields = arena_alloc_array(&state->arena, count + LISTING_COLUMNS_MAX, sizeof *state->fields);
    state->shown = arena_alloc_array(&state->arena, count + LISTING_COLUMNS_MAX, sizeof *state->shown);
    if (!state->fields || !state->shown)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a list of %zu columns", count);
    for (size_t i = 0; i < count; i++)
        if (field_find(names[i], &state->fields[state->count]) &&
            !has_field(state, &state->fields[state->count]))
            state->count++;
    rest = columns; /* columns that no run has any more are listed, too, so that they can be taken away */
    for (int i = 0; *rest && i < LISTING_COLUMNS_MAX; i++) {
        char name[FIELD_NAME_MAX];
        size_t n = strcspn(rest, ",");
        snprintf(name, sizeof name, "%.*s", (int)n, rest);
        rest += n + (rest[n] == ',');
        if (field_find(name, &state->fields[state->count]) && !has_field(state, &state->fields[state->count]))
            state->count++;
    }
    choose(state, columns);
    arrange(state);
    return STATUS_OK;
}

static void columns_close(void *opaque)
{
    arena_release(&((struct columns_state *)opaque)->arena);
}

static bool columns_read(struct workbench *workbench, void *opaque, bool store_changed)
{
    (void)workbench;
    (void)opaque;
    (void)store_changed;
    return false;
}

/* ---- drawing ---- */

static const char *unit_words(const struct field *field)
{
    static const char *const words[] = {
        [UNIT_TEXT] = "text",   [UNIT_NUMBER] = "number",    [UNIT_COUNT] = "count",
        [UNIT_TIME] = "time",   [UNIT_SECONDS] = "duration", [UNIT_FRACTION] = "percent",
        [UNIT_WORDS] = "words",
    };
    if (field->made == MADE_CURVE) return "the loss as a small curve";
    if (field->column || field->made) return words[field->unit];
    if (field->metric != METRIC_COUNT) return "metric, newest value";
    return strchr(field->name, '.') ? "key of the configuration" : "measure, newest value";
}

static void columns_draw(struct workbench *workbench, void *opaque, struct grid *grid)
{
    struct columns_state *state = opaque;
    struct pen pen = {grid, 1, 0, grid->w - 1};
    enum { NAME_W = 34 };
    pen_print(&pen, STYLE_ACCENT, ATTR_BOLD, "Columns");
    pen.x += 2;
    pen_print(&pen, STYLE_TEXT, 0, "%zu of %zu fields", state->chosen, state->count);
    pen.x += 2;
    if (workbench->typing || state->letters.text[0]) {
        pen_print(&pen, STYLE_ACCENT, ATTR_BOLD, "/");
        input_draw(grid, pen.x, 0, pen.end - pen.x, &state->letters, workbench->typing, 0, 0);
    }
    state->page = grid->h > 3 ? (size_t)(grid->h - 3) : 1;
    table_scroll(&state->scroll, state->at, state->shown_count, state->page);
    for (size_t row = state->scroll; row < state->shown_count && row - state->scroll < state->page; row++) {
        const struct field *field = &state->fields[state->shown[row]];
        bool chosen = state->shown[row] < state->chosen;
        struct pen line = {grid, 1, 2 + (int)(row - state->scroll), grid->w - 1};
        if (chosen)
            pen_print(&line, STYLE_ACCENT, ATTR_BOLD, "[%2zu] ", state->shown[row] + 1);
        else
            pen_print(&line, STYLE_DIM, 0, "[  ] ");
        pen_print(&line, STYLE_TEXT, chosen ? ATTR_BOLD : 0, "%s", field->name);
        line.x = line.x < NAME_W ? NAME_W : line.x + 2;
        pen_print(&line, STYLE_DIM, 0, "%s", unit_words(field));
        if (row == state->at) grid_mark(grid, (struct rect){0, line.y, grid->w, 1}, ATTR_REVERSE);
    }
}

/* ---- keys ---- */

/* Moves the field from place `from` to place `to`. */
static void move_field(struct columns_state *state, size_t from, size_t to)
{
    struct field field = state->fields[from];
    if (from < to)
        memmove(state->fields + from, state->fields + from + 1, (to - from) * sizeof field);
    else
        memmove(state->fields + to + 1, state->fields + to, (from - to) * sizeof field);
    state->fields[to] = field;
}

static void remember(struct workbench *workbench, const struct columns_state *state)
{
    char text[COLUMNS_TEXT_MAX] = "";
    for (size_t i = 0, n = 0; i < state->chosen; i++)
        if (n + strlen(state->fields[i].name) + 2 < sizeof text)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? "," : "", state->fields[i].name);
    settings_set(&workbench->settings, "runs.columns", text);
}

static void toggle(struct workbench *workbench, struct columns_state *state, size_t number)
{
    if (number < state->chosen && state->chosen == 1)
        workbench_say(workbench, "the last column stays");
    else if (number < state->chosen)
        move_field(state, number, --state->chosen);
    else if (state->chosen == LISTING_COLUMNS_MAX)
        workbench_say(workbench, "there are %d columns already: hide one first", LISTING_COLUMNS_MAX);
    else
        move_field(state, number, state->chosen++);
}

static void columns_key(struct workbench *workbench, void *opaque, enum action action, uint32_t code)
{
    struct columns_state *state = opaque;
    size_t number = state->at < state->shown_count ? state->shown[state->at] : state->count;
    bool column = number < state->chosen;
    if (keys_move(action, &state->at, state->shown_count, state->page)) return;
    if (workbench->typing) {
        if (code == K_ESCAPE) input_set(&state->letters, "");
        if (code == K_ENTER || code == K_ESCAPE)
            workbench->typing = false;
        else
            input_key(&state->letters, code);
    } else if (action == ACTION_BACK) {
        workbench_back(workbench);
        return; /* the state is gone */
    } else if (action == ACTION_FILTER) {
        workbench->typing = true;
    } else if (action == ACTION_TOGGLE && number < state->count) {
        toggle(workbench, state, number);
    } else if (action == ACTION_EARLIER && column && number > 0) {
        move_field(state, number, number - 1);
        if (state->at > 0) state->at--;
    } else if (action == ACTION_LATER && column && number + 1 < state->chosen) {
        move_field(state, number, number + 1);
        state->at++;
    } else if (action == ACTION_CLEAR) {
        choose(state, RUN_CELLS_DEFAULT);
    }
    arrange(state);
    remember(workbench, state);
}

const struct view_ops columns_view = {
    CONTEXT_COLUMNS, sizeof(struct columns_state), columns_open, columns_read, columns_draw, columns_key,
    columns_close};
