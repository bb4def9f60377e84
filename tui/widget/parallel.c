/* See parallel.h. The lines are drawn in dots, as those of charts are; names of values cover them. */
#include "tui/widget/parallel.h"

#include <math.h>

#include "tui/widget/raster.h"

int parallel_fit(int width)
{
    int most = width / PARALLEL_AXIS_MIN_W;
    return most < PARALLEL_AXES_MAX ? most : PARALLEL_AXES_MAX;
}

/* The column of an axis. The names of the last one's values lie to its right, too. */
static int column_of(const struct rect *area, int axis, int count)
{
    return area->x + axis * (area->w / count);
}

static int row_of(const struct rect *plot, double at)
{
    return plot->y + (int)lround((1 - fmin(fmax(at, 0), 1)) * (plot->h - 1));
}

static void draw_line(const struct raster *raster, const struct parallel_line *line, int axes)
{
    for (int k = 0; k + 1 < axes; k++) {
        if (!isfinite(line->at[k]) || !isfinite(line->at[k + 1])) continue;
        raster_line(raster, (column_of(&raster->area, k, axes) - raster->area.x) * raster->dot_w,
                    raster_row(raster, line->at[k]),
                    (column_of(&raster->area, k + 1, axes) - raster->area.x) * raster->dot_w,
                    raster_row(raster, line->at[k + 1]), line->style, 1);
    }
}

/* The names of an axis's values, each in a row of its own; the ends come first. */
static void draw_labels(struct grid *grid, const struct rect *plot, const struct parallel_axis *axis, int x,
                        int width)
{
    bool taken[1000] = {false};
    size_t count = axis->label_count;
    for (size_t i = 0; i < count; i++) {
        /* the lowest, the highest, then those between */
        size_t at = i == 0 ? 0 : i == 1 ? count - 1 : i - 1;
        int y = row_of(plot, axis->labels[at].at), row = y - plot->y;
        if (row < 0 || row >= 1000 || taken[row]) continue;
        taken[row] = true;
        grid_put(grid, x, y, 0x253C, STYLE_RULE, ATTR_NONE);
        grid_text(grid, x + 1, y, width - 2, STYLE_TEXT, ATTR_NONE, axis->labels[at].text);
    }
}

void parallel_draw(struct grid *grid, struct rect area, const struct parallel *parallel)
{
    int axes = parallel->axis_count, width = axes > 0 ? area.w / axes : 0;
    if (axes < 1 || axes > PARALLEL_AXES_MAX || width < 4 || area.h < PARALLEL_MIN_H) return;
    struct rect plot = {area.x, area.y + 1, area.w, area.h - 1};
    struct raster raster;
    if (!raster_init(&raster, grid, plot)) return;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < parallel->line_count; i++)
            if (parallel->lines[i].marked == (pass == 1)) draw_line(&raster, &parallel->lines[i], axes);
    for (int k = 0; k < axes; k++)
        for (int y = plot.y; y < plot.y + plot.h; y++)
            grid_put(grid, column_of(&area, k, axes), y, 0x2502, STYLE_RULE, ATTR_NONE);
    raster_show(&raster);
    for (int k = 0; k < axes; k++) {
        int x = column_of(&area, k, axes);
        grid_text(grid, x, area.y, width - 1, STYLE_DIM, ATTR_NONE, parallel->axes[k].name);
        draw_labels(grid, &plot, &parallel->axes[k], x, width);
    }
    for (size_t i = 0; i < parallel->line_count; i++)
        for (int k = 0; k < axes && parallel->lines[i].marked; k++)
            if (isfinite(parallel->lines[i].at[k]))
                grid_put(grid, column_of(&area, k, axes), row_of(&plot, parallel->lines[i].at[k]), 0x25CF,
                         parallel->lines[i].style, ATTR_BOLD);
}
