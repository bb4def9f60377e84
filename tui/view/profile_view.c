/* See profile_view.h. Profiled steps are rare and a read sums over all of them, so the view reads the profile
 * of a live run every few seconds, not at every commit. */
#include "tui/view/profile_view.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runs/run.h"
#include "tui/view/labels.h"
#include "tui/view/profile_heat.h"
#include "tui/view/workbench.h"
#include "tui/widget/axis.h"
#include "tui/widget/bars.h"

/* ---- from rows to nodes ---- */

/* The number of enclosing nodes. */
static int depth_of(const struct profile_line *line)
{
    return line->level == PROFILE_OPERATION && line->of.layer < 0 ? 1 : (int)line->level;
}

static struct profile_line *add_node(struct profile_tree *tree, enum profile_level level,
                                     const struct profile_row *row)
{
    struct profile_line *node = &tree->nodes[tree->node_count];
    *node = (struct profile_line){.level = level, .of = *row, .node = tree->node_count++};
    node->end = tree->node_count;
    if (level != PROFILE_OPERATION)
        node->of = (struct profile_row){
            .phase = row->phase, .layer = level == PROFILE_LAYER ? row->layer : -1, .op = ""};
    return node;
}

/* Adds a row. An unknown number makes the sum unknown, except for the time. */
static void add_to(const struct profile_tree *tree, struct profile_line *node, const struct profile_row *row)
{
    node->of.calls += row->calls;
    if (isfinite(row->time_us)) node->of.time_us += row->time_us;
    node->of.first_us += row->first_us;
    node->of.bytes += row->bytes;
    node->of.flops += row->flops;
    node->end = tree->node_count;
    node->folds = node + 1 < tree->nodes + tree->node_count;
}

static void make_nodes(struct profile_tree *tree, const struct profile *profile)
{
    struct profile_line *phase = NULL, *layer = NULL;
    tree->node_count = 0;
    for (size_t i = 0; i < profile->count; i++) {
        const struct profile_row *row = &profile->rows[i];
        bool new_phase = !phase || strcmp(row->phase, phase->of.phase) != 0;
        if (new_phase) phase = add_node(tree, PROFILE_PHASE, row);
        if (new_phase || row->layer < 0) layer = NULL;
        if (row->layer >= 0 && (!layer || layer->of.layer != row->layer))
            layer = add_node(tree, PROFILE_LAYER, row);
        /* time outside all operations */
        bool whole = row->layer < 0 && (!*row->op || strcmp(row->op, row->phase) == 0);
        if (!whole) add_node(tree, PROFILE_OPERATION, row);
        add_to(tree, phase, row);
        if (layer) add_to(tree, layer, row);
    }
}

/* ---- from nodes to lines ---- */

static int slower_first(const void *a, const void *b, void *opaque)
{
    const struct profile_line *nodes = opaque;
    size_t i = *(const size_t *)a, k = *(const size_t *)b;
    double left = nodes[i].of.time_us, right = nodes[k].of.time_us;
    if (isnan(left) || isnan(right)) return isnan(left) - isnan(right);
    return left > right ? -1 : left < right ? 1 : (i > k) - (i < k);
}

/* The nodes that the user has folded or unfolded stay so. */
static void keep_folds(struct profile_tree *tree, const struct profile_line *old, size_t old_count)
{
    for (size_t i = 0; i < old_count; i++)
        for (size_t k = 0; old[i].by_hand && k < tree->node_count; k++) {
            struct profile_line *node = &tree->nodes[k];
            if (node->level == old[i].level && node->of.layer == old[i].of.layer &&
                strcmp(node->of.phase, old[i].of.phase) == 0)
                node->by_hand = true;
        }
}

/* Adds the siblings from..end, each followed by its visible parts. `order` has room for all nodes. */
static void add_lines(struct profile_tree *tree, size_t from, size_t end, size_t *order)
{
    size_t n = 0;
    for (size_t i = from; i < end; i = tree->nodes[i].end) order[n++] = i;
    if (tree->by_time) qsort_r(order, n, sizeof *order, slower_first, tree->nodes);
    for (size_t i = 0; i < n; i++) {
        struct profile_line *line = &tree->lines[tree->list.count++];
        *line = tree->nodes[order[i]];
        bool usual = line->level == PROFILE_PHASE || tree->all_open;
        line->open = line->folds && usual != line->by_hand;
        if (line->open) add_lines(tree, order[i] + 1, line->end, order + n);
    }
}

