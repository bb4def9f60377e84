/* See profile_panel.h. */
#include "tui/view/profile_panel.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "tui/widget/axis.h"
#include "tui/widget/bars.h"
#include "tui/widget/table.h"

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

/* What is unknown, and what an operation does nothing of, has an empty cell. The points stand below each
 * other. */
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
    struct rect whole = area;
    if (area.w < 20 || area.h < HEAD_ROWS + 1) return;
    if (profile->count)
        snprintf(detail, sizeof detail,
                 "%s ms a step, the mean of %" PRId64 " profiled, the newest @%" PRId64,
                 axis_format(profile->step_us / 1e3, time, sizeof time), profile->steps, profile->last_step);
    grid_title(grid, &area, "profile", detail);
    if (!profile->count) {
        grid_text(grid, area.x + 1, area.y, area.w - 2, STYLE_DIM, 0, "no step of this run was profiled yet");
        return;
    }
    table_fit(columns, COLUMNS, area.w - 2, GAP, widths);
    table_draw_titles(grid, area.x + 1, area.y, columns, COLUMNS, GAP, widths, 0);
    for (int y = 1; y < area.h && panel->scroll + (size_t)y - 1 < tree->count; y++) {
        size_t at = panel->scroll + (size_t)y - 1;
        struct rect row = {area.x, area.y + y, area.w, 1};
        draw_line(grid, row, widths, &tree->lines[at], profile->step_us);
        if (at == panel->selected) grid_mark(grid, row, ATTR_REVERSE);
    }
    int edge = area.x + area.w - 1;
    if (panel->scroll > 0) grid_put(grid, edge, area.y + 1, 0x25B2, STYLE_ACCENT, ATTR_BOLD);
    if (panel->scroll + profile_panel_page(whole) < tree->count)
        grid_put(grid, edge, area.y + area.h - 1, 0x25BC, STYLE_ACCENT, ATTR_BOLD);
}
