/* See raster.h. */
#include "tui/widget/raster.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool raster_init(struct raster *raster, struct grid *grid, struct rect area)
{
    bool braille = grid->level == GLYPHS_BRAILLE, block = grid->level == GLYPHS_BLOCK;
    *raster = (struct raster){grid, area, braille ? 2 : 1, braille ? 4 : block ? 2 : 3, 0, 0, NULL};
    raster->columns = area.w * raster->dot_w;
    raster->rows = area.h * raster->dot_h;
    raster->dots = grid_scratch(grid, (size_t)area.w * (size_t)area.h * sizeof *raster->dots);
    return raster->dots != NULL;
}

void raster_clear(const struct raster *raster)
{
    memset(raster->dots, 0, (size_t)raster->area.w * (size_t)raster->area.h * sizeof *raster->dots);
}

int raster_row(const struct raster *raster, double height)
{
    return (int)lround((1 - fmin(fmax(height, 0), 1)) * (raster->rows - 1)); /* fmax ignores NaN */
}

static void set_dot(const struct raster *raster, int x, int y, enum style style)
{
    if (x < 0 || y < 0 || x >= raster->columns || y >= raster->rows) return;
    struct dots *dots = &raster->dots[y / raster->dot_h * raster->area.w + x / raster->dot_w];
    dots->bits |= (uint8_t)(1u << (y % raster->dot_h * raster->dot_w + x % raster->dot_w));
    dots->style = (uint8_t)style;
}

void raster_line(const struct raster *raster, int x0, int y0, int x1, int y1, enum style style, int every)
{
    /* Bresenham; the ends are dots of the plot or one column outside, so the walk is short */
    int dx = abs(x1 - x0), dy = -abs(y1 - y0), sx = x0 < x1 ? 1 : -1, sy = y0 < y1 ? 1 : -1, error = dx + dy;
    for (int n = 0;; n++) {
        if (n % every == 0) set_dot(raster, x0, y0, style);
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
    /* from our bit (row, column) to the Unicode bit of that dot */
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

void raster_show(const struct raster *raster)
{
    const struct dots *dots = raster->dots;
    struct rect area = raster->area;
    for (int y = area.y; y < area.y + area.h; y++)
        for (int x = area.x; x < area.x + area.w; x++, dots++)
            if (dots->bits)
                grid_put(raster->grid, x, y, glyph_of(raster->grid->level, dots->bits),
                         (enum style)dots->style, ATTR_NONE);
}
