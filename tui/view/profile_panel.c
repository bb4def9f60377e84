/* See profile_panel.h. The nodes lie in an array in the order of the profile, each before what is in it; a
 * node knows where what is in it ends, so walking over siblings skips their insides. */
#include "tui/view/profile_panel.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tui/widget/axis.h"
#include "tui/widget/bars.h"
#include "tui/widget/table.h"

enum { NAME_MAX_BYTES = 32 };

struct profile_node {
    struct profile_line line;
    size_t end; /* the first node that is not in it */
};

struct profile_fold {
    char phase[NAME_MAX_BYTES];
    int layer; /* -1: the phase itself */
    bool open;
};

/* ---- what is open ---- */

/* The layer that a fold of this line is kept under; a phase has none. */
static int fold_layer(const struct profile_line *line)
{
    return line->level == PROFILE_LAYER ? line->of.layer : -1;
}

static struct profile_fold *find_fold(const struct profile_tree *tree, const struct profile_line *line)
{
    for (size_t i = 0; i < tree->fold_count; i++)
        if (tree->folds[i].layer == fold_layer(line) &&
            strncmp(tree->folds[i].phase, line->of.phase, NAME_MAX_BYTES - 1) == 0)
            return &tree->folds[i];
    return NULL;
}

static bool is_open(const struct profile_tree *tree, const struct profile_line *line)
{
    if (!line->folds) return false;
    const struct profile_fold *fold = find_fold(tree, line);
    if (fold) return fold->open;
    return line->level == PROFILE_PHASE || tree->all_open;
}

enum status profile_tree_fold(struct profile_tree *tree, size_t at, bool open, struct err *err)
{
    if (at >= tree->count || !tree->lines[at].folds) return STATUS_OK;
    const struct profile_line *line = &tree->lines[at];
    struct profile_fold *fold = find_fold(tree, line);
    if (!fold && tree->fold_count == tree->fold_capacity) {
        size_t capacity = tree->fold_capacity ? 2 * tree->fold_capacity : 16;
        struct profile_fold *grown = realloc(tree->folds, capacity * sizeof *grown);
        if (!grown) return err_set(err, STATUS_NO_MEMORY, "no memory to fold a profile");
        tree->folds = grown;
        tree->fold_capacity = capacity;
    }
    if (!fold) {
        fold = &tree->folds[tree->fold_count++];
        *fold = (struct profile_fold){.layer = fold_layer(line)};
        strncpy(fold->phase, line->of.phase, NAME_MAX_BYTES - 1);
    }
    fold->open = open;
    return STATUS_OK;
}

void profile_tree_fold_all(struct profile_tree *tree, bool open)
{
    tree->fold_count = 0;
    tree->all_open = open;
}

/* ---- from rows to nodes ---- */

static size_t add_node(struct profile_tree *tree, enum profile_level level, int depth,
                       const struct profile_row *row)
{
    struct profile_node *node = &tree->nodes[tree->node_count];
    node->line = (struct profile_line){.level = level, .depth = depth, .of = *row};
    if (level != PROFILE_OPERATION) {
        node->line.of.op = "";
        node->line.of.calls = node->line.of.time_us = node->line.of.bytes = node->line.of.flops = 0;
    }
    if (level == PROFILE_PHASE) node->line.of.layer = -1;
    node->end = tree->node_count + 1;
    return tree->node_count++;
}

/* An unknown number of a part makes that of the whole unknown, except for its time. */
static void add_to(const struct profile_tree *tree, struct profile_node *node, const struct profile_row *row,
                   size_t end)
{
    node->line.of.calls += row->calls;
    if (isfinite(row->time_us)) node->line.of.time_us += row->time_us;
    node->line.of.bytes += row->bytes;
    node->line.of.flops += row->flops;
    node->line.folds = end > (size_t)(node - tree->nodes) + 1;
    node->end = end;
}

/* A phase without parts: what no operation explains. */
static bool is_whole_phase(const struct profile_row *row)
{
    return row->layer < 0 && (row->op[0] == '\0' || strcmp(row->op, row->phase) == 0);
}

static void make_nodes(struct profile_tree *tree, const struct profile *profile)
{
    size_t phase = 0, layer = 0;
    bool in_layer = false;
    tree->node_count = 0;
    for (size_t i = 0; i < profile->count; i++) {
        const struct profile_row *row = &profile->rows[i];
        if (i == 0 || strcmp(row->phase, profile->rows[i - 1].phase) != 0) {
            phase = add_node(tree, PROFILE_PHASE, 0, row);
            in_layer = false;
        }
        if (row->layer < 0)
            in_layer = false;
        else if (!in_layer || tree->nodes[layer].line.of.layer != row->layer) {
            layer = add_node(tree, PROFILE_LAYER, 1, row);
            in_layer = true;
        }
        if (!is_whole_phase(row)) add_node(tree, PROFILE_OPERATION, in_layer ? 2 : 1, row);
        size_t end = tree->node_count;
        add_to(tree, &tree->nodes[phase], row, end);
        if (in_layer) add_to(tree, &tree->nodes[layer], row, end);
    }
}

