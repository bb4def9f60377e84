/* The list of runs: a table whose columns, order and filter the user chooses, and which the settings
 * remember. Runs are selected, marked and deleted by id, so that rows may come and go. A deleted run is only
 * hidden until the view closes: until then it can be brought back, and nothing is lost if the workbench is
 * killed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "tui/view/labels.h"
#include "tui/view/launch.h"
#include "tui/view/run_cells.h"
#include "tui/view/run_change.h"
#include "tui/view/run_set.h"
#include "tui/view/workbench.h"

enum { COLUMNS_TEXT_MAX = 1024, MANY_RUNS = 200 };

struct runs_state {
    struct store *store;
    struct listing listing;
    struct run_stamps stamps;
    size_t live;
    double read_at; /* time of the last read */
    bool stale;     /* the store has changed since */
    struct input filter;
    char columns[COLUMNS_TEXT_MAX], sort[INPUT_MAX]; /* as in struct listing_request */
    char selected[RUN_ID_MAX];
    char asked[RUN_ID_MAX]; /* the run of the newest question */
    size_t scroll;
    size_t page; /* rows of the body when last drawn */
    struct run_set marked, deleted;
    size_t marked_shown,
        deleted_listed; /* of these, those that are shown; those that are still in the store */
    struct run_curves curves;
};

/* --- which rows --- */

static const struct run_info *run_at(const struct runs_state *state, size_t row)
{
    return &state->listing.runs[state->listing.shown[row]];
}

/* The index of a run among the rows shown; shown_count: not shown. */
static size_t row_of(const struct runs_state *state, const char *run_id)
{
    size_t row = 0;
    while (row < state->listing.shown_count && strcmp(run_at(state, row)->id, run_id) != 0) row++;
    return row;
}

/* Selects a row: beyond the end the last; none if no row is shown. */
static void select_row(struct runs_state *state, size_t row)
{
    size_t count = state->listing.shown_count;
    if (row >= count) row = count ? count - 1 : 0;
    snprintf(state->selected, sizeof state->selected, "%s", count ? run_at(state, row)->id : "");
}

/* Takes deleted runs out of the rows. A selected run that is not shown any more gives way to `row`. */
static void arrange(struct runs_state *state, size_t row)
{
    struct listing *listing = &state->listing;
    size_t kept = 0;
    state->marked_shown = 0;
    for (size_t i = 0; i < listing->shown_count; i++) {
        const char *id = run_at(state, i)->id;
        if (state->deleted.count && run_set_has(&state->deleted, id)) continue;
        listing->shown[kept++] = listing->shown[i];
        state->marked_shown += state->marked.count && run_set_has(&state->marked, id);
    }
    listing->shown_count = kept;
    state->deleted_listed = 0;
    for (size_t i = 0; state->deleted.count && i < listing->count; i++)
        state->deleted_listed += run_set_has(&state->deleted, listing->runs[i].id);
    if (row_of(state, state->selected) == kept) select_row(state, row);
}

/* Sets columns, filter and order, and lets the settings remember them. */
static enum status apply(struct workbench *workbench, struct runs_state *state, struct err *err)
{
    size_t row = row_of(state, state->selected);
    struct listing_request request = {state->columns, state->filter.text, state->sort};
    enum status status = listing_set(&state->listing, workbench->store, &request, false, err);
    if (status) return status;
    settings_set(&workbench->settings, "runs.filter", state->filter.text);
    settings_set(&workbench->settings, "runs.sort", state->sort);
    arrange(state, row);
    return STATUS_OK;
}

/* Takes columns, filter and order from the settings. What no longer exists in an order is left out. */
static enum status recall(struct workbench *workbench, struct runs_state *state, struct err *err)
{
    const char *columns = settings_get(&workbench->settings, "runs.columns"),
               *filter = settings_get(&workbench->settings, "runs.filter"),
               *sort = settings_get(&workbench->settings, "runs.sort");
    snprintf(state->columns, sizeof state->columns, "%s", columns && *columns ? columns : RUN_CELLS_DEFAULT);
    input_set(&state->filter, filter ? filter : "");
    snprintf(state->sort, sizeof state->sort, "%s", sort ? sort : "");
    enum status status = apply(workbench, state, err);
    if (status != STATUS_USAGE) return status;
    state->sort[0] = '\0';
    return apply(workbench, state, err);
}

