/* The keys on the screen: hints in the last row and the help over a view, both made from tui/keymap.def. */
#ifndef ANNEAL_TUI_HELP_H
#define ANNEAL_TUI_HELP_H

#include "tui/view/keys.h"
#include "tui/widget/grid.h"

/* As many hints of the context as fit; "? help" and the way back always come at the right end. */
void help_draw_hints(struct grid *grid, struct rect row, enum key_context context);

/* A box over the middle with the keys of the context and those of everywhere; *scroll is cut to what there
 * is. */
void help_draw(struct grid *grid, enum key_context context, int *scroll);

#endif