/* ---- from nodes to lines ---- */

static int slower_first(const void *a, const void *b, void *opaque)
{
    const struct profile_node *nodes = opaque;
    size_t i = *(const size_t *)a, k = *(const size_t *)b;
    double left = nodes[i].line.of.time_us, right = nodes[k].line.of.time_us;
    if (isnan(left) || isnan(right)) return isnan(left) - isnan(right);
    return left > right ? -1 : left < right ? 1 : (i > k) - (i < k);
}

/* The nodes from..end that are siblings, each followed by what is visible in it. `order` has room for as many
 * nodes as there are. */
static void add_lines(struct profile_tree *tree, size_t from, size_t end, size_t *order)
{
    size_t n = 0;
    for (size_t i = from; i < end; i = tree->nodes[i].end) order[n++] = i;
    if (tree->by_time) qsort_r(order, n, sizeof *order, slower_first, tree->nodes);
    for (size_t i = 0; i < n; i++) {
        const struct profile_node *node = &tree->nodes[order[i]];
        struct profile_line *line = &tree->lines[tree->count++];
        *line = node->line;
        line->open = is_open(tree, line);
        if (line->open) add_lines(tree, order[i] + 1, node->end, order + n);
    }
}

enum status profile_tree_arrange(struct profile_tree *tree, const struct profile *profile, struct err *err)
{
    size_t need = 3 * profile->count + 1; /* a phase, a layer and an operation a row, at most */
    struct arena arena;
    arena_init(&arena, 4096);
    struct profile_node *nodes = arena_alloc_array(&arena, need, sizeof *nodes);
    struct profile_line *lines = arena_alloc_array(&arena, need, sizeof *lines);
    size_t *order = arena_alloc_array(&arena, need, sizeof *order);
    if (!nodes || !lines || !order) {
        arena_release(&arena);
        return err_set(err, STATUS_NO_MEMORY, "no memory for a profile of %zu rows", profile->count);
    }
    arena_release(&tree->arena);
    tree->arena = arena;
    tree->nodes = nodes;
    tree->lines = lines;
    make_nodes(tree, profile);
    tree->count = 0;
    if (tree->node_count) add_lines(tree, 0, tree->node_count, order);
    return STATUS_OK;
}

void profile_tree_release(struct profile_tree *tree)
{
    arena_release(&tree->arena);
    free(tree->folds);
    *tree = (struct profile_tree){0};
}

size_t profile_tree_find(const struct profile_tree *tree, const struct profile_line *line)
{
    size_t best = 0;
    int matched = 0; /* 1: its phase, 2: its layer, 3: itself */
    for (size_t i = 0; i < tree->count; i++) {
        const struct profile_line *at = &tree->lines[i];
        int match = 0;
        if (strcmp(at->of.phase, line->of.phase) != 0) continue;
        if (at->level == PROFILE_PHASE)
            match = line->level == PROFILE_PHASE ? 3 : 1;
        else if (at->of.layer == line->of.layer && at->level == line->level &&
                 strcmp(at->of.op, line->of.op) == 0)
            match = 3;
        else if (at->of.layer == line->of.layer && at->level == PROFILE_LAYER)
            match = 2;
        if (match > matched) {
            matched = match;
            best = i;
        }
    }
    return best;
}

/* ---- the table ---- */

enum {
    COLUMN_NAME,
    COLUMN_CALLS,
    COLUMN_TIME,
    COLUMN_SHARE,
    COLUMN_BAR,
    COLUMN_BYTES,
    COLUMN_FLOPS,
    COLUMNS
};
enum { GAP = 2, HEAD_ROWS = 2 };

static const struct table_column columns[COLUMNS] = {
    [COLUMN_NAME] = {"operation", 18, 36, 0, false},
    [COLUMN_CALLS] = {"calls", 6, 6, 4, true},
    [COLUMN_TIME] = {"ms a step", 9, 9, 0, true},
    [COLUMN_SHARE] = {"share", 6, 6, 1, true},
    [COLUMN_BAR] = {"", 6, 60, 5, false},
    [COLUMN_BYTES] = {"GB/s", 7, 7, 3, true},
    [COLUMN_FLOPS] = {"GFLOP/s", 9, 9, 2, true},
};

