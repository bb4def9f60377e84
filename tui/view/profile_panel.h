/* The profile of a run as a table: a line a phase, layer or operation, with calls, time, share of the step as
 * a bar, and the rates it achieved. Pure drawing: nothing is read here. */
#ifndef ANNEAL_TUI_PROFILE_PANEL_H
#define ANNEAL_TUI_PROFILE_PANEL_H

#include "tui/view/profile_tree.h"
#include "tui/widget/grid.h"

struct profile_panel {
    const struct profile *profile;
    const struct profile_tree *tree;
    size_t selected; /* a line */
    size_t scroll;   /* the first line shown */
};

/* Lines that an area shows. */
size_t profile_panel_page(struct rect area);

/* Draws into `area`, all of which it owns. */
void profile_panel_draw(struct grid *grid, struct rect area, const struct profile_panel *panel);

#endif
