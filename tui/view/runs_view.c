/* The list of runs: status, progress, losses, speed and a small curve of each; sorted, filtered by words, one
 * of them selected. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "runs/run.h"
#include "runs/series.h"
#include "tui/view/labels.h"
#include "tui/view/launch.h"
#include "tui/view/workbench.h"
#include "tui/widget/axis.h"
#include "tui/widget/bars.h"
#include "tui/widget/layout.h"

enum { SPARKS = 128, SPARK_POINTS = 512, TAG_MAX = 24 };

struct spark {
    char id[RUN_ID_MAX];
    struct series series;
    int64_t steps; /* steps when the curve was read */
};

/* The tag distinguishes the run from others of its name: its id without the name ("20260909-140231", a prefix
 * that commands accept for the run), cut if long; "" if no other run has the name. */
struct row {
    const struct run_info *run;
    char tag[TAG_MAX];
};

enum sort { SORT_CREATED, SORT_STATUS, SORT_NAME, SORT_LOSS, SORT_BEST, SORT_SPEED, SORT_COUNT };

struct runs_state {
    struct arena arena; /* holds the rows and their runs */
    struct row *rows;   /* all, newest first */
    struct row **shown; /* rows that pass the filter, sorted */
    size_t count, shown_count, live;
    int tag_width; /* columns of the longest tag; 0: all names differ */
    enum sort sort;
    bool reverse;
    struct input filter;       /* words; each must occur in name, id, status or device */
    char selected[RUN_ID_MAX]; /* an id, so that the selection stays on its run when rows change */
    size_t scroll;
    size_t page;                 /* rows of the body when last drawn */
    struct spark sparks[SPARKS]; /* indexed by a hash of id */
};

/* --- filtering and sorting --- */

static bool passes(const struct runs_state *state, const struct run_info *run)
{
    const char *const texts[] = {run->name, run->id, run->device, label_status(run->status).word,
                                 status_words[run->status]};
    char words[INPUT_MAX], *rest = words;
    bool all = true;
    memcpy(words, state->filter.text, sizeof words);
    for (char *word; (word = strsep(&rest, " ")) != NULL;) {
        bool any = !*word;
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) any = any || strcasestr(texts[i], word);
        all = all && any;
    }
    return all;
}

static double sort_key(const struct run_info *run, enum sort sort)
{
    const double values[SORT_COUNT] = {[SORT_STATUS] = run->status,
                                       [SORT_LOSS] = run->final_loss,
                                       [SORT_BEST] = run->best_val_loss,
                                       [SORT_SPEED] = -run->tokens_per_sec};
    return values[sort];
}

/* Sorts unknown numbers last and equal runs newest first. */
static int compare_shown(const void *left, const void *right, void *opaque)
{
    const struct runs_state *state = opaque;
    const struct row *a = *(struct row *const *)left, *b = *(struct row *const *)right;
    double x = sort_key(a->run, state->sort), y = sort_key(b->run, state->sort);
    int order = isnan(x) || isnan(y) ? isnan(x) - isnan(y) : (x > y) - (x < y);
    if (state->sort == SORT_NAME) order = strcmp(a->run->name, b->run->name);
    if (order == 0) order = (a > b) - (a < b);
    return state->reverse ? -order : order;
}

/* The index of a run among the rows shown; shown_count: not shown. */
static size_t row_of(const struct runs_state *state, const char *run_id)
{
    size_t row = 0;
    while (row < state->shown_count && strcmp(state->shown[row]->run->id, run_id) != 0) row++;
    return row;
}

/* Selects a row: beyond the end the last; none if no row is shown. */
static void select_row(struct runs_state *state, size_t row)
{
    if (row >= state->shown_count) row = state->shown_count ? state->shown_count - 1 : 0;
    snprintf(state->selected, sizeof state->selected, "%s",
             state->shown_count ? state->shown[row]->run->id : "");
}

/* Updates the rows shown. A selected run that is not shown any more gives way to `row`. */
static void arrange(struct runs_state *state, size_t row)
{
    state->shown_count = 0;
    for (size_t i = 0; i < state->count; i++)
        if (passes(state, state->rows[i].run)) state->shown[state->shown_count++] = &state->rows[i];
    qsort_r(state->shown, state->shown_count, sizeof *state->shown, compare_shown, state);
    if (row_of(state, state->selected) == state->shown_count) select_row(state, row);
}