size_t profile_panel_page(struct rect area)
{
    return area.h > HEAD_ROWS ? (size_t)(area.h - HEAD_ROWS) : 1;
}

/* Unknown rates, and those of operations that move or compute nothing, have an empty cell. Decimal points
 * line up. */
static const char *rate_text(double rate, char *buf, size_t size)
{
    buf[0] = '\0';
    if (isfinite(rate) && rate > 0) snprintf(buf, size, "%.2f", rate);
    return buf;
}

static enum style phase_style(const struct profile_line *line)
{
    switch (line->of.phase[0]) {
    case 'f': /* forward */
        return STYLE_TRAIN;
    case 'b': /* backward */
        return STYLE_VAL;
    case 'r': /* recompute */
        return STYLE_LR;
    case 'o': /* optimizer */
        return STYLE_SPEED;
    default:
        return STYLE_DIM;
    }
}

static void draw_name(struct grid *grid, int x, int y, int w, const struct profile_line *line)
{
    char layer[32];
    const char *name = line->of.op;
    int indent = 2 * line->depth;
    if (line->level == PROFILE_PHASE) name = line->of.phase;
    if (line->level == PROFILE_LAYER) {
        snprintf(layer, sizeof layer, "layer %d", line->of.layer);
        name = layer;
    }
    if (line->folds) grid_put(grid, x + indent, y, line->open ? 0x25BC : 0x25B6, phase_style(line), 0);
    grid_text(grid, x + indent + 2, y, w - indent - 2, STYLE_TEXT, line->depth ? 0 : ATTR_BOLD, name);
}

static void draw_line(struct grid *grid, struct rect row, const int *widths, const struct profile_line *line,
                      double step_us)
{
    char text[COLUMNS][32] = {{0}};
    int x = row.x + 1;
    double share = step_us > 0 && isfinite(line->of.time_us) ? line->of.time_us / step_us : NAN;
    if (line->of.calls == floor(line->of.calls) && line->of.calls < 1e6)
        snprintf(text[COLUMN_CALLS], sizeof text[0], "%.0f", line->of.calls);
    else
        axis_format(line->of.calls, text[COLUMN_CALLS], sizeof text[0]);
    if (isfinite(line->of.time_us))
        snprintf(text[COLUMN_TIME], sizeof text[0], "%.3f", line->of.time_us / 1e3);
    if (!isnan(share)) snprintf(text[COLUMN_SHARE], sizeof text[0], "%.1f%%", share * 100);
    rate_text(profile_gigabytes_per_second(&line->of), text[COLUMN_BYTES], sizeof text[0]);
    rate_text(profile_gigaflops_per_second(&line->of), text[COLUMN_FLOPS], sizeof text[0]);
    for (int i = 0; i < COLUMNS; i++) {
        if (!widths[i]) continue;
        if (i == COLUMN_NAME)
            draw_name(grid, x, row.y, widths[i], line);
        else if (i == COLUMN_BAR)
            gauge_draw(grid, x, row.y, widths[i], phase_style(line), share);
        else
            grid_text_right(grid, x, row.y, widths[i], STYLE_TEXT, 0, text[i]);
        x += widths[i] + GAP;
    }
}

void profile_panel_draw(struct grid *grid, struct rect area, const struct profile_panel *panel)
{
    const struct profile *profile = panel->profile;
    const struct profile_tree *tree = panel->tree;
    char detail[120] = "", time[32];
    int widths[COLUMNS];
    if (area.w < 20 || area.h < HEAD_ROWS + 1) return;
    if (profile->count)
        snprintf(detail, sizeof detail,
                 "%s ms a step, the mean of %" PRId64 " profiled, the newest @%" PRId64,
                 axis_format(profile->step_us / 1e3, time, sizeof time), profile->steps, profile->last_step);
    grid_title(grid, &area, "profile", detail);
    if (!profile->count) {
        grid_line(grid, &area, STYLE_DIM, 0, "no step of this run was profiled yet");
        return;
    }
    table_fit(columns, COLUMNS, area.w - 2, GAP, widths);
    table_draw_titles(grid, area.x + 1, area.y, columns, COLUMNS, GAP, widths, 0);
    rect_skip(&area, 1);
    size_t end = panel->scroll + (size_t)area.h < tree->count ? panel->scroll + (size_t)area.h : tree->count;
    for (size_t at = panel->scroll; at < end; at++) {
        struct rect row = {area.x, area.y + (int)(at - panel->scroll), area.w, 1};
        draw_line(grid, row, widths, &tree->lines[at], profile->step_us);
        if (at == panel->selected) grid_mark(grid, row, ATTR_REVERSE);
    }
    grid_scroll_marks(grid, area, panel->scroll > 0, end < tree->count);
}
