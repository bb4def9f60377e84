/* Line charts: series over steps, drawn into cells. Every column keeps the minimum and maximum of its values,
 * so a spike of one step shows at any width; a NaN or infinite value is marked, never hidden.
 *
 * Rows from the top: a title with the newest values (or those at the cursor; of a smoothed trace the average,
 * then the value itself in brackets), the plot, the steps. The left margin for the numbers is constant, so
 * that charts above each other line up. */
#ifndef ANNEAL_TUI_CHART_H
#define ANNEAL_TUI_CHART_H

#include <stdbool.h>
#include <stdint.h>

#include "runs/series.h"
#include "tui/widget/grid.h"

enum { CHART_TRACES_MAX = 10, CHART_MARGIN = 7, CHART_MIN_W = 18, CHART_MIN_H = 4 };

struct chart_trace {
    const char *name;                  /* in the legend; NULL: no name (the only series) */
    const struct series_point *points; /* count of them, in step order; borrowed */
    size_t count;
    const double *smooth; /* count values: drawn as the line, the points dimmed behind it; NULL: none */
    enum style style;
    bool marks;        /* mark each point: there are few */
    int64_t fork_step; /* the points before it are those of other runs, and dimmed; 0: none */
    char marker;       /* a digit that is drawn along the line: distinct without colour; 0: none */
    bool band;         /* of several runs: the range of each point is shaded, the line is the mean */
    const struct series_value *at; /* for the title, as it was recorded at the cursor or as the newest;
                                      borrowed; NULL: that of the point there */
};

/* A small triangle on the axis for an order that took effect, or an exclamation mark at the plot's upper edge
 * for a warning or error. */
struct chart_mark {
    int64_t step;
    bool event;
};

struct chart {
    const char *title; /* "loss" */
    const char *unit;  /* "nats"; NULL: none */
    struct chart_trace trace[CHART_TRACES_MAX];
    int trace_count;
    bool bare;                     /* the title has no values: they are listed elsewhere */
    int64_t first_step, last_step; /* the visible range */
    double x_scale; /* where points lie at other numbers than steps, such as milliseconds: how many of them
                       are one on the axis; 0: steps */
    const char *counted; /* such numbers in the name of a column: "wall_time_ms"; NULL: "step" */
    bool log_steps;      /* logarithmic steps; step 0 lies at step 1 */
    double scale;        /* shows the values times `scale`, and `best`; 0: as they are */
    bool exponential;    /* shows exp of the values, and of `best` */
    bool log;            /* logarithmic values, where possible */
    bool outliers;       /* a linear axis of the values covers rare outliers, too; else its end marks them */
    bool runs; /* the traces are of different runs: one far above the others, as a diverged run, counts as
                  outliers */
    bool zero; /* the values' axis begins at 0 (when not logarithmic) */
    double least_span; /* the values' axis spans at least this fraction of the largest: noise stays small; 0:
                          any */
    bool focused;
    bool ended;        /* no values will follow: an empty chart reports it */
    double decay;      /* of the smoothing, shown in the title; 0: none */
    int64_t cursor;    /* step under the cursor; -1: none */
    int64_t best_step; /* marked with a star at `best`; -1: none */
    double best;
    const struct chart_mark *marks; /* borrowed */
    size_t mark_count;
    bool events; /* draw the marks of events, too */
};

/* Draws into `area`, all of which it owns; only the title if the area is too small or memory runs out. */
void chart_draw(struct grid *grid, struct rect area, const struct chart *chart);

/* The value that the chart shows for one of a series. A mean then is a geometric one. */
double chart_shown(const struct chart *chart, double value);

/* The visible points of a trace: from *begin up to, but without, the returned index. */
size_t chart_visible(const struct chart *chart, const struct chart_trace *trace, size_t *begin);

/* The step at which a point is drawn. */
double chart_middle(const struct series_point *point);

/* The cells between the axes. */
struct rect chart_plot(struct rect area);

/* The step at column x of a plot that shows first_step to last_step. */
int64_t chart_step_at(struct rect plot, int64_t first_step, int64_t last_step, bool log_steps, int x);

#endif
