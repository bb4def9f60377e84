/* A canvas of dots finer than cells: braille gives 2 × 4 dots a cell, half blocks 1 × 2, ASCII 1 × 3. Lines
 * are drawn in dots and turned into glyphs at the end. A cell has one style, that of the dot drawn last.
 *
 * The canvas also owns the scratch of the charts (one record a dot column), so that drawing does not allocate
 * once the largest size has been seen. */
#ifndef ANNEAL_TUI_CANVAS_H
#define ANNEAL_TUI_CANVAS_H

#include "tui/widget/grid.h"

/* The values of a series that fall into one dot column: extremes, and where the line enters and leaves. */
struct canvas_column {
    double lo, hi, first, last;
    int count;      /* points with a value */
    int non_finite; /* values that were NaN or infinite */
};

struct canvas_cell {
    uint8_t bits; /* bit (row * dot_w + column) for each dot */
    uint8_t style;
};

struct canvas {
    int w, h;         /* cells */
    int dot_w, dot_h; /* dots a cell */
    enum glyph_level level;
    struct canvas_column *columns; /* w × dot_w; one block of memory with the cells */
    struct canvas_cell *cells;     /* w × h */
    size_t capacity;               /* bytes */
};

/* Blank, of this size in cells. Zero `canvas` before its first use. The only error is STATUS_NO_MEMORY. */
enum status canvas_reset(struct canvas *canvas, int w, int h, enum glyph_level level, struct err *err);
void canvas_release(struct canvas *canvas);

/* Dots count from the upper left; outside is clipped. A line of which only one dot in `every` is set is
 * dotted. */
void canvas_dot(struct canvas *canvas, int x, int y, enum style style);
void canvas_line(struct canvas *canvas, int x0, int y0, int x1, int y1, enum style style, int every);

/* Copies the cells with dots to the grid; cells without any are left as they are. */
void canvas_blit(const struct canvas *canvas, struct grid *grid, int x, int y);

#endif
