/* Private to the charts: one call of chart_draw, and where its points lie. */
#ifndef ANNEAL_TUI_CHART_DRAWING_H
#define ANNEAL_TUI_CHART_DRAWING_H

#include "tui/widget/axis.h"
#include "tui/widget/chart.h"
#include "tui/widget/raster.h"

/* One call of chart_draw. */
struct drawing {
    struct grid *grid;
    const struct chart *chart;
    struct rect area, plot;
    struct axis x, y;
    int64_t above, below; /* points that lie beyond the ends of y */
    bool buckets;         /* some points stand for several values */
    bool widened;         /* y covers outliers that would otherwise lie beyond it */
    struct raster raster; /* of the plot */
};

/* How many points lie before `step`, with the one that holds it. */
size_t chart_points_until(const struct chart_trace *trace, int64_t step);

/* Sets the values' axis, with at most `ticks` labels, and counts what lies beyond it; false when no value is
 * visible. Only the scratch memory of the grid is used. */
bool chart_init_values(struct drawing *d, int ticks);
/* Says why no value is visible. */
const char *chart_lack(const struct drawing *d);
/* Sets the steps' axis. */
void chart_init_steps(struct drawing *d, int ticks);

/* Where a number of the steps' axis lies, a step, and a value: dots from the plot's upper left. */
int chart_dot_of(const struct drawing *d, double x);
int chart_dot_x(const struct drawing *d, double step);
int chart_dot_y(const struct drawing *d, double value);
/* The cells of the grid that hold these dots. */
int chart_cell_x(const struct drawing *d, double step);
int chart_cell_y(const struct drawing *d, double value);

/* --- chart_curves.c: what distinguishes the curves of several runs --- */

/* Draws the bands of the traces that have one, before the lines. */
void chart_draw_bands(const struct drawing *d);
/* Draws the markers that distinguish traces without colour, after the lines: a cell never holds two. */
void chart_draw_markers(const struct drawing *d);

#endif
