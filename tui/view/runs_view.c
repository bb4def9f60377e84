/* The list of runs: a table whose columns, order and filter the user chooses, and which the settings
 * remember. Runs are selected, marked and deleted by id, so that rows may come and go. A deleted run is only
 * hidden until the workbench ends: until then it can be brought back, and nothing is lost if the workbench is
 * killed. */
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "tui/view/labels.h"
#include "tui/view/launch.h"
#include "tui/view/list.h"
#include "tui/view/run_cells.h"
#include "tui/view/run_change.h"
#include "tui/view/run_folds.h"
#include "tui/view/run_set.h"
#include "tui/view/workbench.h"

enum { COLUMNS_TEXT_MAX = 1024, MANY_RUNS = 200, HEADER = 2 /* rows above the list */ };

struct runs_state {
    struct listing listing;
    struct run_stamps stamps;
    size_t live;
    double read_at;                                  /* like workbench->uptime */
    bool stale;                                      /* the store has changed since */
    struct list list;                                /* its letters are the filter */
    char columns[COLUMNS_TEXT_MAX], sort[INPUT_MAX]; /* as in struct listing_request */
    char selected[RUN_ID_MAX];
    char asked[RUN_ID_MAX];          /* the run of the newest question */
    char ordered[RUN_ID_MAX];        /* the run of the newest order */
    int64_t order;                   /* its id until it takes effect; 0: none */
    struct run_set marked, *deleted; /* deleted: the workbench's */
    size_t marked_shown,
        deleted_listed; /* of these, those that are shown; those that are still in the store */
    struct run_curves curves;
    struct run_folds folds;
};

/* --- which rows --- */

/* The run of a row, or the first of several. */
static const struct run_info *run_at(const struct runs_state *state, size_t row)
{
    return &state->listing.runs[state->listing.shown[row]];
}

/* The run with number `member` of those in all rows, row after row. */
static const struct run_info *member_at(const struct runs_state *state, size_t member)
{
    return &state->listing.runs[state->folds.members[member]];
}

/* How many runs are in all rows. */
static size_t member_count(const struct runs_state *state)
{
    return state->folds.begin[state->listing.shown_count];
}

/* The index of a run's row among those shown; shown_count: not shown. */
static size_t row_of(const struct runs_state *state, const char *run_id)
{
    size_t member = 0, row = 0, count = member_count(state);
    while (member < count && strcmp(member_at(state, member)->id, run_id) != 0) member++;
    while (row < state->listing.shown_count && state->folds.begin[row + 1] <= member) row++;
    return row;
}

/* Selects one of the rows; none if no row is shown. */
static void select_row(struct runs_state *state, size_t row)
{
    state->list.at = row;
    snprintf(state->selected, sizeof state->selected, "%s",
             state->listing.shown_count ? run_at(state, row)->id : "");
}

/* Marks the runs from `member` up to `end`, or none of them any more. */
static void mark_members(struct runs_state *state, size_t member, size_t end, bool none)
{
    for (; member < end; member++)
        if (none)
            run_set_remove(&state->marked, member_at(state, member)->id);
        else
            run_set_add(&state->marked, member_at(state, member)->id, 0);
}

/* Counts the marks that are shown. */
static void count_marks(struct runs_state *state)
{
    state->marked_shown = 0;
    for (size_t m = 0; m < member_count(state); m++)
        state->marked_shown += run_set_has(&state->marked, member_at(state, m)->id);
}

/* Takes deleted runs out of the rows that the listing has just made, and folds them. A selected run that is
 * not shown any more gives way to that in its row. */
static void arrange(struct runs_state *state)
{
    struct listing *listing = &state->listing;
    size_t kept = 0, row;
    for (size_t i = 0; i < listing->shown_count; i++) {
        const char *id = run_at(state, i)->id;
        if (state->deleted->count && run_set_has(state->deleted, id)) continue;
        listing->shown[kept++] = listing->shown[i];
    }
    listing->shown_count = kept;
    state->deleted_listed = 0;
    for (size_t i = 0; state->deleted->count && i < listing->count; i++)
        state->deleted_listed += run_set_has(state->deleted, listing->runs[i].id);
    run_folds_apply(&state->folds, listing);
    count_marks(state);
    row = row_of(state, state->selected);
    list_set_count(&state->list, listing->shown_count);
    select_row(state, row < listing->shown_count ? row : state->list.at);
}

