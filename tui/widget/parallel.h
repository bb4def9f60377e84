/* Parallel coordinates: an axis for each quantity, side by side, and a line for each run, which crosses every
 * axis at the run's value. Shows which values the good runs have in common. */
#ifndef ANNEAL_TUI_PARALLEL_H
#define ANNEAL_TUI_PARALLEL_H

#include "tui/widget/grid.h"

enum { PARALLEL_AXES_MAX = 12, PARALLEL_MIN_H = 5, PARALLEL_AXIS_MIN_W = 12 };

/* A value's name at its place on an axis: 0 at the bottom, 1 at the top. */
struct parallel_label {
    double at;
    const char *text;
};

struct parallel_axis {
    const char *name;
    const struct parallel_label *labels; /* the lowest first; those without room are left out */
    size_t label_count;
};

struct parallel_line {
    const double *at; /* its place on each axis; NaN: none, which interrupts the line */
    enum style style;
    bool marked; /* drawn last, with a mark on each axis */
};

struct parallel {
    const struct parallel_axis *axes;
    int axis_count;
    const struct parallel_line *lines;
    size_t line_count;
};

/* How many axes fit into a width; the caller leaves out the others. */
int parallel_fit(int width);

/* Draws into `area`, all of which it owns; nothing if it is too small or memory runs out. */
void parallel_draw(struct grid *grid, struct rect area, const struct parallel *parallel);

#endif
