/* The colours of styles on a dark and on a light background, in terminals with 256, 16 and 8 colours. Those
 * of 256 are fixed, so their contrast and their distinctness to colour-blind readers are tested; those of 16
 * and 8 are the terminal's own. */
#ifndef ANNEAL_TUI_PALETTE_H
#define ANNEAL_TUI_PALETTE_H

#include "tui/widget/grid.h"

enum background { BACKGROUND_DARK, BACKGROUND_LIGHT, BACKGROUND_COUNT };

/* The number of the foreground colour in a terminal with `colours` colours; -1: the terminal's own. */
short palette_colour(enum background background, int colours, enum style style);

#endif
