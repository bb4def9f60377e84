/* The list of runs: status, progress, losses, speed and a small curve of each; sorted and filtered. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "runs/run.h"
#include "runs/series.h"
#include "tui/view/labels.h"
#include "tui/view/launch.h"
#include "tui/view/runs_list.h"
#include "tui/view/workbench.h"
#include "tui/widget/axis.h"
#include "tui/widget/bars.h"
#include "tui/widget/layout.h"

enum { SPARKS = 128, SPARK_POINTS = 512 };
enum { NAME_LEAST = 6 }; /* columns of a name before the tag that distinguishes runs of one name */

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

struct spark {
    char id[RUN_ID_MAX];
    struct series series;
    int64_t steps; /* what the run had when it was read */
};

struct runs_state {
    struct runs_list list;
    size_t scroll;
    size_t page;                 /* rows of the body when last drawn */
    struct spark sparks[SPARKS]; /* by a hash of the id */
};

/* --- reading --- */

static enum status runs_open(struct workbench *workbench, void *opaque, const char *argument, struct err *err)
{
    (void)argument;
    struct runs_state *state = opaque;
    runs_list_init(&state->list);
    return runs_list_read(&state->list, workbench->store, workbench->now, err);
}

static void runs_close(void *opaque)
{
    struct runs_state *state = opaque;
    for (int i = 0; i < SPARKS; i++) series_release(&state->sparks[i].series);
    runs_list_release(&state->list);
}

static size_t count_live(const struct runs_list *list)
{
    size_t live = 0;
    for (size_t i = 0; i < list->count; i++) live += label_is_live(list->runs[i].status);
    return live;
}

static bool runs_read(struct workbench *workbench, void *opaque, bool store_changed)
{
    struct runs_state *state = opaque;
    launch_reap();
    if (!store_changed && !count_live(&state->list)) {
        bool minute = state->list.count > 0 && (int64_t)workbench->now % 60 == 0;
        if (minute) runs_list_tag(&state->list, workbench->now); /* and ages, when drawn */
        return minute;
    }
    workbench_did(workbench, runs_list_read(&state->list, workbench->store, workbench->now, &workbench->err));
    if (workbench->visited[0]) runs_list_select_run(&state->list, workbench->visited);
    workbench->visited[0] = '\0';
    return true;
}

/* The small curve of a run, read when its row is drawn and it has gone on. */
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
        bool changed;
        status = series_update(workbench->store, run->id, &spark->series, &changed, &workbench->err);
    }
    spark->steps = run->steps;
    if (workbench_did(workbench, status)) return &spark->series;
    spark->id[0] = '\0';
    return NULL;
}

/* --- drawing --- */

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

/* The columns that fit; the name's has room for the tags of runs of one name. */
static void fit_columns(const struct runs_list *list, const struct grid *grid, int widths[COL_COUNT])
{
    struct table_column fitted[COL_COUNT];
    memcpy(fitted, columns, sizeof fitted);
    int least = list->tag_width ? NAME_LEAST + 1 + list->tag_width : 0;
    if (least > fitted[COL_NAME].min) fitted[COL_NAME].min = least;
    table_fit(fitted, COL_COUNT, grid->w - 2, column_gap(grid), widths);
}

static void draw_name(struct grid *grid, int x, int y, int w, const char *name, const char *tag)
{
    int tag_w = (int)strlen(tag);
    x += grid_text(grid, x, y, tag_w ? w - 1 - tag_w : w, STYLE_TEXT, ATTR_BOLD, name);
    if (tag_w) grid_text(grid, x + 1, y, tag_w, STYLE_DIM, 0, tag);
}

/* The text of a column of numbers, `w` columns wide; its style. The time is that which remains for a run that
 * trains, else how long ago it ended. */
