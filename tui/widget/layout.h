/* The layout of a screen of a given size: plain arithmetic, tested at every size. */
#ifndef ANNEAL_TUI_LAYOUT_H
#define ANNEAL_TUI_LAYOUT_H

#include <stdbool.h>

#include "tui/widget/grid.h"

enum { LAYOUT_MIN_W = 40, LAYOUT_MIN_H = 10, LAYOUT_CHARTS = 48 };

/* Below LAYOUT_MIN_W × LAYOUT_MIN_H a view shows only that the terminal is too small. */
bool layout_too_small(int w, int h);

/* --- the view of a run: rectangles that do not overlap; without room, w or h is 0 --- */

struct run_layout {
    struct rect header;               /* name, progress, numbers */
    struct rect chart[LAYOUT_CHARTS]; /* from left to right, then down */
    int chart_count;
    struct rect sample; /* the newest text, or the classes of a classifier; above it the ranks */
    struct rect events;
    struct rect side; /* details; only on wide screens */
};

/* `charts`: as many would be good, at least 1; 1: one takes all the room. `rows`: as many would be good below
 * the charts, if two charts and two thirds of the screen are left; 0: as suits a text. */
void layout_run(int w, int h, int charts, int rows, struct run_layout *out);

/* --- tables --- */

struct table_column {
    const char *title;
    int min, max; /* columns of text; spare ones are shared up to max */
    int rank;     /* 0 is never dropped; the highest is dropped first */
    bool right;   /* numbers: aligned to the right */
};

/* Sets widths[count] for a total of `width` with `gap` columns between; 0: column dropped. */
void table_fit(const struct table_column *columns, int count, int width, int gap, int *widths);

/* Draws the titles of the columns in row y from column x on. */
void table_draw_titles(struct grid *grid, int x, int y, const struct table_column *columns, int count,
                       int gap, const int *widths, int attr);

/* Moves *first, the first row shown, so that row `at` of `count` is on its page of `page` rows and no page
 * ends in blank rows that scrolling could fill. */
void table_scroll(size_t *first, size_t at, size_t count, size_t page);

#endif