/* Sets columns, filter and order, and lets the settings remember them. */
static enum status apply(struct workbench *workbench, struct runs_state *state, struct err *err)
{
    struct listing_request request = {state->columns, state->list.letters.text, state->sort};
    enum status status = listing_set(&state->listing, workbench->store, &request, false, err);
    if (status) return status;
    settings_set(&workbench->settings, "runs.filter", state->list.letters.text);
    settings_set(&workbench->settings, "runs.sort", state->sort);
    status = run_folds_read(&state->folds, workbench->store, &state->listing, err);
    arrange(state);
    return status;
}

/* The columns that the user has chosen in columns_view. */
static const char *chosen_columns(const struct workbench *workbench)
{
    const char *columns = settings_get(&workbench->settings, "runs.columns");
    return *columns ? columns : RUN_CELLS_DEFAULT;
}

/* Takes columns, filter and order from the settings. What no longer exists in an order is left out. */
static enum status recall(struct workbench *workbench, struct runs_state *state, struct err *err)
{
    snprintf(state->columns, sizeof state->columns, "%s", chosen_columns(workbench));
    input_set(&state->list.letters, settings_get(&workbench->settings, "runs.filter"));
    snprintf(state->sort, sizeof state->sort, "%s", settings_get(&workbench->settings, "runs.sort"));
    run_folds_recall(&state->folds, &workbench->settings);
    enum status status = apply(workbench, state, err);
    if (status != STATUS_USAGE) return status;
    state->sort[0] = '\0';
    return apply(workbench, state, err);
}

/* --- reading --- */

/* Reads all runs anew; on failure the old ones stay. */
static enum status read_runs(struct workbench *workbench, struct runs_state *state, struct err *err)
{
    enum status status = listing_read(&state->listing, workbench->store, err);
    if (status) return status;
    status = run_stamps_make(&state->stamps, state->listing.runs, state->listing.count, err);
    if (!status) status = run_folds_read(&state->folds, workbench->store, &state->listing, err);
    state->read_at = workbench->uptime;
    state->stale = false;
    state->live = 0;
    for (size_t i = 0; i < state->listing.count; i++)
        state->live += status_is_live(state->listing.runs[i].status);
    arrange(state);
    return status;
}

/* Selects a run if it still exists; clears a filter that hides it, or keys would act on another run. */
static void select_run(struct workbench *workbench, struct runs_state *state, const char *run_id)
{
    bool exists = false;
    for (size_t i = 0; i < state->listing.count; i++)
        exists = exists || strcmp(state->listing.runs[i].id, run_id) == 0;
    if (!exists) return;
    snprintf(state->selected, sizeof state->selected, "%s", run_id);
    if (row_of(state, run_id) == state->listing.shown_count) input_set(&state->list.letters, "");
    workbench_did(workbench, apply(workbench, state, &workbench->err));
}

static enum status runs_open(struct workbench *workbench, void *opaque, const char *argument, struct err *err)
{
    struct runs_state *state = opaque;
    (void)argument;
    state->deleted = &workbench->deleted;
    enum status status = read_runs(workbench, state, err);
    return status ? status : recall(workbench, state, err);
}

static void runs_close(void *opaque)
{
    struct runs_state *state = opaque;
    run_set_release(&state->marked);
    run_curves_release(&state->curves);
    listing_release(&state->listing);
    run_stamps_release(&state->stamps);
    run_folds_release(&state->folds);
}

/* A living run commits four times a second: many runs are read anew once a second at most. */
static bool runs_read(struct workbench *workbench, void *opaque, bool store_changed)
{
    struct runs_state *state = opaque;
    bool other = strcmp(chosen_columns(workbench), state->columns) != 0, back = workbench->visited[0] != '\0',
         many = state->listing.count > MANY_RUNS;
    launch_reap();
    other = run_folds_recall(&state->folds, &workbench->settings) || other;
    if (other) workbench_did(workbench, recall(workbench, state, &workbench->err));
    state->stale = state->stale || store_changed;
    if (!state->stale && !state->live)
        return other || (state->listing.count > 0 && (int64_t)workbench->now % 60 == 0); /* ages */
    if (many && !back && workbench->uptime < state->read_at + 1) return other;
    workbench_did(workbench, read_runs(workbench, state, &workbench->err));
    if (state->order && workbench_order_done(workbench, state->ordered, state->order, true)) state->order = 0;
    if (back) select_run(workbench, state, workbench->visited);
    workbench->visited[0] = '\0';
    return true;
}