/* --- telling runs of one name apart --- */

static int compare_names(const void *left, const void *right)
{
    const struct row *a = *(struct row *const *)left, *b = *(struct row *const *)right;
    return strcmp(a->run->name, b->run->name);
}

static void tag_rows(struct runs_state *state)
{
    enum { STAMP = 15 }; /* YYYYMMDD-HHMMSS */
    struct row **by_name = state->shown;
    for (size_t i = 0; i < state->count; i++) by_name[i] = &state->rows[i];
    qsort(by_name, state->count, sizeof *by_name, compare_names);
    state->tag_width = 0;
    for (size_t i = 0; i < state->count; i++) {
        const struct run_info *run = by_name[i]->run;
        size_t n = strlen(run->name);
        bool ours = strlen(run->id) > STAMP + n && strncmp(run->id + STAMP + 1, run->name, n) == 0;
        bool shared = (i && compare_names(&by_name[i - 1], &by_name[i]) == 0) ||
                      (i + 1 < state->count && compare_names(&by_name[i + 1], &by_name[i]) == 0);
        if (shared)
            snprintf(by_name[i]->tag, TAG_MAX, "%.*s%s", ours ? STAMP : TAG_MAX, run->id,
                     ours ? run->id + STAMP + 1 + n : "");
        if ((int)strlen(by_name[i]->tag) > state->tag_width) state->tag_width = (int)strlen(by_name[i]->tag);
    }
}

/* --- reading --- */

/* Reads all runs anew; on failure the old ones stay. */
static enum status read_runs(struct workbench *workbench, struct runs_state *state, struct err *err)
{
    struct arena arena = {0};
    struct run_info *runs;
    size_t count;
    enum status status = run_list(workbench->store, &arena, &runs, &count, err);
    struct row *rows = status ? NULL : arena_alloc_array(&arena, count + 1, sizeof *rows);
    struct row **shown = status ? NULL : arena_alloc_array(&arena, count + 1, sizeof *shown);
    if (!rows || !shown) {
        arena_release(&arena);
        return status ? status : err_set(err, STATUS_NO_MEMORY, "no memory for a list of %zu runs", count);
    }
    size_t row = row_of(state, state->selected);
    state->live = 0;
    for (size_t i = 0; i < count; i++) {
        rows[i].run = &runs[i];
        state->live += label_is_live(runs[i].status);
    }
    arena_release(&state->arena);
    state->arena = arena;
    state->rows = rows;
    state->shown = shown;
    state->count = count;
    tag_rows(state);
    arrange(state, row);
    return STATUS_OK;
}

/* Selects a run if it still exists; clears a filter that hides it, or keys would act on another run. */
static void select_run(struct runs_state *state, const char *run_id)
{
    for (size_t i = 0; i < state->count; i++)
        if (strcmp(state->rows[i].run->id, run_id) == 0) {
            snprintf(state->selected, sizeof state->selected, "%s", run_id);
            if (row_of(state, run_id) == state->shown_count) input_set(&state->filter, "");
            arrange(state, 0);
        }
}

static enum status runs_open(struct workbench *workbench, void *opaque, const char *argument, struct err *err)
{
    (void)argument;
    return read_runs(workbench, opaque, err);
}

static void runs_close(void *opaque)
{
    struct runs_state *state = opaque;
    for (int i = 0; i < SPARKS; i++) series_release(&state->sparks[i].series);
    arena_release(&state->arena);
}

static bool runs_read(struct workbench *workbench, void *opaque, bool store_changed)
{
    struct runs_state *state = opaque;
    launch_reap();
    if (!store_changed && !state->live)
        return state->count > 0 && (int64_t)workbench->now % 60 == 0; /* ages */
    workbench_did(workbench, read_runs(workbench, state, &workbench->err));
    if (workbench->visited[0]) select_run(state, workbench->visited);
    workbench->visited[0] = '\0';
    return true;
}