static enum style cell_text(const struct run_info *run, enum column column, int w, double now, char *buf,
                            size_t size)
{
    double eta = label_eta(run), since = isnan(run->ended_at) ? run->heartbeat : run->ended_at;
    snprintf(buf, size, "--");
    if (column == COL_TIME && !isnan(eta)) {
        snprintf(buf, size, w >= 12 ? "ETA %s" : "%s", CLOCK_DURATION(eta));
        return STYLE_TEXT;
    }
    if (column == COL_TIME) label_age(since > 0 ? since : run->created_at, now, buf, size);
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
                     const int *widths, size_t row)
{
    const struct run_info *run = runs_list_at(&state->list, row);
    const struct series *series;
    struct status_label status = label_status(run->status);
    char text[64];
    for (int c = 0, x = 1; c < COL_COUNT; c++) {
        int w = widths[c];
        if (!w) continue;
        switch ((enum column)c) {
        case COL_STATUS:
            grid_put(grid, x, y, status.symbol, status.style, ATTR_BOLD);
            grid_text(grid, x + 2, y, w - 2, status.style, 0, status.word);
            break;
        case COL_NAME:
            draw_name(grid, x, y, w, run->name, runs_list_tag_at(&state->list, row));
            break;
        case COL_PROGRESS:
            draw_progress(grid, x, y, w, run);
            break;
        case COL_CURVE:
            series = run->steps > 0 ? spark_of(workbench, state, run) : NULL;
            if (series) sparkline_draw(grid, x, y, w, STYLE_TRAIN, series->points, series->count);
            break;
        default: {
            enum style style = cell_text(run, (enum column)c, w, workbench->now, text, sizeof text);
            grid_text_right(grid, x, y, w, style, 0, text);
        }
        }
        x += w + column_gap(grid);
    }
}

static void draw_header(const struct runs_list *list, struct grid *grid, const int *widths, bool typing)
{
    struct pen pen = {grid, 1, 0, grid->w - 1};
    char order[64];
    pen_print(&pen, STYLE_ACCENT, ATTR_BOLD, "anneal");
    pen.x += 2;
    pen_print(&pen, STYLE_TEXT, 0, "%zu run%s, %zu training", list->count, text_plural((int64_t)list->count),
              count_live(list));
    pen.x += 2;
    if (typing || list->filter.text[0]) {
        pen_print(&pen, STYLE_ACCENT, ATTR_BOLD, "/");
        pen_print(&pen, STYLE_TEXT, ATTR_BOLD, "%s", list->filter.text);
        if (typing) grid_put(grid, pen.x, 0, ' ', STYLE_TEXT, ATTR_REVERSE);
        pen.x += 2;
        pen_print(&pen, STYLE_DIM, 0, "%zu match%s", list->shown_count, list->shown_count == 1 ? "es" : "");
        pen.x += 1;
    }
    snprintf(order, sizeof order, "%s%s", sort_name(list->sort), list->reverse ? ", reversed" : "");
    if (pen.end - pen.x > (int)strlen(order)) pen_print_right(&pen, STYLE_DIM, 0, order);
    table_draw_titles(grid, 1, 1, columns, COL_COUNT, column_gap(grid), widths, ATTR_UNDERLINE);
}

static void draw_empty(const struct runs_list *list, struct grid *grid, struct rect body)
{
    static const char teaching[] = "No runs yet.\n\n"
                                   "n starts one from a form, or in another terminal:\n\n"
                                   "  anneal train --data.train=kjv          the King James Bible\n"
                                   "  anneal train --data.train=book.txt     a text of yours\n"
                                   "  anneal train config.ini                everything written down\n\n"
                                   "A run goes on when this workbench is closed.";
    enum { TEACHING_W = 62, TEACHING_H = 9 };
    struct rect box = layout_centre(body.w, body.h, TEACHING_W, TEACHING_H);
    struct pen pen = {grid, body.x + 3, body.y + 1, body.x + body.w - 1};
    box.y += body.y;
    if (list->count)
        pen_print(&pen, STYLE_DIM, 0, "No run matches \"%s\": Esc shows all.", list->filter.text);
    else
        wrap_draw(grid, box, STYLE_TEXT, teaching);
}

static void runs_draw(struct workbench *workbench, void *opaque, struct grid *grid)
{
    enum { HEADER = 2, FOOTER = 1 };
    struct runs_state *state = opaque;
    struct rect body = {0, HEADER, grid->w, grid->h - HEADER - FOOTER};
    size_t selected = runs_list_row(&state->list), page = (size_t)body.h;
    int widths[COL_COUNT];
    fit_columns(&state->list, grid, widths);
    draw_header(&state->list, grid, widths, workbench->typing);
    state->page = page;
    if (!state->list.shown_count) draw_empty(&state->list, grid, body);
    table_scroll(&state->scroll, selected, state->list.shown_count, page);
    for (size_t i = 0; i < page && state->scroll + i < state->list.shown_count; i++) {
        int y = body.y + (int)i;
        size_t row = state->scroll + i;
        draw_row(workbench, state, grid, y, widths, row);
        if (row == selected) grid_put(grid, 0, y, 0x25B8, STYLE_ACCENT, ATTR_BOLD);
        if (strcmp(workbench->compared, runs_list_at(&state->list, row)->id) == 0)
            grid_put(grid, 0, y, '=', STYLE_LR, ATTR_BOLD);
        if (row == selected) grid_mark(grid, (struct rect){0, y, grid->w, 1}, ATTR_REVERSE);
    }
}