/* --- drawing --- */

static int column_gap(const struct grid *grid)
{
    return grid->w < 100 ? 1 : 2;
}

static void draw_row(struct workbench *workbench, struct runs_state *state, struct grid *grid, int y,
                     const int *widths, size_t row)
{
    const struct listing *listing = &state->listing;
    const struct run_info *first = run_at(state, row), run = run_folds_info(&state->folds, listing, row);
    size_t number = listing->shown[row], count = run_folds_count(&state->folds, row);
    char text[FOLDS_TEXT_MAX], stamp[STAMP_MAX] = "";
    if (count > 1)
        snprintf(stamp, sizeof stamp, "×%zu", count);
    else if (number < state->stamps.count)
        memcpy(stamp, state->stamps.of[number], sizeof stamp);
    for (int c = 0, x = 1; c < listing->column_count; c++) {
        const struct field *field = &listing->fields[c].field;
        struct run_cell cell = {.field = field, .run = &run, .stamp = stamp, .now = workbench->now};
        struct pen pen = {grid, x, y, x + widths[c]};
        if (!widths[c]) continue;
        x = pen.end + column_gap(grid);
        if (field->made == MADE_CURVE) {
            workbench->err.status = STATUS_OK;
            cell.curve = run_curve(&state->curves, workbench->store, first, &workbench->err);
            if (!cell.curve && first->steps > 0) workbench_did(workbench, workbench->err.status);
        }
        struct field_value value = run_folds_value(&state->folds, listing, c, row, text);
        cell.value = &value;
        run_cell_draw(pen, &cell);
    }
}

static void draw_header(const struct runs_state *state, struct grid *grid, bool typing)
{
    const struct listing *listing = &state->listing;
    const struct filter_problem *problem = &listing->filter.problem;
    size_t count = listing->count - state->deleted_listed;
    struct pen pen = {grid, 1, 0, grid->w - 1};
    char order[INPUT_MAX + 8];
    pen_word(&pen, STYLE_ACCENT, ATTR_BOLD, "anneal");
    bool filter = typing || state->list.letters.text[0];
    if (!filter || grid->w >= 60) /* else the filter takes the room */
        pen_word(&pen, STYLE_TEXT, 0, "%zu run%s, %zu training", count, text_plural((int64_t)count),
                 state->live);
    if (filter) {
        enum { COUNT = 13 }; /* "9999 match" */
        pen_print(&pen, STYLE_ACCENT, ATTR_BOLD, "/");
        pen.end -= COUNT;
        input_draw(&pen, &state->list.letters, typing, problem->from, problem->why[0] ? problem->to : 0);
        pen.end += COUNT;
        pen.x += typing ? 1 : 2;
        pen_word(&pen, STYLE_DIM, 0, "%zu match%s", member_count(state),
                 member_count(state) == 1 ? "es" : "");
    }
    if (state->marked_shown) pen_word(&pen, STYLE_ACCENT, ATTR_BOLD, "%zu marked", state->marked_shown);
    snprintf(order, sizeof order, "%s%s", *state->sort ? "by " : "newest first", state->sort);
    if (pen.end - pen.x > glyph_text_width(order)) pen_print_right(&pen, STYLE_DIM, 0, order);
}

static void draw_empty(const struct workbench *workbench, const struct runs_state *state, struct grid *grid,
                       struct rect body)
{
    const char *program = TEXT_PROGRAM;
    char teaching[2048];
    snprintf(teaching, sizeof teaching,
             "No runs yet.\n\n"
             "Press %s to start one from a form, or type in another terminal:\n\n"
             "  %s train --data.train=kjv          the King James Bible\n"
             "  %s train --data.train=book.txt     a text of yours\n"
             "  %s train config.ini                settings from a file\n\n"
             "A run continues when this workbench is closed.",
             WORKBENCH_KEY(workbench, ACTION_NEW), program, program, program);
    struct rect area = {body.x + 3, body.y + 1, body.w - 4, body.h - 1};
    struct pen pen = {grid, area.x, area.y, area.x + area.w};
    if (state->list.letters.text[0])
        pen_print(&pen, STYLE_DIM, 0, "No run matches \"%s\": %s shows all.", state->list.letters.text,
                  WORKBENCH_KEY(workbench, ACTION_DISMISS));
    else if (state->deleted_listed)
        pen_print(&pen, STYLE_DIM, 0, "All runs are deleted when you leave: %s brings them back.",
                  WORKBENCH_KEY(workbench, ACTION_UNDO));
    else if (state->listing.hidden)
        pen_print(&pen, STYLE_DIM, 0, "All runs are archived: /archived shows them.");
    else
        wrap_draw(grid, area, STYLE_TEXT, teaching);
}