/* The small curve of a run, read when its row is drawn and the run has new steps. */
static const struct series *spark_of(struct workbench *workbench, struct runs_state *state,
                                     const struct run_info *run)
{
    uint32_t hash = 2166136261u;
    for (const char *c = run->id; *c; c++) hash = (hash ^ (unsigned char)*c) * 16777619u;
    struct spark *spark = &state->sparks[hash % SPARKS];
    enum status status = STATUS_OK;
    if (strcmp(spark->id, run->id) != 0) {
        status = series_read(workbench->store, run->id, METRIC_LOSS, 0, -1, SPARK_POINTS, &spark->series,
                             &workbench->err);
        memcpy(spark->id, run->id, sizeof spark->id);
    } else if (spark->steps != run->steps) {
        status = series_update(workbench->store, run->id, &spark->series, &workbench->err);
    }
    spark->steps = run->steps;
    if (workbench_did(workbench, status)) return &spark->series;
    spark->id[0] = '\0';
    return NULL;
}

/* --- drawing --- */

enum column {
    COL_STATUS,
    COL_NAME,
    COL_PROGRESS,
    COL_LOSS,
    COL_BEST,
    COL_SPEED,
    COL_TIME,
    COL_CURVE,
    COL_COUNT
};

static const struct table_column columns[COL_COUNT] = {
    [COL_STATUS] = {"status", 12, 12, 0, false},     [COL_NAME] = {"name", 12, 40, 0, false},
    [COL_PROGRESS] = {"progress", 10, 36, 2, false}, [COL_LOSS] = {"loss", 6, 7, 1, true},
    [COL_BEST] = {"best", 6, 16, 3, true},           [COL_SPEED] = {"tok/s", 6, 7, 5, true},
    [COL_TIME] = {"time", 8, 13, 4, true},           [COL_CURVE] = {"curve", 8, 48, 6, false},
};

static int column_gap(const struct grid *grid)
{
    return grid->w < 100 ? 1 : 2;
}

static void draw_progress(struct grid *grid, int x, int y, int w, const struct run_info *run)
{
    enum { PERCENT = 5, STEPS = 12 };
    struct pen pen = {grid, x, y, x + w};
    double fraction = label_progress(run);
    bool steps = w >= 28;
    int gauge = w - PERCENT - (steps ? STEPS : 0);
    char text[48];
    gauge_draw(grid, x, y, gauge, label_status(run->status).style, fraction);
    pen.x += gauge;
    if (isnan(fraction))
        pen_print(&pen, STYLE_DIM, 0, "   ?%%");
    else
        pen_print(&pen, STYLE_TEXT, 0, "%4.0f%%", floor(fraction * 100));
    snprintf(text, sizeof text, "%s/%s", TEXT_COUNT(run->steps > 0 ? run->steps : 0),
             TEXT_COUNT(run->total_steps));
    if (steps) pen_print_right(&pen, STYLE_DIM, 0, text);
}

/* Sets the widths of the columns that fit; the name column has room for tags. */
static void fit_columns(const struct runs_state *state, const struct grid *grid, int widths[COL_COUNT])
{
    enum { NAME_LEAST = 6 };
    struct table_column fitted[COL_COUNT];
    memcpy(fitted, columns, sizeof fitted);
    int least = state->tag_width ? NAME_LEAST + 1 + state->tag_width : 0;
    if (least > fitted[COL_NAME].min) fitted[COL_NAME].min = least;
    table_fit(fitted, COL_COUNT, grid->w - 2, column_gap(grid), widths);
}

/* Formats a numeric cell and returns its style. The time is the time left, or how long ago the run ended. */
static enum style cell_text(const struct run_info *run, enum column column, int w, double now, char *buf,
                            size_t size)
{
    double eta = label_eta(run), since = isnan(run->ended_at) ? run->heartbeat : run->ended_at;
    snprintf(buf, size, "--");
    if (column == COL_TIME && !isnan(eta)) {
        snprintf(buf, size, w >= 12 ? "ETA %s" : "%s", CLOCK_DURATION(eta));
        return STYLE_TEXT;
    }
    if (column == COL_TIME && run->status != RUN_PAUSED)
        label_age(since > 0 ? since : run->created_at, now, buf, size);
    if (column == COL_LOSS && run->loss_recorded) {
        axis_format(run->final_loss, buf, size);
        return isfinite(run->final_loss) ? STYLE_TEXT : STYLE_BAD;
    }
    if (column == COL_BEST && run->best_step >= 0) {
        axis_format(run->best_val_loss, buf, size);
        if (w >= 15) snprintf(buf, size, "%s @%-6" PRId64, AXIS_TEXT(run->best_val_loss), run->best_step);
        return STYLE_BEST;
    }
    if (column == COL_SPEED && run->tokens_per_sec > 0) text_format_count(run->tokens_per_sec, buf, size);
    return column == COL_SPEED && label_is_live(run->status) ? STYLE_SPEED : STYLE_DIM;
}