/* --- reading --- */

/* Reads all runs anew; on failure the old ones stay. */
static enum status read_runs(struct workbench *workbench, struct runs_state *state, struct err *err)
{
    size_t row = row_of(state, state->selected);
    enum status status = listing_read(&state->listing, workbench->store, err);
    if (!status) status = run_stamps_make(&state->stamps, state->listing.runs, state->listing.count, err);
    if (status) return status;
    state->read_at = workbench->now;
    state->stale = false;
    state->live = 0;
    for (size_t i = 0; i < state->listing.count; i++)
        state->live += label_is_live(state->listing.runs[i].status);
    arrange(state, row);
    return STATUS_OK;
}

/* Selects a run if it still exists; clears a filter that hides it, or keys would act on another run. */
static void select_run(struct workbench *workbench, struct runs_state *state, const char *run_id)
{
    bool exists = false;
    for (size_t i = 0; i < state->listing.count; i++)
        exists = exists || strcmp(state->listing.runs[i].id, run_id) == 0;
    if (!exists) return;
    snprintf(state->selected, sizeof state->selected, "%s", run_id);
    if (row_of(state, run_id) == state->listing.shown_count && state->filter.text[0]) {
        input_set(&state->filter, "");
        workbench_did(workbench, apply(workbench, state, &workbench->err));
    }
    arrange(state, 0);
}

static enum status runs_open(struct workbench *workbench, void *opaque, const char *argument, struct err *err)
{
    struct runs_state *state = opaque;
    (void)argument;
    state->store = workbench->store;
    enum status status = read_runs(workbench, state, err);
    return status ? status : recall(workbench, state, err);
}

static void runs_close(void *opaque)
{
    struct runs_state *state = opaque;
    for (size_t i = 0; i < state->deleted.count; i++) /* one that has been resumed meanwhile stays */
        (void)run_delete(state->store, state->deleted.ids[i], NULL);
    run_set_release(&state->deleted);
    run_set_release(&state->marked);
    run_curves_release(&state->curves);
    listing_release(&state->listing);
    run_stamps_release(&state->stamps);
}

/* Whether columns_view has chosen other columns. */
static bool has_other_columns(const struct workbench *workbench, const struct runs_state *state)
{
    const char *columns = settings_get(&workbench->settings, "runs.columns");
    return strcmp(columns && *columns ? columns : RUN_CELLS_DEFAULT, state->columns) != 0;
}

/* A living run commits four times a second: many runs are read anew once a second at most. */
static bool runs_read(struct workbench *workbench, void *opaque, bool store_changed)
{
    struct runs_state *state = opaque;
    bool other = has_other_columns(workbench, state), back = workbench->visited[0] != '\0',
         many = state->listing.count > MANY_RUNS;
    launch_reap();
    if (other) workbench_did(workbench, recall(workbench, state, &workbench->err));
    state->stale = state->stale || store_changed;
    if (!state->stale && !state->live)
        return other || (state->listing.count > 0 && (int64_t)workbench->now % 60 == 0); /* ages */
    if (many && !back && workbench->now < state->read_at + 1) return other;
    workbench_did(workbench, read_runs(workbench, state, &workbench->err));
    if (back) select_run(workbench, state, workbench->visited);
    workbench->visited[0] = '\0';
    return true;
}

/* --- drawing --- */

static int column_gap(const struct grid *grid)
{
    return grid->w < 100 ? 1 : 2;
}