static void runs_draw(struct workbench *workbench, void *opaque, struct grid *grid)
{
    struct runs_state *state = opaque;
    const struct listing *listing = &state->listing;
    struct rect body = {0, HEADER, grid->w, grid->h - HEADER - 1};
    struct table_column columns[LISTING_COLUMNS_MAX];
    int widths[LISTING_COLUMNS_MAX];
    run_cells_fit(listing, &state->stamps, grid->w - 2, column_gap(grid), columns, widths);
    draw_header(state, grid, workbench->typing);
    table_draw_titles(grid, 1, 1, columns, listing->column_count, column_gap(grid), widths, ATTR_UNDERLINE);
    if (!listing->shown_count) draw_empty(workbench, state, grid, body);
    workbench_hint_list(workbench, listing->shown_count ? run_at(state, state->list.at) : NULL,
                        state->marked_shown > 0, state->deleted_listed > 0);
    workbench->no_hint[ACTION_DISMISS] = !state->list.letters.text[0] && !state->marked_shown;
    if (workbench->typing)
        snprintf(workbench->remark, sizeof workbench->remark, "%s", listing->filter.problem.why);
    size_t end = list_fit(&state->list, body);
    for (size_t row = state->list.scroll; row < end; row++) {
        int y = body.y + (int)(row - state->list.scroll);
        draw_row(workbench, state, grid, y, widths, row);
        if (row == state->list.at) grid_put(grid, 0, y, 0x25B8, STYLE_ACCENT, ATTR_BOLD);
        if (run_set_has(&state->marked, run_at(state, row)->id))
            grid_put(grid, 0, y, '*', STYLE_ACCENT, ATTR_BOLD);
    }
    list_mark(&state->list, grid, body);
}

/* --- keys that arrange the list --- */

/* Completes a field's name, in the filter or in a line that is asked for; several that fit are told. */
static void complete_field(struct workbench *workbench, struct runs_state *state)
{
    struct input *input = workbench->prompted ? &workbench->answer : &state->list.letters;
    const struct listing *listing = &state->listing;
    char fitting[400];
    if (!workbench_did(workbench, listing_names(&state->listing, workbench->store, &workbench->err))) return;
    const char *ends = workbench->prompted ? " ,-" : " ,()=!<>~\"'"; /* of a sort key, of a filter */
    if (input_complete(input, listing->names, listing->name_count, ends, fitting, sizeof fitting) > 1)
        workbench_say(workbench, "%s", fitting);
}

/* Sets the order typed; one that is wrong can be typed on. */
static void sort_by(struct workbench *workbench, struct runs_state *state, bool entered)
{
    char old[INPUT_MAX];
    if (!entered) {
        workbench_prompt(workbench, ACTION_SORT_BY, state->sort, "sort by");
        return;
    }
    memcpy(old, state->sort, sizeof old);
    snprintf(state->sort, sizeof state->sort, "%s", workbench->answer.text);
    if (workbench_did(workbench, apply(workbench, state, &workbench->err))) return;
    memcpy(state->sort, old, sizeof old);
    workbench->prompted = ACTION_SORT_BY;
}

static void mark(struct runs_state *state)
{
    size_t row = state->list.at;
    mark_members(state, state->folds.begin[row], state->folds.begin[row + 1],
                 run_set_has(&state->marked, run_at(state, row)->id));
    count_marks(state);
    if (row + 1 < state->listing.shown_count) select_row(state, row + 1);
}

static void mark_all(struct runs_state *state)
{
    size_t count = member_count(state);
    mark_members(state, 0, count, state->marked_shown == count);
    count_marks(state);
}

/* --- keys that change runs --- */

