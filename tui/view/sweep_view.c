/* The runs of a sweep (`anneal sweep`), which have a tag in common: a line for each across the keys in which
 * they differ and what they are compared by, the validation loss or eval.metric, and below them the same as a
 * table, the best first. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "runs/annotation.h"
#include "runs/comparison.h"
#include "tui/view/labels.h"
#include "tui/view/list.h"
#include "tui/view/workbench.h"
#include "tui/widget/axis.h"
#include "tui/widget/parallel.h"

enum { KEYS_MAX = PARALLEL_AXES_MAX - 1, READ_SECONDS = 1 };

struct sweep_state {
    char tag[TAG_MAX];
    struct arena arena;    /* of all below */
    struct run_info *runs; /* the best first */
    struct comparison comparison;
    const char *keys[KEYS_MAX]; /* in which they differ */
    size_t key_count;
    struct parallel_axis axes[PARALLEL_AXES_MAX]; /* the keys, then the loss */
    struct parallel_line *lines;                  /* one per run */
    double *places;                               /* of each run on each axis */
    struct list list;
    const char *measure; /* "val loss" */
    int64_t furthest;    /* step of those that trained to their end */
    double read_at, now; /* like workbench->uptime, and in Unix seconds */
    bool stale, live;    /* live: a run is training */
};

/* ---- from runs to lines ---- */

static double value_of(const struct run_info *run)
{
    return *run->best_metric ? run->best_value : run->best_val_loss;
}

static int best_first(const void *a, const void *b)
{
    const struct run_info *left = a, *right = b;
    double x = value_of(a), y = value_of(b);
    if (isnan(x) || isnan(y)) return isnan(x) - isnan(y);
    if (x == y) return (left->steps < right->steps) - (left->steps > right->steps);
    return (x < y) == measure_falls(left->best_metric) ? -1 : 1;
}

/* A value of an axis, while its labels are made. */
struct value {
    const char *text; /* NULL: the run has none */
    double number;    /* NaN: it is a word */
    size_t run;
};

static int by_value(const void *a, const void *b)
{
    const struct value *x = a, *y = b;
    if (isnan(x->number) != isnan(y->number)) return isnan(x->number) ? 1 : -1;
    if (isnan(x->number)) return strcmp(x->text, y->text);
    return (x->number > y->number) - (x->number < y->number);
}

/* Numbers that span more than a factor of 20 lie on a logarithmic axis; words lie at equal distances. */
static double place_of(const struct value *values, size_t count, size_t at, size_t rank, size_t ranks)
{
    double lo = values[0].number, hi = values[count - 1].number, x = values[at].number;
    if (isnan(lo) || isnan(hi)) return ranks > 1 ? (double)rank / (double)(ranks - 1) : 0.5;
    if (!(hi > lo)) return 0.5;
    return lo > 0 && hi > 20 * lo ? log(x / lo) / log(hi / lo) : (x - lo) / (hi - lo);
}

/* Sets the labels of an axis and the runs' places on it, from values that are sorted here. */
static bool place(struct sweep_state *state, size_t axis, struct value *values, size_t count, bool downwards)
{
    size_t axes = state->key_count + 1, ranks = 0;
    struct parallel_label *labels = arena_alloc_array(&state->arena, count + 1, sizeof *labels);
    if (!labels) return false;
    qsort(values, count, sizeof *values, by_value);
    for (size_t i = 0; i < count; i++) ranks += i == 0 || by_value(&values[i - 1], &values[i]) != 0;
    for (size_t i = 0, n = 0; i < count; i++) {
        bool fresh = i == 0 || by_value(&values[i - 1], &values[i]) != 0;
        n += fresh;
        double at = place_of(values, count, i, n - 1, ranks);
        if (downwards) at = 1 - at;
        state->places[values[i].run * axes + axis] = at;
        if (fresh) labels[n - 1] = (struct parallel_label){at, values[i].text};
    }
    state->axes[axis].labels = labels;
    state->axes[axis].label_count = ranks;
    return true;
}

/* The value of a run on an axis; its text is NULL where there is none, or no memory. */
static struct value value_on(struct sweep_state *state, size_t axis, size_t run)
{
    struct value out = {.run = run};
    if (axis == state->key_count) {
        out.number = value_of(&state->runs[run]);
        if (isfinite(out.number)) out.text = arena_strdup(&state->arena, AXIS_TEXT(out.number));
    } else {
        out.text = comparison_setting(&state->comparison.runs[run], state->keys[axis]);
        if (!out.text || !text_parse_double(out.text, &out.number) || !isfinite(out.number)) out.number = NAN;
    }
    return out;
}

