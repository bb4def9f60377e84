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
#include "tui/view/steer.h"
#include "tui/view/workbench.h"
#include "tui/widget/axis.h"
#include "tui/widget/bars.h"
#include "tui/widget/layout.h"
#include "tui/widget/table.h"

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

static bool runs_read(struct workbench *workbench, void *opaque, bool store_changed)
{
    struct runs_state *state = opaque;
    bool live = false;
    launch_reap();
    for (size_t i = 0; i < state->list.count; i++) live = live || label_is_live(state->list.runs[i].status);
    if (!store_changed && !live) {
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
    char steps[32] = "";
    double fraction = label_progress(run);
    if (w >= 28) {
        char done[16], total[16];
        snprintf(steps, sizeof steps, "%s/%s",
                 text_format_count((double)(run->steps > 0 ? run->steps : 0), done, sizeof done),
                 text_format_count((double)run->total_steps, total, sizeof total));
    }
    int gauge = w - 5 - (steps[0] ? 12 : 0);
    gauge_draw(grid, x, y, gauge, label_status(run->status).style, fraction);
    if (isnan(fraction))
        grid_text_right(grid, x + gauge, y, 5, STYLE_DIM, 0, "?%");
    else
        grid_printf(grid, x + gauge, y, 5, STYLE_TEXT, 0, "%4.0f%%", floor(fraction * 100));
    if (steps[0]) grid_text_right(grid, x + gauge + 5, y, 12, STYLE_DIM, 0, steps);
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

/* Of a run that trains the time that remains, else how long ago it ended. */
static enum style time_text(const struct run_info *run, int w, double now, char *buf, size_t size)
{
    char duration[32];
    double eta = label_eta(run), since = isnan(run->ended_at) ? run->heartbeat : run->ended_at;
    if (!isnan(eta)) {
        snprintf(buf, size, w >= 12 ? "ETA %s" : "%s", clock_format_duration(eta, duration, sizeof duration));
        return STYLE_TEXT;
    }
    label_age(since > 0 ? since : run->created_at, now, buf, size);
    return STYLE_DIM;
}

/* The text of a column of numbers, `w` columns wide; its style. */
static enum style cell_text(const struct run_info *run, enum column column, int w, double now, char *buf,
                            size_t size)
{
    char number[32];
    snprintf(buf, size, "--");
    if (column == COL_TIME) return time_text(run, w, now, buf, size);
    if (column == COL_LOSS && run->loss_recorded) {
        axis_format(run->final_loss, buf, size);
        return isfinite(run->final_loss) ? STYLE_TEXT : STYLE_BAD;
    }
    if (column == COL_BEST && run->best_step >= 0) {
        axis_format(run->best_val_loss, number, sizeof number);
        snprintf(buf, size, w >= 15 ? "%s @%-6" PRId64 : "%s", number, run->best_step);
        return STYLE_BEST;
    }
    if (column != COL_SPEED) return STYLE_DIM;
    if (run->tokens_per_sec > 0) text_format_count(run->tokens_per_sec, buf, size);
    return label_is_live(run->status) ? STYLE_SPEED : STYLE_DIM;
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

static void draw_header(const struct runs_state *state, struct grid *grid, const int *widths, bool typing)
{
    size_t live = 0;
    for (size_t i = 0; i < state->list.count; i++) live += label_is_live(state->list.runs[i].status);
    int x = 1, right = grid->w - 1;
    x += grid_text(grid, x, 0, right - x, STYLE_ACCENT, ATTR_BOLD, "anneal") + 2;
    x += grid_printf(grid, x, 0, right - x, STYLE_TEXT, 0, "%zu run%s, %zu training", state->list.count,
                     state->list.count == 1 ? "" : "s", live) +
         2;
    if (typing || state->list.filter.text[0]) {
        x += grid_text(grid, x, 0, right - x, STYLE_ACCENT, ATTR_BOLD, "/");
        x += grid_text(grid, x, 0, right - x, STYLE_TEXT, ATTR_BOLD, state->list.filter.text);
        if (typing) grid_put(grid, x, 0, ' ', STYLE_TEXT, ATTR_REVERSE);
        x += 2;
        x += grid_printf(grid, x, 0, right - x, STYLE_DIM, 0, "%zu match%s", state->list.shown_count,
                         state->list.shown_count == 1 ? "es" : "") +
             1;
    }
    char order[64];
    snprintf(order, sizeof order, "%s%s", sort_name(state->list.sort),
             state->list.reverse ? ", reversed" : "");
    if (right - x > (int)strlen(order)) grid_text_right(grid, x, 0, right - x, STYLE_DIM, 0, order);
    table_draw_titles(grid, 1, 1, columns, COL_COUNT, column_gap(grid), widths, ATTR_UNDERLINE);
}

static void draw_empty(struct runs_state *state, struct grid *grid, struct rect body)
{
    static const char *const lines[] = {
        "No runs yet.",
        "",
        "n starts one from a form, or in another terminal:",
        "",
        "  anneal train --data.train=kjv          the King James Bible",
        "  anneal train --data.train=book.txt     a text of yours",
        "  anneal train config.ini                everything written down",
        "",
        "A run goes on when this workbench is closed.",
    };
    int count = (int)(sizeof lines / sizeof *lines), w = 62;
    if (state->list.count) {
        grid_printf(grid, body.x + 3, body.y + 1, body.w - 4, STYLE_DIM, 0,
                    "No run matches \"%s\": Esc shows all.", state->list.filter.text);
        return;
    }
    struct rect box = layout_centre(body.w, body.h, w, count);
    for (int i = 0; i < count && i < box.h; i++)
        grid_text(grid, body.x + box.x, body.y + box.y + i, box.w, i == 0 ? STYLE_ACCENT : STYLE_TEXT,
                  i == 0 ? ATTR_BOLD : 0, lines[i]);
}

static void runs_draw(struct workbench *workbench, void *opaque, struct grid *grid)
{
    enum { HEADER = 2, FOOTER = 1 };
    struct runs_state *state = opaque;
    struct rect body = {0, HEADER, grid->w, grid->h - HEADER - FOOTER};
    size_t selected = runs_list_row(&state->list), page = (size_t)body.h;
    int widths[COL_COUNT];
    fit_columns(&state->list, grid, widths);
    draw_header(state, grid, widths, workbench->typing);
    state->page = page;
    if (!state->list.shown_count) draw_empty(state, grid, body);
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

static void filter_key(struct workbench *workbench, struct runs_state *state, uint32_t code)
{
    bool left =
        code == K_ENTER || code == K_ESCAPE || (code == K_BACKSPACE && !input_backspace(&state->list.filter));
    if (left) workbench->typing = false;
    if (code == K_CTRL('u') || code == K_ESCAPE)
        input_set(&state->list.filter, "");
    else if (!left)
        input_type(&state->list.filter, code);
    runs_list_arrange(&state->list);
}

static void delete_run(struct workbench *workbench, struct runs_state *state, const struct run_info *run)
{
    if (!workbench_did(workbench, run_delete(workbench->store, run->id, &workbench->err))) return;
    workbench_say(workbench, "%s is deleted", run->name);
    workbench_did(workbench, runs_list_read(&state->list, workbench->store, workbench->now, &workbench->err));
}

static void steer(struct workbench *workbench, struct runs_state *state, enum action action, bool confirmed)
{
    const struct run_info *run = runs_list_selected(&state->list);
    if (!run) return;
    if (action != ACTION_DELETE) {
        steer_run(workbench, run, action, confirmed);
    } else if (confirmed) {
        delete_run(workbench, state, run);
    } else if (label_is_live(run->status)) {
        workbench_say(workbench, "%s is training: stop it before deleting it", run->name);
    } else {
        workbench_ask(workbench, ACTION_DELETE, "Delete %s with its history and checkpoints?", run->name);
    }
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
        filter_key(workbench, state, code);
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
    case ACTION_PAUSE:
    case ACTION_STOP:
    case ACTION_CHECKPOINT:
    case ACTION_DELETE:
        steer(workbench, state, action, code == K_CONFIRMED);
        break;
    case ACTION_COMPARE:
        choose_compared(workbench, state);
        break;
    case ACTION_BACK:
        go_back(workbench, state);
        break;
    default:
        break;
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