/* Lists the runs that a key acts on in `out`, which has room for all: those that are marked and shown or, if
 * there are none, those of the selected row. Returns how many. */
static size_t find_targets(const struct runs_state *state, const struct run_info **out)
{
    const size_t *begin = state->folds.begin;
    size_t n = 0, member = state->marked_shown ? 0 : begin[state->list.at],
           end = state->marked_shown ? member_count(state) : begin[state->list.at + 1];
    for (; member < end; member++) {
        const struct run_info *run = member_at(state, member);
        if (!state->marked_shown || run_set_has(&state->marked, run->id)) out[n++] = run;
    }
    return n;
}

static void undo_delete(struct workbench *workbench, struct runs_state *state)
{
    size_t count = state->deleted_listed;
    run_set_release(state->deleted);
    workbench_did(workbench, apply(workbench, state, &workbench->err));
    workbench_say(workbench, count ? "%zu run%s brought back" : "no run was deleted", count,
                  text_plural((int64_t)count));
}

/* Changes the marked runs or the selected one, as far as run_change knows the action. */
static bool change_key(struct workbench *workbench, struct runs_state *state, const struct run_info *run,
                       enum action action, uint32_t code)
{
    struct arena arena = {0};
    const struct run_info **targets = arena_alloc_array(&arena, state->listing.count + 1, sizeof *targets);
    bool known = targets && run_change_knows(action);
    if (known) {
        size_t count = find_targets(state, targets);
        if (!run_change_takes_many(action)) targets[0] = run, count = 1;
        bool done = run_change(workbench, targets, count, action, code);
        for (size_t i = 0; done && i < count; i++) {
            if (action == ACTION_DELETE) run_set_add(state->deleted, targets[i]->id, workbench->now);
            if (action != ACTION_TAGS) run_set_remove(&state->marked, targets[i]->id);
        }
        if (done)
            workbench_did(workbench, action == ACTION_DELETE ? apply(workbench, state, &workbench->err)
                                                             : read_runs(workbench, state, &workbench->err));
    }
    arena_release(&arena);
    return known;
}

/* Compares the marked runs, or those of the selected row; a single one with the selected run. */
static void compare(struct workbench *workbench, struct runs_state *state, const struct run_info *run)
{
    struct arena arena = {0};
    const struct run_info **targets = arena_alloc_array(&arena, state->listing.count + 1, sizeof *targets);
    size_t count = targets ? find_targets(state, targets) : 0;
    run_set_release(&workbench->compared);
    for (size_t i = 0; i < count; i++) run_set_add(&workbench->compared, targets[i]->id, (double)i);
    if (count < 2) run_set_add(&workbench->compared, run->id, 0);
    arena_release(&arena);
    if (workbench->compared.count < 2)
        workbench_say(workbench, "mark the runs to compare with %s, then press %s",
                      WORKBENCH_KEY(workbench, ACTION_MARK), WORKBENCH_KEY(workbench, ACTION_COMPARE));
    else
        workbench_push(workbench, &compare_view, NULL);
}

/* Opens a run; of a row with several their sweep or their comparison. */
static void open_row(struct workbench *workbench, struct runs_state *state, const struct run_info *run)
{
    size_t row = state->list.at, member = state->folds.begin[row], end = state->folds.begin[row + 1];
    const struct view_ops *view = run_folds_sweep(&state->folds, &state->listing, row) ? &sweep_view
                                  : end > member + 1                                   ? &compare_view
                                                                                       : &run_view;
    run_set_release(&workbench->compared);
    for (; member < end; member++) run_set_add(&workbench->compared, member_at(state, member)->id, 0);
    workbench_push(workbench, view, run->id);
}

/* Whether the key acts on one run, but the row stands for several; then the last row says what to do. */
static bool needs_one_run(struct workbench *workbench, struct runs_state *state, enum action action)
{
    size_t count = run_folds_count(&state->folds, state->list.at);
    if (count < 2 || (run_change_knows(action) && run_change_takes_many(action))) return false;
    workbench_say(workbench, "this row stands for %zu runs: %s gives each a row of its own", count,
                  WORKBENCH_KEY(workbench, ACTION_FOLD_RUNS));
    return true;
}