/* Whether `line` is `of` or one of its parts. */
static bool is_in(const struct profile_line *line, const struct profile_line *of)
{
    if (of->level > line->level || strcmp(of->of.phase, line->of.phase) != 0) return false;
    if (of->level == PROFILE_PHASE) return true;
    return of->of.layer == line->of.layer &&
           (of->level == PROFILE_LAYER || strcmp(of->of.op, line->of.op) == 0);
}

static size_t find_line(const struct profile_tree *tree, const struct profile_line *line)
{
    size_t best = 0;
    for (size_t i = 0; i < tree->list.count; i++)
        if (is_in(line, &tree->lines[i]) &&
            (!is_in(line, &tree->lines[best]) || tree->lines[i].level > tree->lines[best].level))
            best = i;
    return best;
}

enum status profile_tree_arrange(struct profile_tree *tree, const struct profile *profile, struct err *err)
{
    size_t need = 3 * profile->count + 1; /* at most a phase, a layer and an operation per row */
    struct profile_line was = {.of = {.phase = "", .op = ""}};
    if (tree->list.at < tree->list.count) was = tree->lines[tree->list.at];
    struct arena arena = {0};
    struct profile_line *nodes = arena_alloc_array(&arena, 2 * need, sizeof *nodes), *old = tree->nodes;
    size_t old_count = tree->node_count;
    size_t *order = arena_alloc_array(&arena, need, sizeof *order);
    if (!nodes || !order) {
        arena_release(&arena);
        return err_no_memory(err, "a profile of %zu rows", profile->count);
    }
    tree->nodes = nodes;
    tree->lines = nodes + need;
    tree->list.count = 0;
    make_nodes(tree, profile);
    keep_folds(tree, old, old_count);
    arena_release(&tree->arena);
    tree->arena = arena;
    add_lines(tree, 0, tree->node_count, order);
    tree->list.at = find_line(tree, &was);
    return STATUS_OK;
}

void profile_tree_fold(struct profile_tree *tree, size_t at, bool open)
{
    if (at >= tree->list.count || !tree->lines[at].folds || tree->lines[at].open == open) return;
    struct profile_line *node = &tree->nodes[tree->lines[at].node];
    node->by_hand = !node->by_hand;
}

void profile_tree_fold_all(struct profile_tree *tree)
{
    tree->all_open = !tree->all_open;
    for (size_t i = 0; i < tree->node_count; i++) tree->nodes[i].by_hand = false;
}

void profile_tree_release(struct profile_tree *tree)
{
    arena_release(&tree->arena);
    *tree = (struct profile_tree){0};
}

/* ---- the table ---- */

enum column {
    COLUMN_NAME,
    COLUMN_CALLS,
    COLUMN_TIME,
    COLUMN_SHARE,
    COLUMN_BAR,
    COLUMN_BYTES,
    COLUMN_FLOPS,
    COLUMN_CHANGE, /* left out where nothing is compared */
    COLUMNS
};
static const double CHANGE_LEAST = 10, CHANGE_SHARE = 0.01; /* percent; share of a step: less has no colour */

static const struct table_column columns[COLUMNS] = {
    [COLUMN_NAME] = {"operation", 18, 36, 0, false},
    [COLUMN_CALLS] = {"calls", 6, 6, 5, true},
    [COLUMN_TIME] = {"ms a step", 9, 9, 0, true},
    [COLUMN_SHARE] = {"share", 6, 6, 1, true},
    [COLUMN_BAR] = {"", 6, 60, 6, false},
    [COLUMN_BYTES] = {"GB/s", 7, 7, 4, true},
    [COLUMN_FLOPS] = {"GFLOP/s", 9, 9, 3, true},
    [COLUMN_CHANGE] = {"change", 7, 7, 2, true},
};

