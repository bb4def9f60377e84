/* A grid of character cells, into which every widget and view draws. The screen copies it to the terminal;
 * tests read it as text. No curses here, so all drawing is plain functions from data to cells.
 *
 * Always: writing outside the grid is clipped, never an error; a double-width character occupies its cell and
 * a continuation cell after it; no cell holds a control character or one the terminal cannot show. */
#ifndef ANNEAL_TUI_GRID_H
#define ANNEAL_TUI_GRID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

/* --- characters, and substitutes for those that a terminal cannot show --- */

enum glyph_level {
    GLYPHS_ASCII,   /* not UTF-8 */
    GLYPHS_BLOCK,   /* UTF-8 with the font of a PC console: lines, half blocks, no braille */
    GLYPHS_BRAILLE, /* everything */
};

/* `codeset` as nl_langinfo(CODESET) gives it, `term` as in $TERM (NULL: unknown). */
enum glyph_level glyph_level_detect(const char *codeset, const char *term);

/* The next code point of UTF-8 text, advancing *text; 0 at the end. Each invalid byte gives U+FFFD. */
uint32_t glyph_next(const char **text);

/* Columns on the terminal: 0 (combining, or not shown), 1 or 2. */
int glyph_width(uint32_t code_point);

/* Columns of a whole text. */
int glyph_text_width(const char *text);

/* Appends the UTF-8 form of a code point; returns the bytes written (0 if it does not fit with a NUL). */
size_t glyph_encode(uint32_t code_point, char *buf, size_t size);

/* --- cells --- */

/* The meaning of a cell; the screen chooses its colour. Style alone never carries meaning. */
enum style {
    STYLE_TEXT,
    STYLE_DIM,    /* labels, units, missing values */
    STYLE_RULE,   /* axes, lines, empty parts of gauges */
    STYLE_ACCENT, /* keys, the item in focus */
    STYLE_GOOD,
    STYLE_WARN,
    STYLE_BAD,
    STYLE_TRAIN, /* one per series of the charts */
    STYLE_VAL,
    STYLE_BEST,
    STYLE_LR,
    STYLE_GRAD,
    STYLE_SPEED,
    STYLE_CURVE, /* of several runs in one chart: the first of STYLE_CURVES styles in a row */
    STYLE_CURVES = 10,
    STYLE_COUNT = STYLE_CURVE + STYLE_CURVES
};

enum { ATTR_NONE = 0, ATTR_BOLD = 1, ATTR_REVERSE = 2, ATTR_UNDERLINE = 4, ATTR_COUNT = 8 };

enum { GRID_CONTINUATION = 0 }; /* the glyph of the right half of a double-width character */

struct cell {
    uint32_t glyph; /* Unicode code point */
    uint8_t style;  /* enum style */
    uint8_t attr;   /* ATTR_ bits */
};

struct rect {
    int x, y, w, h; /* cells; empty when w or h is not positive */
};

/* Removes rows from the top. */
void rect_skip(struct rect *area, int rows);

struct grid {
    int w, h;
    struct cell *cells; /* row-major, w × h */
    size_t capacity;
    enum glyph_level level;
    void *scratch; /* see grid_scratch */
    size_t scratch_bytes;
};

/* Zero `grid` before its first use. Resizing blanks it; the only error is STATUS_NO_MEMORY. */
enum status grid_resize(struct grid *grid, int w, int h, struct err *err);
void grid_release(struct grid *grid);

/* Zeroed memory for a widget while it draws, valid until the next call; NULL: none is left. It is kept, so
 * that drawing the same picture again allocates nothing. */
void *grid_scratch(struct grid *grid, size_t bytes);

void grid_clear(struct grid *grid);
void grid_fill(struct grid *grid, struct rect area, uint32_t glyph, enum style style);

/* Adds attribute bits to existing cells, for the bar of a selected row. */
void grid_mark(struct grid *grid, struct rect area, int attr);

/* Writes one narrow glyph, or its substitute at the grid's level. */
void grid_put(struct grid *grid, int x, int y, uint32_t glyph, enum style style, int attr);

/* Writes UTF-8 text in at most `width` columns; longer text ends in an ellipsis. Returns the columns used. */
int grid_text(struct grid *grid, int x, int y, int width, enum style style, int attr, const char *text);
int grid_text_right(struct grid *grid, int x, int y, int width, enum style style, int attr, const char *text);
/* Longer text loses its middle: names of runs often differ only at their ends. */
int grid_name(struct grid *grid, int x, int y, int width, enum style style, int attr, const char *text);

/* Writes text in the first row of `area`, which may be empty; removes that row. */
void grid_line(struct grid *grid, struct rect *area, enum style style, int attr, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* A row written from left to right: the next text begins at x, none reaches `end`. */
struct pen {
    struct grid *grid;
    int x, y, end;
};

/* Writes as much as fits. */
void pen_print(struct pen *pen, enum style style, int attr, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The same, then leaves two columns. */
void pen_word(struct pen *pen, enum style style, int attr, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Writes "label value" with a dimmed label, then leaves three columns; nothing unless all of it fits. */
void pen_fact(struct pen *pen, const char *label, enum style style, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Writes at the row's end. */
void pen_print_right(struct pen *pen, enum style style, int attr, const char *text);

/* --- text in a rectangle: words are wrapped, newlines kept, words longer than a line are cut --- */

/* Draws `text` and returns the rows used, at most area.h; text that does not fit ends in an ellipsis. */
int wrap_draw(struct grid *grid, struct rect area, enum style style, const char *text);

/* The number of rows of the whole `text` in `width` columns. */
int wrap_rows(const char *text, int width);

/* The end of the line that begins at `text`, `width` columns wide; *next is the start of the following line
 * (the NUL after the last). Always advances on a non-empty text. */
const char *wrap_line(const char *text, int width, const char **next);

/* --- frames, titles, lines --- */

/* Draws a frame around `area` with an optional title on its upper edge; returns the area inside. */
struct rect grid_box(struct grid *grid, struct rect area, enum style style, const char *title);

/* Draws a title on a rule, then `detail` (NULL: nothing); removes that row from the area. */
void grid_title(struct grid *grid, struct rect *area, const char *title, const char *detail);

/* Draws arrows at the right edge of `area`: more lies above it, below it. */
void grid_scroll_marks(struct grid *grid, struct rect area, bool above, bool below);

/* Row y as UTF-8 with trailing spaces removed. Returns buf. For tests, dumps and the README's picture. */
char *grid_row(const struct grid *grid, int y, char *buf, size_t size);

#endif
