/* The part of its charts that a view shows, with a cursor in it: what the keys and the mouse do to charts is
 * the same in every view that has them. A place is a number of the charts' axis, such as a step. */
#ifndef ANNEAL_TUI_CHART_WINDOW_H
#define ANNEAL_TUI_CHART_WINDOW_H

#include "tui/view/workbench.h"
#include "tui/widget/chart.h"
#include "tui/widget/layout.h"

struct chart_window {
    int64_t oldest, newest; /* the places that there are; the view keeps them up to date */
    bool live;              /* the newest advances */
    bool log_steps;         /* the axis is logarithmic */
    bool outliers;          /* the charts are scaled to rare outliers, too */
    int64_t cursor;         /* place; -1: none, follow the newest */
    int64_t span;           /* places shown; 0: all */
    int64_t end;            /* last place shown when zoomed; -1: the newest */
    size_t focus;           /* the chart that keys act on, which a click changes */
    /* private */
    struct {
        struct rect area;
        size_t chart;
    } drawn[LAYOUT_CHARTS];
    int drawn_count;
    bool pointed;      /* the cursor is where the pointer is */
    bool dragging;     /* the button was pressed in a chart */
    int drag_x;        /* there */
    int64_t drag_last; /* and the last place shown then */
};

/* All places, no cursor, and how the user looked at charts last. */
void chart_window_init(struct chart_window *window, const struct settings *settings);
/* How the user looked at charts last, which another view may have changed: the scales of the axes. */
void chart_window_recall(struct chart_window *window, const struct settings *settings);

/* The range of places in the charts. */
void chart_window_range(const struct chart_window *window, int64_t *first, int64_t *last);

/* Sets range, cursor and axes of a chart. */
void chart_window_fill(const struct chart_window *window, struct chart *chart);

/* Forgets the charts that were drawn, before they are drawn anew; then adds each of them. */
void chart_window_clear(struct chart_window *window);
void chart_window_add(struct chart_window *window, struct rect area, size_t chart);

/* Moves the cursor to a place; while zoomed the window follows. */
void chart_window_place(struct chart_window *window, int64_t place);

/* Whether the action was one of charts, and done: moving the cursor, zooming, panning, the mouse, the scale
 * of the axes. The view reads its points for the new range if `span` or `end` has changed. */
bool chart_window_key(struct workbench *workbench, struct chart_window *window, enum action action);

#endif
