/* A stacked bar in one row: parts of a whole one after another, on a scale that several bars share. A part is
 * told by its glyph and, where it is three cells wide, by its letter in it, so that colour is not needed;
 * where the terminal has only ASCII the letter is the glyph. */
#ifndef ANNEAL_TUI_STACK_H
#define ANNEAL_TUI_STACK_H

#include "tui/widget/grid.h"

struct stack_part {
    double amount;  /* what is not positive has no cells */
    uint32_t glyph; /* fills its cells */
    char letter;
    enum style style;
};

/* `scale` is what the whole width stands for. The ends of the parts lie where the sum so far lies, to the
 * nearest cell: together the parts are exact, each of them to a cell. A bar of any amount has a cell. What
 * lies beyond the scale is cut, marked by an arrow. The rest of the width is left as it is. Returns the
 * columns used. */
int stack_draw(struct grid *grid, int x, int y, int width, const struct stack_part *parts, int count,
               double scale);

/* What stands for a part in a legend, two cells: its glyph, and its letter where that is another. */
void stack_key(struct grid *grid, int x, int y, const struct stack_part *part);

#endif