/* Tags and notes take no room while no run has any. */
static bool is_unused(const struct listing *listing, int column)
{
    const struct field *field = &listing->fields[column].field;
    if (field->made != MADE_TAGS && field->column != &store_columns[COLUMN_RUNS_note]) return false;
    for (size_t i = 0; i < listing->shown_count; i++)
        if (listing_value(listing, column, listing->shown[i])->known) return false;
    return true;
}

/* Chooses the widths of the columns that fit; the name column has room for stamps. */
static void fit_columns(const struct runs_state *state, const struct grid *grid,
                        struct table_column columns[LISTING_COLUMNS_MAX], int widths[LISTING_COLUMNS_MAX])
{
    enum { NAME_LEAST = 6 };
    const struct listing *listing = &state->listing;
    int least = state->stamps.width ? NAME_LEAST + 1 + state->stamps.width : 0;
    for (int c = 0; c < listing->column_count; c++) {
        columns[c] = run_cell_column(&listing->fields[c].field, c);
        if (is_unused(listing, c)) columns[c].min = 0;
        if (strcmp(listing->fields[c].field.name, "name") == 0 && least > columns[c].min)
            columns[c].min = least;
    }
    table_fit(columns, listing->column_count, grid->w - 2, column_gap(grid), widths);
}

static void draw_row(struct workbench *workbench, struct runs_state *state, struct grid *grid, int y,
                     const int *widths, size_t number)
{
    const struct listing *listing = &state->listing;
    const struct run_info *run = &listing->runs[number];
    for (int c = 0, x = 1; c < listing->column_count; c++) {
        const struct field *field = &listing->fields[c].field;
        const struct series *curve = NULL;
        struct pen pen = {grid, x, y, x + widths[c]};
        if (!widths[c]) continue;
        x = pen.end + column_gap(grid);
        if (field->made == MADE_CURVE) {
            workbench->err.status = STATUS_OK;
            curve = run_curve(&state->curves, workbench->store, run, &workbench->err);
            if (!curve && run->steps > 0) workbench_did(workbench, workbench->err.status);
        }
        run_cell_draw(pen, field, listing_value(listing, c, number), run,
                      number < state->stamps.count ? state->stamps.of[number] : "", curve, workbench->now);
    }
}

static void draw_header(const struct runs_state *state, struct grid *grid, bool typing)
{
    const struct listing *listing = &state->listing;
    const struct filter_problem *problem = &listing->filter.problem;
    size_t count = listing->count - state->deleted_listed;
    struct pen pen = {grid, 1, 0, grid->w - 1};
    char order[INPUT_MAX + 8];
    pen_print(&pen, STYLE_ACCENT, ATTR_BOLD, "anneal");
    pen.x += 2;
    bool filter = typing || state->filter.text[0];
    if (!filter || grid->w >= 60) { /* else the filter takes the room */
        pen_print(&pen, STYLE_TEXT, 0, "%zu run%s, %zu training", count, text_plural((int64_t)count),
                  state->live);
        pen.x += 2;
    }
    if (filter) {
        int room = pen.end - pen.x - 14; /* "9999 match" */
        pen_print(&pen, STYLE_ACCENT, ATTR_BOLD, "/");
        pen.x += input_draw(grid, pen.x, 0, room, &state->filter, typing, problem->from,
                            problem->why[0] ? problem->to : 0);
        pen.x += typing ? 1 : 2;
        pen_print(&pen, STYLE_DIM, 0, "%zu match%s", listing->shown_count,
                  listing->shown_count == 1 ? "es" : "");
        pen.x += 2;
    }
    if (state->marked_shown) {
        pen_print(&pen, STYLE_ACCENT, ATTR_BOLD, "%zu marked", state->marked_shown);
        pen.x += 2;
    }
    snprintf(order, sizeof order, "%s%s", *state->sort ? "by " : "newest first", state->sort);
    if (pen.end - pen.x > glyph_text_width(order)) pen_print_right(&pen, STYLE_DIM, 0, order);
}

