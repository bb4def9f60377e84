/* See stack.h. */
#include "tui/widget/stack.h"

#include <math.h>

static uint32_t glyph_of(const struct grid *grid, const struct stack_part *part)
{
    return grid->level == GLYPHS_ASCII ? (unsigned char)part->letter : part->glyph;
}

int stack_draw(struct grid *grid, int x, int y, int width, const struct stack_part *parts, int count,
               double scale)
{
    double sum = 0;
    int at = 0;
    if (width <= 0 || !(scale > 0)) return 0;
    for (int i = 0; i < count; i++) {
        if (!(parts[i].amount > 0)) continue;
        sum += parts[i].amount;
        int end = (int)fmin(round(sum / scale * width), width);
        if (end == 0) end = 1;
        for (int c = at; c < end; c++)
            grid_put(grid, x + c, y, glyph_of(grid, &parts[i]), parts[i].style, ATTR_NONE);
        if (end - at >= 3)
            grid_put(grid, x + at + (end - at) / 2, y, (unsigned char)parts[i].letter, parts[i].style,
                     ATTR_REVERSE | ATTR_BOLD);
        if (end > at) at = end;
    }
    /* half a cell more than the width would round to it */
    if (sum > scale * (1 + 0.5 / width)) grid_put(grid, x + width - 1, y, 0x25B6, STYLE_WARN, ATTR_BOLD);
    return at;
}

void stack_key(struct grid *grid, int x, int y, const struct stack_part *part)
{
    grid_put(grid, x, y, glyph_of(grid, part), part->style, ATTR_NONE);
    if (grid->level == GLYPHS_ASCII) return;
    grid_put(grid, x + 1, y, (unsigned char)part->letter, part->style, ATTR_REVERSE | ATTR_BOLD);
}