static void draw_row(struct workbench *workbench, struct runs_state *state, struct grid *grid, int y,
                     const int *widths, const struct row *row)
{
    const struct run_info *run = row->run;
    const struct series *series =
        widths[COL_CURVE] && run->steps > 0 ? spark_of(workbench, state, run) : NULL;
    struct status_label status = label_status(run->status);
    char text[64];
    int tag_w = (int)strlen(row->tag);
    for (int c = 0, x = 1; c < COL_COUNT; c++) {
        struct pen pen = {grid, x, y, x + widths[c]};
        if (!widths[c]) continue;
        x = pen.end + column_gap(grid);
        if (c == COL_STATUS) {
            grid_put(grid, pen.x, y, status.symbol, status.style, ATTR_BOLD);
            pen.x += 2;
            pen_print(&pen, status.style, 0, "%s", status.word);
        } else if (c == COL_NAME) {
            pen.x += grid_text(grid, pen.x, y, widths[c] - (tag_w ? tag_w + 1 : 0), STYLE_TEXT, ATTR_BOLD,
                               run->name) +
                     1;
            pen_print(&pen, STYLE_DIM, 0, "%s", row->tag);
        } else if (c == COL_PROGRESS) {
            draw_progress(grid, pen.x, y, widths[c], run);
        } else if (c == COL_CURVE && series) {
            sparkline_draw(grid, pen.x, y, widths[c], STYLE_TRAIN, series->points, series->count);
        } else if (c != COL_CURVE) {
            enum style style = cell_text(run, (enum column)c, widths[c], workbench->now, text, sizeof text);
            pen_print_right(&pen, style, 0, text);
        }
    }
}

static void draw_header(const struct runs_state *state, struct grid *grid, const int *widths, bool typing)
{
    static const char *const orders[SORT_COUNT] = {"newest first", "status",   "name",
                                                   "loss",         "best val", "tok/s"};
    struct pen pen = {grid, 1, 0, grid->w - 1};
    char order[64];
    pen_print(&pen, STYLE_ACCENT, ATTR_BOLD, "anneal");
    pen.x += 2;
    pen_print(&pen, STYLE_TEXT, 0, "%zu run%s, %zu training", state->count,
              text_plural((int64_t)state->count), state->live);
    pen.x += 2;
    if (typing || state->filter.text[0]) {
        pen_print(&pen, STYLE_ACCENT, ATTR_BOLD, "/");
        pen_print(&pen, STYLE_TEXT, ATTR_BOLD, "%s", state->filter.text);
        if (typing) grid_put(grid, pen.x, 0, ' ', STYLE_TEXT, ATTR_REVERSE);
        pen.x += 2;
        pen_print(&pen, STYLE_DIM, 0, "%zu match%s", state->shown_count, state->shown_count == 1 ? "es" : "");
        pen.x += 1;
    }
    snprintf(order, sizeof order, "%s%s", orders[state->sort], state->reverse ? ", reversed" : "");
    if (pen.end - pen.x > (int)strlen(order)) pen_print_right(&pen, STYLE_DIM, 0, order);
    table_draw_titles(grid, 1, 1, columns, COL_COUNT, column_gap(grid), widths, ATTR_UNDERLINE);
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
    if (state->count)
        pen_print(&pen, STYLE_DIM, 0, "No run matches \"%s\": Esc shows all.", state->filter.text);
    else
        wrap_draw(grid, area, STYLE_TEXT, teaching);
}