static void draw_empty(const struct runs_state *state, struct grid *grid, struct rect body)
{
    const char *program = TEXT_PROGRAM;
    char teaching[2048];
    snprintf(teaching, sizeof teaching,
             "No runs yet.\n\n"
             "Press n to start one from a form, or type in another terminal:\n\n"
             "  %s train --data.train=kjv          the King James Bible\n"
             "  %s train --data.train=book.txt     a text of yours\n"
             "  %s train config.ini                settings from a file\n\n"
             "A run continues when this workbench is closed.",
             program, program, program);
    struct rect area = {body.x + 3, body.y + 1, body.w - 4, body.h - 1};
    struct pen pen = {grid, area.x, area.y, area.x + area.w};
    if (state->filter.text[0])
        pen_print(&pen, STYLE_DIM, 0, "No run matches \"%s\": Esc shows all.", state->filter.text);
    else if (state->deleted_listed)
        pen_print(&pen, STYLE_DIM, 0, "All runs are deleted when you leave: u brings them back.");
    else if (state->listing.hidden)
        pen_print(&pen, STYLE_DIM, 0, "All runs are archived: /archived shows them.");
    else
        wrap_draw(grid, area, STYLE_TEXT, teaching);
}

static void runs_draw(struct workbench *workbench, void *opaque, struct grid *grid)
{
    enum { HEADER = 2, FOOTER = 1 };
    struct runs_state *state = opaque;
    const struct listing *listing = &state->listing;
    struct rect body = {0, HEADER, grid->w, grid->h - HEADER - FOOTER};
    size_t selected = row_of(state, state->selected);
    struct table_column columns[LISTING_COLUMNS_MAX];
    int widths[LISTING_COLUMNS_MAX];
    fit_columns(state, grid, columns, widths);
    draw_header(state, grid, workbench->typing);
    table_draw_titles(grid, 1, 1, columns, listing->column_count, column_gap(grid), widths, ATTR_UNDERLINE);
    state->page = (size_t)body.h;
    if (!listing->shown_count)
        draw_empty(state, grid, body);
    else
        workbench_hint(workbench, run_at(state, selected)->status);
    if (workbench->typing)
        snprintf(workbench->remark, sizeof workbench->remark, "%s", listing->filter.problem.why);
    table_scroll(&state->scroll, selected, listing->shown_count, state->page);
    for (size_t row = state->scroll; row < listing->shown_count && row < state->scroll + state->page; row++) {
        int y = body.y + (int)(row - state->scroll);
        const char *id = run_at(state, row)->id;
        draw_row(workbench, state, grid, y, widths, listing->shown[row]);
        if (row == selected) grid_put(grid, 0, y, 0x25B8, STYLE_ACCENT, ATTR_BOLD);
        if (run_set_has(&state->marked, id)) grid_put(grid, 0, y, '*', STYLE_ACCENT, ATTR_BOLD);
        if (strcmp(workbench->compared, id) == 0) grid_put(grid, 0, y, '=', STYLE_LR, ATTR_BOLD);
        if (row == selected) grid_mark(grid, (struct rect){0, y, grid->w, 1}, ATTR_REVERSE);
    }
}

/* --- keys that arrange the list --- */

/* Completes a field's name; several that fit are told. */
static void complete_filter(struct workbench *workbench, struct runs_state *state)
{
    const char *const *names;
    char fitting[400];
    size_t count;
    if (!workbench_did(workbench,
                       listing_names(&state->listing, workbench->store, &names, &count, &workbench->err)))
        return;
    if (input_complete(&state->filter, names, count, " ,()=!<>~\"'", fitting, sizeof fitting) > 1)
        workbench_say(workbench, "%s", fitting);
}

static void filter_key(struct workbench *workbench, struct runs_state *state, uint32_t code)
{
    if (code == K_ESCAPE)
        input_set(&state->filter, "");
    else if (code == K_TAB)
        complete_filter(workbench, state);
    else if (code != K_ENTER)
        input_key(&state->filter, code);
    workbench_did(workbench, apply(workbench, state, &workbench->err));
}

/* Sorts by the column after the one that sorts now; after the last by none, the newest first. Counts begin
 * with the highest. */