static void draw_name(struct pen pen, const struct profile_line *line)
{
    int attr = line->level == PROFILE_PHASE ? ATTR_BOLD : 0;
    pen.x += 2 * depth_of(line) + 2;
    if (line->folds)
        grid_put(pen.grid, pen.x - 2, pen.y, line->open ? 0x25BC : 0x25B6,
                 profile_phase_style(line->of.phase), 0);
    if (line->level == PROFILE_LAYER)
        pen_print(&pen, STYLE_TEXT, attr, "layer %d", line->of.layer);
    else
        pen_print(&pen, STYLE_TEXT, attr, "%s", line->level == PROFILE_PHASE ? line->of.phase : line->of.op);
}

/* In percent, since the run's first profile; NaN: not known. */
static double change_of(const struct profile_row *row)
{
    return row->first_us > 0 ? 100 * (row->time_us / row->first_us - 1) : NAN;
}

/* Slower is a warning, where it matters. */
static enum style change_style(const struct profile_row *row, double share)
{
    double change = change_of(row);
    if (share < CHANGE_SHARE || !(fabs(change) > CHANGE_LEAST)) return STYLE_DIM;
    return change > 0 ? STYLE_WARN : STYLE_GOOD;
}

/* Decimal points line up. Empty for unknown numbers, and for rates of lines that move or compute nothing. */
static void cell_text(const struct profile_line *line, enum column column, double share, char *buf,
                      size_t size)
{
    const struct profile_row *row = &line->of;
    const struct {
        double number;
        int decimals;
        const char *unit;
    } cells[COLUMNS] = {
        [COLUMN_CALLS] = {row->calls, 0, ""},
        [COLUMN_TIME] = {row->time_us / 1e3, 3, ""},
        [COLUMN_SHARE] = {share * 100, 1, "%"},
        [COLUMN_BYTES] = {profile_rate(row->bytes, row->time_us), 2, ""},
        [COLUMN_FLOPS] = {profile_rate(row->flops, row->time_us), 2, ""},
        [COLUMN_CHANGE] = {change_of(row) > 9999 ? 9999 : change_of(row), 0, "%"},
    };
    double number = cells[column].number;
    bool rate = column == COLUMN_BYTES || column == COLUMN_FLOPS;
    buf[0] = '\0';
    if (!isfinite(number) || (rate && number <= 0)) return;
    if (column == COLUMN_CALLS && (number != floor(number) || number >= 1e6))
        axis_format(number, buf, size);
    else
        snprintf(buf, size, column == COLUMN_CHANGE ? "%+.*f%s" : "%.*f%s", cells[column].decimals, number,
                 cells[column].unit);
}

static const double LEAST_SHARE = 0.0005; /* a smaller one is printed as 0.0% */

/* A table of these. */
struct shown {
    const struct profile *profile;
    const struct profile_tree *tree;
};

static void draw_cell(const void *view, size_t at, int column, struct pen pen)
{
    const struct shown *shown = view;
    const struct profile_line *line = &shown->tree->lines[at];
    double step_us = shown->profile->step_us, share = step_us > 0 ? line->of.time_us / step_us : NAN;
    char text[32];
    cell_text(line, (enum column)column, share, text, sizeof text);
    if (column == COLUMN_NAME)
        draw_name(pen, line);
    else if (column == COLUMN_BAR)
        gauge_draw(pen.grid, pen.x, pen.y, pen.end - pen.x, profile_phase_style(line->of.phase),
                   share < LEAST_SHARE ? 0 : share);
    else
        pen_print_right(&pen, column == COLUMN_CHANGE ? change_style(&line->of, share) : STYLE_TEXT, 0, text);
}

static bool is_compared(const struct profile *profile)
{
    for (size_t i = 0; i < profile->count; i++)
        if (profile->rows[i].first_us > 0) return true;
    return false;
}

void profile_draw_table(struct grid *grid, struct rect area, const struct profile *profile,
                        struct profile_tree *tree)
{
    char detail[120] = "";
    if (area.w < 20 || area.h < 3) return;
    if (profile->count)
        snprintf(detail, sizeof detail,
                 "%s ms a step, the mean of %" PRId64 " profiled, the newest @%" PRId64,
                 AXIS_TEXT(profile->step_us / 1e3), profile->steps, profile->last_step);
    grid_title(grid, &area, "profile", detail);
    if (profile->count)
        list_draw_table(&tree->list, grid, area,
                        &(struct list_table){columns, is_compared(profile) ? COLUMNS : COLUMN_CHANGE,
                                             draw_cell, &(struct shown){profile, tree}});
    else
        grid_line(grid, &area, STYLE_DIM, 0, "no step of this run has been profiled yet");
}