static void runs_draw(struct workbench *workbench, void *opaque, struct grid *grid)
{
    enum { HEADER = 2, FOOTER = 1 };
    struct runs_state *state = opaque;
    struct rect body = {0, HEADER, grid->w, grid->h - HEADER - FOOTER};
    size_t selected = row_of(state, state->selected);
    int widths[COL_COUNT];
    fit_columns(state, grid, widths);
    draw_header(state, grid, widths, workbench->typing);
    state->page = (size_t)body.h;
    if (!state->shown_count)
        draw_empty(state, grid, body);
    else
        workbench_hint(workbench, state->shown[selected]->run->status);
    table_scroll(&state->scroll, selected, state->shown_count, state->page);
    for (size_t row = state->scroll; row < state->shown_count && row < state->scroll + state->page; row++) {
        int y = body.y + (int)(row - state->scroll);
        draw_row(workbench, state, grid, y, widths, state->shown[row]);
        if (row == selected) grid_put(grid, 0, y, 0x25B8, STYLE_ACCENT, ATTR_BOLD);
        if (strcmp(workbench->compared, state->shown[row]->run->id) == 0)
            grid_put(grid, 0, y, '=', STYLE_LR, ATTR_BOLD);
        if (row == selected) grid_mark(grid, (struct rect){0, y, grid->w, 1}, ATTR_REVERSE);
    }
}

/* --- keys --- */

static void set_filter(struct runs_state *state, uint32_t code)
{
    size_t row = row_of(state, state->selected);
    if (code == K_ESCAPE)
        input_set(&state->filter, "");
    else if (code < K_UP)
        input_key(&state->filter, code);
    arrange(state, row);
}

static void delete_run(struct workbench *workbench, struct runs_state *state, const struct run_info *run,
                       bool confirmed)
{
    char question[RUN_NAME_MAX + 64];
    if (label_is_live(run->status)) {
        workbench_say(workbench, "%s is training: stop it before deleting it", run->name);
    } else if (!confirmed) {
        snprintf(question, sizeof question, "Delete %s with its history and checkpoints?", run->name);
        workbench_ask(workbench, ACTION_DELETE, question);
    } else if (workbench_did(workbench, run_delete(workbench->store, run->id, &workbench->err))) {
        workbench_say(workbench, "%s is deleted", run->name);
        workbench_did(workbench, read_runs(workbench, state, &workbench->err));
    }
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

/* Handles the keys that act on the selected run. */
static void run_key(struct workbench *workbench, struct runs_state *state, const struct run_info *run,
                    enum action action, bool confirmed)
{
    if (action == ACTION_OPEN)
        workbench_push(workbench, &run_view, run->id);
    else if (action == ACTION_COMPARE)
        choose_compared(workbench, run);
    else if (action == ACTION_DELETE)
        delete_run(workbench, state, run, confirmed);
    else if (action == ACTION_RESUME)
        workbench_resume(workbench, run, confirmed);
    else
        workbench_order(workbench, run, action, confirmed);
}

static void runs_key(struct workbench *workbench, void *opaque, enum action action, uint32_t code)
{
    struct runs_state *state = opaque;
    size_t row = row_of(state, state->selected);
    const struct run_info *run = row < state->shown_count ? state->shown[row]->run : NULL;
    bool empty = !state->filter.text[0];
    if (keys_move(action, &row, state->shown_count, state->page)) {
        select_row(state, row);
    } else if (workbench->typing) {
        if (code == K_ENTER || code == K_ESCAPE || (code == K_BACKSPACE && empty)) workbench->typing = false;
        set_filter(state, code);
    } else if (action == ACTION_BACK && !empty) {
        set_filter(state, K_ESCAPE);
    } else if (action == ACTION_BACK) {
        workbench->left = true;
    } else if (action == ACTION_NEW) {
        workbench_push(workbench, &form_view, NULL);
    } else if (action == ACTION_FILTER) {
        workbench->typing = true;
    } else if (action == ACTION_SORT || action == ACTION_REVERSE) {
        if (action == ACTION_SORT)
            state->sort = (enum sort)((state->sort + 1) % SORT_COUNT);
        else
            state->reverse = !state->reverse;
        arrange(state, row);
    } else if (run) {
        run_key(workbench, state, run, action, code == K_CONFIRMED);
    }
}

const struct view_ops runs_view = {
    CONTEXT_RUNS, sizeof(struct runs_state), runs_open, runs_read, runs_draw, runs_key, runs_close};
