/* Curves in dots finer than cells: braille has 2 × 4 dots in a cell, half blocks 1 × 2, ASCII 1 × 3. Lines
 * are drawn in dots and become glyphs at the end. */
#ifndef ANNEAL_TUI_RASTER_H
#define ANNEAL_TUI_RASTER_H

#include "tui/widget/grid.h"

struct raster {
    struct grid *grid;
    struct rect area;  /* cells */
    int dot_w, dot_h;  /* dots in a cell */
    int columns, rows; /* of dots */
    struct dots {
        uint8_t bits;  /* bit (row * dot_w + column) for each dot of a cell */
        uint8_t style; /* of the dot drawn last */
    } * dots;          /* one for each cell, in the grid's scratch memory */
};

/* Begins without a dot; false: memory is short. */
bool raster_init(struct raster *raster, struct grid *grid, struct rect area);
void raster_clear(const struct raster *raster);

/* The row of dots at a height: 0 at the bottom, 1 at the top, others at the nearer end; NaN: the bottom. */
int raster_row(const struct raster *raster, double height);

/* Draws a line between two dots, counted from the upper left; if dotted, one in `every` is set. Clips it, but
 * walks all of it. */
void raster_line(const struct raster *raster, int x0, int y0, int x1, int y1, enum style style, int every);

/* Writes cells with dots to the grid; leaves the others as they are. */
void raster_show(const struct raster *raster);

#endif
