/* See wrap.h. */
#include "tui/widget/wrap.h"

#include <string.h>

const char *wrap_line(const char *text, int width, const char **next)
{
    const char *at = text, *space = NULL;
    int used = 0;
    if (width < 2) width = 2; /* a double-width character must fit, or we would never advance */
    while (*at && *at != '\n') {
        const char *after = at;
        uint32_t c = glyph_next(&after);
        if (used + glyph_width(c) > width) {
            if (c == ' ') space = at;
            if (!space) {
                *next = at;
                return at;
            }
            *next = space + strspn(space, " ");
            return space;
        }
        if (c == ' ') space = at;
        used += glyph_width(c);
        at = after;
    }
    *next = *at == '\n' ? at + 1 : at;
    return at;
}

int wrap_rows(const char *text, int width)
{
    int rows = 0;
    while (*text) {
        (void)wrap_line(text, width, &text);
        rows++;
    }
    return rows;
}

int wrap_draw(struct grid *grid, struct rect area, enum style style, const char *text)
{
    int rows = 0;
    if (area.w <= 0) return 0;
    while (*text && rows < area.h) {
        const char *next, *end = wrap_line(text, area.w, &next);
        char line[2048];
        size_t n = (size_t)(end - text);
        if (n >= sizeof line) n = sizeof line - 1;
        memcpy(line, text, n);
        line[n] = '\0';
        int used = grid_text(grid, area.x, area.y + rows, area.w, style, ATTR_NONE, line);
        if (*next && rows == area.h - 1)
            grid_put(grid, area.x + (used < area.w ? used : area.w - 1), area.y + rows, 0x2026, style,
                     ATTR_NONE);
        text = next;
        rows++;
    }
    return rows;
}