static void sort_by_next(struct runs_state *state)
{
    const struct listing *listing = &state->listing;
    const char *now = state->sort + (*state->sort == '-');
    int c = -1;
    while (*now && ++c < listing->column_count) {
        const char *name = listing->fields[c].field.name;
        if (strncmp(now, name, strlen(name)) == 0 && strchr(",", now[strlen(name)])) break;
    }
    while (++c < listing->column_count && listing->fields[c].field.made == MADE_CURVE) continue;
    state->sort[0] = '\0';
    if (c < listing->column_count)
        snprintf(state->sort, sizeof state->sort, "%s%s",
                 listing->fields[c].field.unit == UNIT_COUNT ? "-" : "", listing->fields[c].field.name);
}

static void reverse(struct runs_state *state)
{
    char sort[INPUT_MAX];
    snprintf(sort, sizeof sort, "%s", *state->sort ? state->sort : "-created_at");
    if (*sort == '-')
        snprintf(state->sort, sizeof state->sort, "%s", sort + 1);
    else
        snprintf(state->sort, sizeof state->sort, "-%.*s", INPUT_MAX - 2, sort);
    if (strcmp(state->sort, "-created_at") == 0) state->sort[0] = '\0'; /* as it is without an order */
}

/* Sets the order typed; one that is wrong can be typed on. */
static void sort_by(struct workbench *workbench, struct runs_state *state, bool entered)
{
    char old[INPUT_MAX];
    if (!entered) {
        workbench_prompt(workbench, ACTION_SORT_BY, "sort by", state->sort);
        return;
    }
    memcpy(old, state->sort, sizeof old);
    snprintf(state->sort, sizeof state->sort, "%s", workbench->answer.text);
    if (workbench_did(workbench, apply(workbench, state, &workbench->err))) return;
    memcpy(state->sort, old, sizeof old);
    workbench->prompted = ACTION_SORT_BY;
}

static void mark(struct runs_state *state, const struct run_info *run)
{
    if (run_set_has(&state->marked, run->id))
        run_set_remove(&state->marked, run->id);
    else
        run_set_add(&state->marked, run->id);
    size_t row = row_of(state, run->id);
    arrange(state, row);
    if (row + 1 < state->listing.shown_count) select_row(state, row + 1);
}

static void mark_all(struct runs_state *state)
{
    bool none = state->marked_shown == state->listing.shown_count;
    for (size_t row = 0; row < state->listing.shown_count; row++)
        (none ? run_set_remove : run_set_add)(&state->marked, run_at(state, row)->id);
    arrange(state, 0);
}

/* --- keys that change runs --- */

/* Lists the runs that a key acts on in `out`, which has room for all: those that are marked and shown or, if
 * there are none, `selected`. Returns how many. */
static size_t find_targets(const struct runs_state *state, const struct run_info *selected,
                           const struct run_info **out)
{
    size_t n = 0;
    if (!state->marked_shown) out[n++] = selected;
    for (size_t row = 0; state->marked_shown && row < state->listing.shown_count; row++)
        if (run_set_has(&state->marked, run_at(state, row)->id)) out[n++] = run_at(state, row);
    return n;
}

static void undo_delete(struct workbench *workbench, struct runs_state *state)
{
    size_t count = state->deleted_listed;
    run_set_release(&state->deleted);
    workbench_did(workbench, apply(workbench, state, &workbench->err));
    workbench_say(workbench, count ? "%zu run%s brought back" : "no run was deleted", count,
                  text_plural((int64_t)count));
}

