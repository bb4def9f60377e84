/* See gauge.h. */
#include "tui/widget/gauge.h"

#include <math.h>

void gauge_draw(struct grid *grid, int x, int y, int width, enum style style, double fraction)
{
    static const uint32_t eighths[8] = {' ', 0x258F, 0x258E, 0x258D, 0x258C, 0x258B, 0x258A, 0x2589};
    if (width <= 0) return;
    if (isnan(fraction)) fraction = 0;
    fraction = fmin(fmax(fraction, 0), 1);
    int parts = grid->level == GLYPHS_BRAILLE ? 8 : grid->level == GLYPHS_BLOCK ? 2 : 1;
    int filled = (int)floor(fraction * width * parts);
    if (filled == 0 && fraction > 0) filled = 1;
    if (filled == width * parts && fraction < 1) filled--;
    for (int c = 0; c < width; c++) {
        int part = filled - c * parts;
        if (part >= parts)
            grid_put(grid, x + c, y, 0x2588, style, ATTR_NONE);
        else if (part > 0)
            grid_put(grid, x + c, y, eighths[part * 8 / parts], style, ATTR_NONE);
        else
            grid_put(grid, x + c, y, grid->level == GLYPHS_ASCII ? '.' : 0x2591, STYLE_RULE, ATTR_NONE);
    }
}
