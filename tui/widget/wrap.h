/* Text in a rectangle: words are wrapped, newlines kept, words longer than a line are cut, control characters
 * become spaces. What does not fit ends in an ellipsis. */
#ifndef ANNEAL_TUI_WRAP_H
#define ANNEAL_TUI_WRAP_H

#include "tui/widget/grid.h"

/* Draws `text` (UTF-8) and returns the rows used, at most area.h. */
int wrap_draw(struct grid *grid, struct rect area, enum style style, const char *text);

/* The rows that all of `text` takes in `width` columns. */
int wrap_rows(const char *text, int width);

/* The end of the line that begins at `text`, `width` columns wide; *next is where the one after begins (at
 * the NUL when it is the last). Always advances on a non-empty text. */
const char *wrap_line(const char *text, int width, const char **next);

#endif