/* Changes the marked runs or the selected one, as far as run_change knows the action. */
static bool change_key(struct workbench *workbench, struct runs_state *state, const struct run_info *run,
                       enum action action, uint32_t code)
{
    struct arena arena = {0};
    const struct run_info **targets =
        arena_alloc_array(&arena, state->listing.shown_count + 1, sizeof *targets);
    bool known = targets && run_change_knows(action);
    if (known) {
        size_t count = find_targets(state, run, targets), row = row_of(state, state->selected);
        if (!run_change_takes_many(action)) targets[0] = run, count = 1;
        bool done = run_change(workbench, targets, count, action, code);
        for (size_t i = 0; done && action == ACTION_DELETE && i < count; i++) {
            run_set_add(&state->deleted, targets[i]->id);
            if (strcmp(workbench->compared, targets[i]->id) == 0) workbench->compared[0] = '\0';
        }
        if (done && action == ACTION_DELETE)
            arrange(state, row);
        else if (done)
            workbench_did(workbench, read_runs(workbench, state, &workbench->err));
    }
    arena_release(&arena);
    return known;
}

static void choose_compared(struct workbench *workbench, const struct run_info *run)
{
    bool again = strcmp(workbench->compared, run->id) == 0;
    snprintf(workbench->compared, sizeof workbench->compared, "%s", again ? "" : run->id);
    workbench_say(workbench,
                  again ? "%s is no longer drawn in other runs"
                        : "open another run: its charts also show the loss of %s",
                  run->name);
}

/* Handles the keys that act on the selected run, or on the marked ones. */
static void run_key(struct workbench *workbench, struct runs_state *state, const struct run_info *run,
                    enum action action, uint32_t code)
{
    bool answer = code == K_CONFIRMED || code == K_ENTERED;
    if (!answer) memcpy(state->asked, run->id, sizeof state->asked);
    if (answer && strcmp(state->asked, run->id) != 0) /* another row has taken its place */
        workbench_say(workbench, "nothing was changed: the run is not in the list any more");
    else if (action == ACTION_OPEN)
        workbench_push(workbench, &run_view, run->id);
    else if (action == ACTION_MARK)
        mark(state, run);
    else if (action == ACTION_MARK_ALL)
        mark_all(state);
    else if (action == ACTION_COMPARE)
        choose_compared(workbench, run);
    else if (change_key(workbench, state, run, action, code))
        return;
    else if (action == ACTION_RESUME)
        workbench_resume(workbench, run, code == K_CONFIRMED);
    else
        workbench_order(workbench, run, action, code == K_CONFIRMED);
}

static void runs_key(struct workbench *workbench, void *opaque, enum action action, uint32_t code)
{
    struct runs_state *state = opaque;
    size_t row = row_of(state, state->selected);
    const struct run_info *run = row < state->listing.shown_count ? run_at(state, row) : NULL;
    bool empty = !state->filter.text[0];
    bool edits = workbench->typing && (code == K_HOME || code == K_END);
    if (!edits && keys_move(action, &row, state->listing.shown_count, state->page)) {
        select_row(state, row);
    } else if (workbench->typing) {
        if (code == K_ENTER || code == K_ESCAPE || (code == K_BACKSPACE && empty)) workbench->typing = false;
        filter_key(workbench, state, code);
    } else if (action == ACTION_BACK && !empty) {
        filter_key(workbench, state, K_ESCAPE);
    } else if (action == ACTION_BACK) {
        workbench->left = true;
    } else if (action == ACTION_NEW) {
        workbench_push(workbench, &form_view, NULL);
    } else if (action == ACTION_COLUMNS) {
        workbench_push(workbench, &columns_view, NULL);
    } else if (action == ACTION_FILTER) {
        workbench->typing = true;
    } else if (action == ACTION_SORT_BY) {
        sort_by(workbench, state, code == K_ENTERED);
    } else if (action == ACTION_SORT || action == ACTION_REVERSE) {
        (action == ACTION_SORT ? sort_by_next : reverse)(state);
        workbench_did(workbench, apply(workbench, state, &workbench->err));
    } else if (action == ACTION_UNDO) {
        undo_delete(workbench, state);
    } else if (run) {
        run_key(workbench, state, run, action, code);
    }
}

const struct view_ops runs_view = {
    CONTEXT_RUNS, sizeof(struct runs_state), runs_open, runs_read, runs_draw, runs_key, runs_close};
