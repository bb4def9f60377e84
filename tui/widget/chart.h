/* Line charts: series over steps, drawn into cells. Every column keeps the minimum and the maximum of what
 * falls into it, so a spike of one step shows at any width; a value that is NaN or infinite is marked, never
 * hidden.
 *
 * Rows from above: a title with the current values (or those under the cursor), the plot, the steps. The
 * margin for the numbers at the left is constant, so that charts above each other line up. */
#ifndef ANNEAL_TUI_CHART_H
#define ANNEAL_TUI_CHART_H

#include <stdbool.h>
#include <stdint.h>

#include "runs/series.h"
#include "tui/widget/grid.h"

enum { CHART_TRACES_MAX = 3, CHART_MARGIN = 7, CHART_MIN_W = 18, CHART_MIN_H = 4 };

struct chart_trace {
    const char *name;                  /* in the legend; NULL: no name (the only series) */
    const struct series_point *points; /* count of them, in step order; borrowed */
    size_t count;
    const double *smooth; /* count values: drawn as the line, the points dimmed behind it; NULL: none */
    enum style style;
    bool marks; /* few points, each worth a mark */
    bool trend; /* only the means, as a dotted line: a run to compare with, recognized without colour */
};

/* An order that took effect: a small triangle on the axis; or a warning or error: an exclamation mark at the
 * plot's upper edge. */
struct chart_mark {
    int64_t step;
    bool event;
};

struct chart {
    const char *title; /* "loss" */
    const char *unit;  /* "nats"; NULL: none */
    struct chart_trace trace[CHART_TRACES_MAX];
    int trace_count;
    int64_t first_step, last_step; /* what is visible */
    bool log;                      /* logarithmic values, where they allow it */
    bool zero;                     /* the values' axis begins at 0 (when not logarithmic) */
    double least_span; /* the values' axis spans at least this fraction of the largest: noise stays small; 0:
                          any */
    bool focused;
    bool ended;        /* no value is to come: said where there is none */
    double decay;      /* of the smoothing, said in the title; 0: none */
    int64_t cursor;    /* step under the cursor; -1: none */
    int64_t best_step; /* marked with a star at `best`; -1: none */
    double best;
    const struct chart_mark *marks; /* borrowed */
    size_t mark_count;
    bool events; /* their marks are drawn, too */
};

/* Draws into `area`, all of which it owns; only the title where it is too small, or memory is out. */
void chart_draw(struct grid *grid, struct rect area, const struct chart *chart);

/* The cells between the axes. */
struct rect chart_plot(struct rect area);

#endif