/* Handles the keys that act on the selected run, or on the marked ones. */
static void run_key(struct workbench *workbench, struct runs_state *state, const struct run_info *run,
                    enum action action, uint32_t code)
{
    bool answer = code == K_CONFIRMED || code == K_ENTERED;
    int64_t sent;
    if (!answer) memcpy(state->asked, run->id, sizeof state->asked);
    if (answer && strcmp(state->asked, run->id) != 0) /* another row has taken its place */
        workbench_say(workbench, "nothing was changed: the run is not in the list any more");
    else if (action == ACTION_OPEN)
        open_row(workbench, state, run);
    else if (action == ACTION_AGAIN || action == ACTION_SWEEP)
        workbench_push(workbench, action == ACTION_AGAIN ? &form_view : &sweep_view, run->id);
    else if (action == ACTION_MARK)
        mark(state);
    else if (action == ACTION_MARK_ALL)
        mark_all(state);
    else if (action == ACTION_COMPARE)
        compare(workbench, state, run);
    else if (needs_one_run(workbench, state, action) || change_key(workbench, state, run, action, code))
        return;
    else if (action == ACTION_RESUME)
        workbench_resume(workbench, run, code == K_CONFIRMED);
    else if ((sent = workbench_order(workbench, run, action, code == K_CONFIRMED)) != 0) {
        memcpy(state->ordered, run->id, sizeof state->ordered);
        state->order = sent;
    }
}

/* Follows the list, which has used a key: shows the runs that fit its letters, if these are others than
 * `before`, or selects its row. A click on the row that was selected opens it. */
static void follow_list(struct workbench *workbench, struct runs_state *state, const char *before,
                        enum action action)
{
    const struct list *list = &state->list;
    int row = workbench->pointer.y - list->top;
    if (strcmp(before, list->letters.text) != 0)
        workbench_did(workbench, apply(workbench, state, &workbench->err));
    else if (action == ACTION_CLICK && row >= 0 && list->count &&
             list->scroll + (size_t)row == row_of(state, state->selected))
        open_row(workbench, state, run_at(state, list->at));
    else
        select_row(state, list->at);
}

static bool runs_key(struct workbench *workbench, void *opaque, enum action action, uint32_t code)
{
    struct runs_state *state = opaque;
    const struct run_info *run = state->listing.shown_count ? run_at(state, state->list.at) : NULL;
    char before[INPUT_MAX];
    memcpy(before, state->list.letters.text, sizeof before);
    if (action == ACTION_COMPLETE && workbench->prompted) {
        complete_field(workbench, state);
    } else if (workbench->typing && code == K_TAB) {
        complete_field(workbench, state);
        follow_list(workbench, state, before, ACTION_NONE);
    } else if (list_key(workbench, &state->list, action, code)) {
        follow_list(workbench, state, before, action);
    } else if (action == ACTION_DISMISS && *before) {
        input_set(&state->list.letters, "");
        follow_list(workbench, state, before, action);
    } else if (action == ACTION_DISMISS) {
        run_set_release(&state->marked);
        count_marks(state);
    } else if (action == ACTION_BACK) {
        return false;
    } else if (action == ACTION_PROMPT) {
        workbench_push(workbench, &playground_view, run ? run->id : NULL);
    } else if (action == ACTION_NEW) {
        workbench_push(workbench, &form_view, NULL);
    } else if (action == ACTION_COLUMNS) {
        workbench_push(workbench, &columns_view, NULL);
    } else if (action == ACTION_SORT_BY) {
        sort_by(workbench, state, code == K_ENTERED);
    } else if (action == ACTION_SORT || action == ACTION_REVERSE) {
        if (action == ACTION_SORT)
            listing_sort_next(&state->listing, state->sort, sizeof state->sort);
        else
            listing_sort_reverse(state->sort, sizeof state->sort);
        workbench_did(workbench, apply(workbench, state, &workbench->err));
    } else if (run_folds_key(workbench, &state->folds, &state->listing, action, code)) {
        if (run_folds_recall(&state->folds, &workbench->settings))
            workbench_did(workbench, recall(workbench, state, &workbench->err));
    } else if (action == ACTION_UNDO) {
        undo_delete(workbench, state);
    } else if (run) {
        run_key(workbench, state, run, action, code);
    }
    return true;
}

const struct view_ops runs_view = {
    CONTEXT_RUNS, sizeof(struct runs_state), runs_open, runs_read, runs_draw, runs_key, runs_close};
