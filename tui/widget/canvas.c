/* See canvas.h. */
#include "tui/widget/canvas.h"

#include <stdlib.h>
#include <string.h>

enum status canvas_reset(struct canvas *canvas, int w, int h, enum glyph_level level, struct err *err)
{
    canvas->w = w > 0 ? w : 0;
    canvas->h = h > 0 ? h : 0;
    canvas->level = level;
    canvas->dot_w = level == GLYPHS_BRAILLE ? 2 : 1;
    canvas->dot_h = level == GLYPHS_BRAILLE ? 4 : level == GLYPHS_BLOCK ? 2 : 3;
    size_t columns = (size_t)canvas->w * (size_t)canvas->dot_w, cells = (size_t)canvas->w * (size_t)canvas->h;
    size_t bytes = columns * sizeof *canvas->columns + cells * sizeof *canvas->cells;
    if (bytes > canvas->capacity) {
        void *grown = realloc(canvas->columns, bytes);
        if (!grown) return err_set(err, STATUS_NO_MEMORY, "no memory for a chart of %d x %d cells", w, h);
        canvas->columns = grown;
        canvas->capacity = bytes;
    }
    canvas->cells = (struct canvas_cell *)(canvas->columns + columns);
    if (cells) memset(canvas->cells, 0, cells * sizeof *canvas->cells);
    return STATUS_OK;
}

void canvas_release(struct canvas *canvas)
{
    free(canvas->columns);
    *canvas = (struct canvas){0};
}

void canvas_dot(struct canvas *canvas, int x, int y, enum style style)
{
    if (x < 0 || y < 0 || x >= canvas->w * canvas->dot_w || y >= canvas->h * canvas->dot_h) return;
    size_t cell = (size_t)(y / canvas->dot_h) * (size_t)canvas->w + (size_t)(x / canvas->dot_w);
    canvas->cells[cell].bits |= (uint8_t)(1u << (y % canvas->dot_h * canvas->dot_w + x % canvas->dot_w));
    canvas->cells[cell].style = (uint8_t)style;
}

void canvas_line(struct canvas *canvas, int x0, int y0, int x1, int y1, enum style style, int every)
{
    /* Bresenham; the ends are dots of the canvas or one column outside, so the walk is short */
    int dx = abs(x1 - x0), dy = -abs(y1 - y0), sx = x0 < x1 ? 1 : -1, sy = y0 < y1 ? 1 : -1, error = dx + dy;
    for (int n = 0;; n++) {
        if (n % every == 0) canvas_dot(canvas, x0, y0, style);
        if (x0 == x1 && y0 == y1) return;
        int twice = 2 * error;
        if (twice >= dy) {
            error += dy;
            x0 += sx;
        }
        if (twice <= dx) {
            error += dx;
            y0 += sy;
        }
    }
}

static uint32_t glyph_of(enum glyph_level level, uint8_t bits)
{
    /* our bit (row, column) to the bit Unicode gives that dot */
    static const uint8_t braille[8] = {0x01, 0x08, 0x02, 0x10, 0x04, 0x20, 0x40, 0x80};
    static const uint32_t block[4] = {' ', 0x2580, 0x2584, 0x2588};
    static const char ascii[8] = {' ', '\'', '-', '\'', '.', ':', '.', '|'};
    if (level == GLYPHS_BLOCK) return block[bits & 3];
    if (level == GLYPHS_ASCII) return (unsigned char)ascii[bits & 7];
    uint32_t glyph = 0x2800;
    for (int i = 0; i < 8; i++)
        if (bits & 1u << i) glyph |= braille[i];
    return glyph;
}

void canvas_blit(const struct canvas *canvas, struct grid *grid, int x, int y)
{
    const struct canvas_cell *cell = canvas->cells;
    for (int row = 0; row < canvas->h; row++)
        for (int column = 0; column < canvas->w; column++, cell++)
            if (cell->bits)
                grid_put(grid, x + column, y + row, glyph_of(canvas->level, cell->bits),
                         (enum style)cell->style, ATTR_NONE);
}