/* --- keys --- */

static void filter_key(struct workbench *workbench, struct runs_list *list, uint32_t code)
{
    bool empty = list->filter.text[0] == '\0';
    if (code == K_ENTER || code == K_ESCAPE || (code == K_BACKSPACE && empty)) workbench->typing = false;
    if (code == K_ESCAPE)
        input_set(&list->filter, "");
    else if (code < K_UP)
        input_key(&list->filter, code);
    runs_list_arrange(list);
}

static void delete_run(struct workbench *workbench, struct runs_state *state, const struct run_info *run)
{
    if (!workbench_did(workbench, run_delete(workbench->store, run->id, &workbench->err))) return;
    workbench_say(workbench, "%s is deleted", run->name);
    workbench_did(workbench, runs_list_read(&state->list, workbench->store, workbench->now, &workbench->err));
}

static void order(struct workbench *workbench, struct runs_state *state, enum action action, bool confirmed)
{
    const struct run_info *run = runs_list_selected(&state->list);
    if (!run) return;
    if (action != ACTION_DELETE)
        workbench_order(workbench, run, action, confirmed);
    else if (confirmed)
        delete_run(workbench, state, run);
    else if (label_is_live(run->status))
        workbench_say(workbench, "%s is training: stop it before deleting it", run->name);
    else
        workbench_ask(workbench, ACTION_DELETE, "Delete %s with its history and checkpoints?", run->name);
}

static void go_back(struct workbench *workbench, struct runs_state *state)
{
    if (!state->list.filter.text[0]) {
        workbench->left = true;
        return;
    }
    input_set(&state->list.filter, "");
    runs_list_arrange(&state->list);
}

static void choose_compared(struct workbench *workbench, const struct runs_state *state)
{
    const struct run_info *run = runs_list_selected(&state->list);
    if (!run) return;
    bool again = strcmp(workbench->compared, run->id) == 0;
    snprintf(workbench->compared, sizeof workbench->compared, "%s", again ? "" : run->id);
    if (again)
        workbench_say(workbench, "%s is compared with no more", run->name);
    else
        workbench_say(workbench, "open another run: the loss of %s is drawn beside its own", run->name);
}

static void runs_key(struct workbench *workbench, void *opaque, enum action action, uint32_t code)
{
    struct runs_state *state = opaque;
    size_t row = runs_list_row(&state->list);
    if (keys_move(action, &row, state->list.shown_count, state->page)) {
        runs_list_select(&state->list, row);
        return;
    }
    if (workbench->typing) {
        filter_key(workbench, &state->list, code);
        return;
    }
    switch (action) {
    case ACTION_OPEN:
        if (state->list.shown_count) workbench_push(workbench, &run_view, state->list.selected);
        break;
    case ACTION_NEW:
        workbench_push(workbench, &form_view, NULL);
        break;
    case ACTION_FILTER:
        workbench->typing = true;
        break;
    case ACTION_SORT:
        state->list.sort = (enum sort)((state->list.sort + 1) % SORT_COUNT);
        runs_list_arrange(&state->list);
        break;
    case ACTION_REVERSE:
        state->list.reverse = !state->list.reverse;
        runs_list_arrange(&state->list);
        break;
    case ACTION_COMPARE:
        choose_compared(workbench, state);
        break;
    case ACTION_BACK:
        go_back(workbench, state);
        break;
    default:
        order(workbench, state, action, code == K_CONFIRMED);
    }
}

const struct view_ops runs_view = {
    .name = "the list of runs",
    .context = CONTEXT_RUNS,
    .state_bytes = sizeof(struct runs_state),
    .open = runs_open,
    .read = runs_read,
    .draw = runs_draw,
    .key = runs_key,
    .close = runs_close,
};
