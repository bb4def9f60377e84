/* Where things go on a screen of a given size: plain arithmetic, tested at every size. All rectangles lie
 * inside the screen and do not overlap; one that has no room is empty (w or h 0). */
#ifndef ANNEAL_TUI_LAYOUT_H
#define ANNEAL_TUI_LAYOUT_H

#include <stdbool.h>

#include "tui/widget/grid.h"

enum { LAYOUT_MIN_W = 40, LAYOUT_MIN_H = 10, LAYOUT_CHARTS = 4 };

/* Below LAYOUT_MIN_W × LAYOUT_MIN_H a view shows only that the terminal is too small. */
bool layout_too_small(int w, int h);

struct run_layout {
    struct rect header;               /* name, progress, numbers */
    struct rect chart[LAYOUT_CHARTS]; /* slot 0 is the loss, unless one chart is enlarged into slot 0 */
    int chart_count;                  /* 1: the focused one; 2: loss and the focused one; 4: all */
    struct rect sample;               /* the newest text */
    struct rect events;
    struct rect side; /* details; only on wide screens */
    struct rect footer;
};

/* `enlarged`: one chart takes the room of all. */
void layout_run(int w, int h, bool enlarged, struct run_layout *out);

/* After it, when the texts are known: the events grow to `wanted` rows where the sample text, of
 * `sample_used` rows with its title, leaves some blank, and to `needed` at the cost of that text, then of the
 * charts: what is needed is what the user asked to read. */
void layout_run_events(struct run_layout *layout, bool enlarged, int sample_used, int wanted, int needed);

/* A rectangle of at most w × h centred in the screen. */
struct rect layout_centre(int screen_w, int screen_h, int w, int h);

#endif
