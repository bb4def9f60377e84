/* The configuration of a run: first the keys that differ from their defaults, then all others; searchable. */
#include <stdlib.h>
#include <string.h>

#include "tui/view/labels.h"
#include "tui/view/list.h"
#include "tui/view/workbench.h"

struct configuration_state {
    struct run_info run;
    struct arena arena; /* of the rows */
    struct config_row *rows;
    size_t count, differing;
    const struct config_row **shown; /* those that have the letters typed, the differing ones first */
    size_t shown_differing;
    struct list list;
};

static bool has_letters(const struct config_row *row, const char *letters)
{
    return strcasestr(row->key, letters) || strcasestr(row->value, letters) || strcasestr(row->help, letters);
}

/* The key of the selected row; "": none is. */
static const char *selected_key(const struct configuration_state *state)
{
    return state->list.count ? state->shown[state->list.at]->key : "";
}

/* The row of the key stays selected where it is still shown. */
static void arrange(struct configuration_state *state, const char *key)
{
    size_t n = 0;
    for (int pass = 0; pass < 2; pass++) {
        if (pass) state->shown_differing = n;
        for (size_t i = 0; i < state->count; i++)
            if (state->rows[i].differs == !pass && has_letters(&state->rows[i], state->list.letters.text))
                state->shown[n++] = &state->rows[i];
    }
    list_set_count(&state->list, n);
    for (size_t i = 0; i < n; i++)
        if (strcmp(state->shown[i]->key, key) == 0) state->list.at = i;
}

/* Reads the run and its configuration; on failure the old rows stay. */
static enum status load(struct workbench *workbench, struct configuration_state *state, struct err *err)
{
    struct configuration_state next = {.run = state->run, .list = state->list};
    char *text = NULL;
    enum status status = run_config(workbench->store, next.run.id, &text, err);
    if (!status && text && *text)
        status = workbench->options.config_rows(text, &next.arena, &next.rows, &next.count, err);
    free(text);
    if (!status) next.shown = arena_alloc_array(&next.arena, next.count + 1, sizeof *next.shown);
    if (!status && !next.shown) status = err_no_memory(err, "%zu keys of a configuration", next.count);
    if (status) {
        arena_release(&next.arena);
        return status;
    }
    struct configuration_state old = *state;
    *state = next;
    for (size_t i = 0; i < state->count; i++) state->differing += state->rows[i].differs;
    arrange(state, selected_key(&old));
    arena_release(&old.arena);
    return STATUS_OK;
}

static enum status configuration_open(struct workbench *workbench, void *opaque, const char *argument,
                                      struct err *err)
{
    struct configuration_state *state = opaque;
    enum status status = run_find(workbench->store, argument, &state->run, err);
    return status ? status : load(workbench, state, err);
}

static void configuration_close(void *opaque)
{
    arena_release(&((struct configuration_state *)opaque)->arena);
}

/* Only a resume changes a configuration. */
static bool configuration_read(struct workbench *workbench, void *opaque, bool store_changed)
{
    struct configuration_state *state = opaque;
    int segment = state->run.segment;
    if (!store_changed && !status_is_live(state->run.status)) return false; /* it dies without a commit */
    if (workbench_did(workbench, run_get(workbench->store, state->run.id, &state->run, &workbench->err)) &&
        state->run.segment != segment)
        workbench_did(workbench, load(workbench, state, &workbench->err));
    return true;
}

static void draw_row(struct grid *grid, struct rect row, const struct config_row *line)
{
    enum { KEY_W = 32, VALUE_W = 24 };
    int attr = line->differs ? ATTR_BOLD : 0;
    struct pen pen = {grid, row.x, row.y, row.x + row.w};
    pen_print(&pen, line->differs ? STYLE_TEXT : STYLE_DIM, attr, "%s", line->key);
    pen.x = pen.x < row.x + KEY_W ? row.x + KEY_W : pen.x + 1;
    pen_print(&pen, STYLE_TEXT, attr, "%s", *line->value ? line->value : "-");
    if (!line->differs || !*line->fallback) return;
    pen.x = pen.x < row.x + KEY_W + VALUE_W ? row.x + KEY_W + VALUE_W : pen.x + 2;
    pen_print(&pen, STYLE_DIM, 0, "default %s", line->fallback);
}

static void configuration_draw(struct workbench *workbench, void *opaque, struct grid *grid)
{
    struct configuration_state *state = opaque;
    enum { NOTE = 2 }; /* rows of text below a rule, or more where a text needs them */
    const struct config_row *at = state->list.count ? state->shown[state->list.at] : NULL;
    const char *help = !at ? "" : *at->help ? at->help : "a key of a group of parameters";
    int rows = wrap_rows(help, grid->w - 2);
    rows = rows < NOTE ? NOTE : rows > grid->h / 3 ? grid->h / 3 : rows;
    struct rect body = {0, 3, grid->w, grid->h - 5 - rows}, note = {1, grid->h - 1 - rows, grid->w - 2, rows};
    struct pen pen = {grid, 1, 2, grid->w - 1};
    label_draw_run(grid, &state->run, workbench->now);
    pen_word(&pen, STYLE_TEXT, ATTR_BOLD, "Configuration");
    if (state->count)
        pen_word(&pen, STYLE_DIM, 0, "%zu of %zu keys differ from their defaults", state->differing,
                 state->count);
    else
        pen_word(&pen, STYLE_DIM, 0, "none: the run was imported");
    list_draw_letters(workbench, &state->list, &pen);
    size_t end = list_fit(&state->list, body);
    for (size_t i = state->list.scroll; i < end; i++) {
        int y = body.y + (int)(i - state->list.scroll);
        draw_row(grid, (struct rect){1, y, grid->w - 2, 1}, state->shown[i]);
        if (i == state->shown_differing && i > 0 && i > state->list.scroll)
            grid_mark(grid, (struct rect){0, y - 1, grid->w, 1}, ATTR_UNDERLINE);
    }
    list_mark(&state->list, grid, body);
    if (!at) return;
    grid_fill(grid, (struct rect){0, note.y - 1, grid->w, 1}, 0x2500, STYLE_RULE);
    wrap_draw(grid, note, STYLE_TEXT, help);
}

static bool configuration_key(struct workbench *workbench, void *opaque, enum action action, uint32_t code)
{
    struct configuration_state *state = opaque;
    bool used = list_key(workbench, &state->list, action, code);
    if (used) arrange(state, selected_key(state));
    return used;
}

const struct view_ops configuration_view = {CONTEXT_CONFIGURATION, sizeof(struct configuration_state),
                                            configuration_open,    configuration_read,
                                            configuration_draw,    configuration_key,
                                            configuration_close};
