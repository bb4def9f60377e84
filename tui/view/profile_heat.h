/* The heat of a profile: a row for each of the slowest operations in layers, a column for each layer, and a
 * shade for the time. An operation that is slow in one layer stands out. */
#ifndef ANNEAL_TUI_VIEW_PROFILE_HEAT_H
#define ANNEAL_TUI_VIEW_PROFILE_HEAT_H

#include "runs/profile.h"
#include "tui/widget/grid.h"

/* Draws into the upper rows of `area`: a title, at most 8 operations and the numbers of the layers. Returns
 * how many rows these are; 0: none, if there is too little to compare, or no room left for a table below.
 * Where there are more layers than columns, a column is the mean of several. Operations outside of layers are
 * left out. */
int profile_heat_draw(struct grid *grid, struct rect area, const struct profile *profile);

/* The style of a phase, the same in all of the profile. */
enum style profile_phase_style(const char *phase);

#endif