/* ---- the view ---- */

enum { READ_SECONDS = 3 };

struct profile_state {
    struct run_info run;
    struct profile profile;
    struct profile_tree tree;
    bool together;  /* a row per operation, not per layer */
    double read_at; /* like workbench->uptime */
};

static enum status read_profile(struct workbench *workbench, struct profile_state *state, struct err *err)
{
    struct profile next = {0};
    state->read_at = workbench->uptime;
    enum status status = profile_read(workbench->store, state->run.id, !state->together, &next, err);
    if (!status) status = profile_read_first(workbench->store, state->run.id, !state->together, &next, err);
    if (!status) status = profile_tree_arrange(&state->tree, &next, err);
    profile_release(status ? &next : &state->profile);
    if (!status) state->profile = next;
    return status;
}

static void profile_close(void *opaque)
{
    struct profile_state *state = opaque;
    profile_tree_release(&state->tree);
    profile_release(&state->profile);
}

static enum status profile_open(struct workbench *workbench, void *opaque, const char *argument,
                                struct err *err)
{
    struct profile_state *state = opaque;
    state->tree.by_time = true;
    if (run_find(workbench->store, argument, &state->run, err)) return err->status;
    return read_profile(workbench, state, err);
}

static bool profile_view_read(struct workbench *workbench, void *opaque, bool store_changed)
{
    struct profile_state *state = opaque;
    if (!store_changed && !status_is_live(state->run.status)) return false;
    workbench_did(workbench, run_get(workbench->store, state->run.id, &state->run, &workbench->err));
    if (!status_is_live(state->run.status) || workbench->uptime - state->read_at >= READ_SECONDS)
        workbench_did(workbench, read_profile(workbench, state, &workbench->err));
    return true;
}

static void profile_draw(struct workbench *workbench, void *opaque, struct grid *grid)
{
    struct profile_state *state = opaque;
    struct rect area = {0, LABEL_ROWS, grid->w, grid->h - LABEL_ROWS - 1};
    label_draw_run(grid, &state->run, workbench->now);
    rect_skip(&area, profile_heat_draw(grid, area, &state->profile));
    profile_draw_table(grid, area, &state->profile, &state->tree);
}

/* Folds or unfolds; folding a closed line selects the line around it. */
static void fold(struct profile_tree *tree, enum action action)
{
    if (tree->list.at >= tree->list.count) return;
    const struct profile_line *line = &tree->lines[tree->list.at];
    int depth = depth_of(line);
    if (action != ACTION_FOLD || line->open)
        profile_tree_fold(tree, tree->list.at, action == ACTION_UNFOLD || !line->open);
    else
        while (depth > 0 && depth_of(&tree->lines[tree->list.at]) >= depth) tree->list.at--;
}

static bool profile_key(struct workbench *workbench, void *opaque, enum action action, uint32_t code)
{
    struct profile_state *state = opaque;
    struct profile_tree *tree = &state->tree;
    if (list_key(workbench, &tree->list, action, code)) return true;
    if (action == ACTION_BACK) return false;
    if (action == ACTION_OPEN || action == ACTION_UNFOLD || action == ACTION_FOLD) fold(tree, action);
    if (action == ACTION_FOLD_ALL) profile_tree_fold_all(tree);
    if (action == ACTION_SORT) {
        tree->by_time = !tree->by_time;
        workbench_say(workbench, tree->by_time ? "the slowest first" : "phases and layers in their order");
    }
    if (action == ACTION_TOGETHER) {
        state->together = !state->together;
        workbench_did(workbench, read_profile(workbench, state, &workbench->err));
    }
    workbench_did(workbench, profile_tree_arrange(tree, &state->profile, &workbench->err));
    return true;
}

const struct view_ops profile_view = {
    CONTEXT_PROFILE, sizeof(struct profile_state), profile_open, profile_view_read, profile_draw, profile_key,
    profile_close};