static bool place_all(struct sweep_state *state)
{
    size_t count = state->comparison.count, axes = state->key_count + 1;
    bool lowest = !count || measure_falls(state->runs->best_metric);
    struct value *values = arena_alloc_array(&state->arena, count + 1, sizeof *values);
    state->places = arena_alloc_array(&state->arena, count + 1, axes * sizeof *state->places);
    state->lines = arena_alloc_array(&state->arena, count + 1, sizeof *state->lines);
    if (!values || !state->places || !state->lines) return false;
    for (size_t i = 0; i < count * axes; i++) state->places[i] = NAN;
    for (size_t k = 0; k < axes; k++) {
        const char *name = k < state->key_count ? state->keys[k] : state->measure, *dot = strrchr(name, '.');
        size_t n = 0;
        state->axes[k].name = k < state->key_count && dot ? dot + 1 : name;
        for (size_t i = 0; i < count; i++)
            if ((values[n] = value_on(state, k, i)).text) n++;
        if (!place(state, k, values, n, k == state->key_count && lowest)) return false;
    }
    return true;
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Whether the key only follows from another one in which the runs differ, as the default of train.beta2 does
 * from train.optimizer. */
static bool follows(const struct comparison *c, const char *key)
{
    static const char leader[] = "train.optimizer";
    if (strncmp(key, "train.beta", 10) != 0) return false;
    for (size_t i = 0; i < c->count; i++)
        for (size_t k = 0; k < i; k++)
            if (same_text(comparison_setting(&c->runs[i], leader), comparison_setting(&c->runs[k], leader)) &&
                !same_text(comparison_setting(&c->runs[i], key), comparison_setting(&c->runs[k], key)))
                return false;
    return true;
}

/* Reads the runs with the tag; on failure the old ones stay. */
static enum status load(struct workbench *workbench, struct sweep_state *state, struct err *err)
{
    struct sweep_state next = {.list = state->list, .measure = "val loss", .read_at = workbench->uptime};
    struct run_info *all = NULL;
    size_t count = 0, n = 0;
    memcpy(next.tag, state->tag, sizeof next.tag);
    state->read_at = workbench->uptime;
    state->stale = false;
    enum status status = run_list(workbench->store, &next.arena, &all, &count, err);
    for (size_t i = 0; !status && i < count; i++)
        if (run_has_tag(&all[i], next.tag)) all[n++] = all[i];
    if (n) qsort(all, n, sizeof *all, best_first);
    if (n && *all[0].best_metric) next.measure = all[0].best_metric;
    for (size_t i = 0; i < n; i++) {
        next.live = next.live || status_is_live(all[i].status);
        run_sweep_pass(&all[i], &next.furthest);
        if (state->runs && state->list.count && strcmp(all[i].id, state->runs[state->list.at].id) == 0)
            next.list.at = i;
    }
    next.runs = all;
    if (!status)
        status = comparison_read(workbench->store, &(struct comparison_request){.runs = all, .count = n},
                                 &next.comparison, err);
    for (size_t i = 0; !status && i < next.comparison.row_count && next.key_count < KEYS_MAX; i++) {
        const struct comparison_row *row = &next.comparison.rows[i];
        if (row->section == COMPARED_SETTINGS && !follows(&next.comparison, row->name))
            next.keys[next.key_count++] = row->name;
    }
    if (!status && !place_all(&next)) status = err_no_memory(err, "the runs of a sweep");
    comparison_release(status ? &next.comparison : &state->comparison);
    arena_release(status ? &next.arena : &state->arena);
    if (status) return status;
    *state = next;
    list_set_count(&state->list, n);
    return STATUS_OK;
}

static enum status sweep_open(struct workbench *workbench, void *opaque, const char *argument,
                              struct err *err)
{
    struct sweep_state *state = opaque;
    struct run_info run;
    enum status status = run_find(workbench->store, argument, &run, err);
    if (status) return status;
    size_t bytes;
    const char *tag = run_sweep_tag(&run, &bytes);
    if (!tag)
        return err_set(err, STATUS_NOT_FOUND,
                       "run %s belongs to no sweep (start one: anneal sweep CONFIG.ini --section.key=A,B,C)",
                       run.name);
    snprintf(state->tag, sizeof state->tag, "%.*s", (int)bytes, tag);
    return load(workbench, state, err);
}

static void sweep_close(void *opaque)
{
    struct sweep_state *state = opaque;
    comparison_release(&state->comparison);
    arena_release(&state->arena);
}

static bool sweep_read(struct workbench *workbench, void *opaque, bool store_changed)
{
    struct sweep_state *state = opaque;
    state->stale = state->stale || store_changed || state->live; /* a crash changes no row */
    if (!state->stale || workbench->uptime - state->read_at < READ_SECONDS) return false;
    workbench_did(workbench, load(workbench, state, &workbench->err));
    return true;
}

/* ---- drawing ---- */

static void draw_lines(const struct sweep_state *state, struct grid *grid, struct rect area)
{
    int axes = (int)state->key_count + 1, fit = parallel_fit(area.w), skip = axes > fit ? axes - fit : 0;
    for (size_t i = 0; i < state->list.count; i++) {
        enum run_status status = state->runs[i].status;
        bool selected = i == state->list.at;
        state->lines[i] =
            (struct parallel_line){.at = state->places + i * (size_t)axes + skip,
                                   .marked = selected,
                                   .style = selected                                        ? STYLE_ACCENT
                                            : i == 0                                        ? STYLE_BEST
                                            : status == RUN_FAILED || status == RUN_CRASHED ? STYLE_BAD
                                            : status == RUN_STOPPED                         ? STYLE_DIM
                                                                                            : STYLE_TRAIN};
    }
    if (fit < 1) return;
    parallel_draw(grid, area,
                  &(struct parallel){state->axes + skip, axes - skip, state->lines, state->list.count});
}

/* The columns of the table: the run, its keys, and what came of it. */
enum { COLUMN_RUN, COLUMN_LOSS, COLUMN_STATUS, COLUMN_STEPS, COLUMN_KEYS };

static void draw_cell(const void *view, size_t i, int column, struct pen pen)
{
    const struct sweep_state *state = view;
    const struct run_info *run = &state->runs[i];
    struct status_label status = label_state(run, state->now);
    char text[96];
    if (column == COLUMN_RUN) {
        grid_name(pen.grid, pen.x, pen.y, pen.end - pen.x, STYLE_TEXT, 0, run->name);
    } else if (column == COLUMN_STATUS && run_sweep_left(run, state->furthest)) {
        pen_print(&pen, STYLE_DIM, 0, "left at %s", TEXT_COUNT(run->steps)); /* as `anneal sweep show` says */
    } else if (column == COLUMN_STATUS) {
        pen_print(&pen, status.style, 0, "%s", status.word);
    } else if (column == COLUMN_LOSS) {
        pen_print_right(&pen, i == 0 ? STYLE_BEST : STYLE_TEXT, 0,
                        isnan(value_of(run)) ? "-" : TEXT_LOSS(value_of(run)));
    } else if (column == COLUMN_STEPS) {
        snprintf(text, sizeof text, "%lld/%lld", (long long)(run->steps > 0 ? run->steps : 0),
                 (long long)(run->total_steps > 0 ? run->total_steps : 0));
        pen_print_right(&pen, STYLE_TEXT, 0, text);
    } else {
        const char *value = comparison_setting(&state->comparison.runs[i], state->keys[column - COLUMN_KEYS]);
        pen_print_right(&pen, STYLE_TEXT, 0, clean_line(text, sizeof text, value ? value : "-"));
    }
}

static void draw_table(struct sweep_state *state, struct grid *grid, struct rect area)
{
    char title[80];
    snprintf(title, sizeof title, "best %s", state->measure);
    struct table_column columns[COLUMN_KEYS + KEYS_MAX] = {[COLUMN_RUN] = {"run", 8, 28, 0, false},
                                                           [COLUMN_LOSS] = {title, 8, 18, 0, true},
                                                           [COLUMN_STATUS] = {"status", 8, 13, 2, false},
                                                           [COLUMN_STEPS] = {"steps", 7, 15, 3, true}};
    int count = COLUMN_KEYS + (int)state->key_count;
    for (int k = COLUMN_KEYS; k < count; k++)
        columns[k] = (struct table_column){state->axes[k - COLUMN_KEYS].name, 8, 16, 1 + k, true};
    list_draw_table(&state->list, grid, area, &(struct list_table){columns, count, draw_cell, state});
}

static void sweep_draw(struct workbench *workbench, void *opaque, struct grid *grid)
{
    struct sweep_state *state = opaque;
    struct pen pen = {grid, 1, 0, grid->w - 1};
    enum { HEADING = 2, CHART_LEAST = 7 };
    int rows = grid->h - 2, chart = rows >= 2 * CHART_LEAST ? rows / 2 : 0;
    state->now = workbench->now;
    int left = rows - HEADING - (int)(state->list.count < (size_t)rows ? state->list.count : (size_t)rows);
    if (chart && left > chart) chart = left; /* the table is short */
    pen_print(&pen, STYLE_TEXT, ATTR_BOLD, "Sweep %s", state->tag + strlen(TAG_SWEEP));
    pen.x += 3;
    pen_print(&pen, STYLE_DIM, 0, "%zu run%s, the best first", state->list.count,
              text_plural((int64_t)state->list.count));
    if (!state->list.count) {
        grid_text(grid, 1, 2, grid->w - 2, STYLE_DIM, ATTR_NONE, "no run has its tag any more");
        return;
    }
    if (chart) draw_lines(state, grid, (struct rect){1, 2, grid->w - 2, chart - 1});
    draw_table(state, grid, (struct rect){0, 2 + chart, grid->w, grid->h - 3 - chart});
}

static bool sweep_key(struct workbench *workbench, void *opaque, enum action action, uint32_t code)
{
    struct sweep_state *state = opaque;
    if (action == ACTION_OPEN && state->list.count)
        workbench_push(workbench, &run_view, state->runs[state->list.at].id);
    return action == ACTION_OPEN || list_key(workbench, &state->list, action, code);
}

const struct view_ops sweep_view = {
    CONTEXT_SWEEP, sizeof(struct sweep_state), sweep_open, sweep_read, sweep_draw, sweep_key, sweep_close};
