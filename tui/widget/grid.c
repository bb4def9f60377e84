/* See grid.h. */
#include "tui/widget/grid.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <utf8proc.h>
#include <wchar.h>

#include "core/base/text.h"

static const struct {
    uint32_t glyph;
    uint32_t block; /* one of the about 256 glyphs of a PC console font */
    char ascii;
} stand_ins[] = {
    {0x2500, 0x2500, '-'},  {0x2502, 0x2502, '|'}, {0x250A, 0x2502, ':'}, {0x250C, 0x250C, '+'},
    {0x2510, 0x2510, '+'},  {0x2514, 0x2514, '+'}, {0x2518, 0x2518, '+'}, {0x251C, 0x251C, '+'},
    {0x2524, 0x2524, '+'},  {0x252C, 0x252C, '+'}, {0x2534, 0x2534, '+'}, {0x253C, 0x253C, '+'},
    {0x2501, 0x2500, '-'},  {0x2026, '~', '~'},    {0x00B7, 0x00B7, '-'}, {0x2022, 0x2022, '*'},
    {0x25CF, 0x2022, '*'},  {0x25CB, 'o', 'o'},    {0x25C6, 0x2666, 'o'}, {0x2605, '*', '*'},
    {0x2713, 0x221A, '+'},  {0x2717, 'x', 'x'},    {0x25B6, 0x25BA, '>'}, {0x25B8, 0x25BA, '>'},
    {0x25A0, 0x25A0, '#'},  {0x2016, 0x2551, '='}, {0x00D7, 'x', 'x'},    {0x2191, 0x2191, '^'},
    {0x2193, 0x2193, 'v'},  {0x2190, 0x2190, '<'}, {0x2192, 0x2192, '>'}, {0x2588, 0x2588, '#'},
    {0x2580, 0x2580, '\''}, {0x2584, 0x2584, '.'}, {0x258C, 0x258C, '#'}, {0x2591, 0x2591, '.'},
    {0x2592, 0x2592, ':'},  {0x2014, 0x2500, '-'}, {0x2013, 0x2500, '-'}, {0x2018, '\'', '\''},
    {0x2019, '\'', '\''},   {0x201C, '"', '"'},    {0x201D, '"', '"'},    {0x25B2, 0x25B2, '^'},
    {0x25BC, 0x25BC, 'v'},  {0x00A0, ' ', ' '},
};

enum glyph_level glyph_level_detect(const char *codeset, const char *term)
{
    if (!codeset || (strcasecmp(codeset, "UTF-8") != 0 && strcasecmp(codeset, "UTF8") != 0))
        return GLYPHS_ASCII;
    if (term &&
        (strcmp(term, "linux") == 0 || strncmp(term, "linux-", 6) == 0 || strncmp(term, "vt", 2) == 0))
        return GLYPHS_BLOCK;
    return GLYPHS_BRAILLE;
}

/* The glyph to show for `code_point`: itself, or a substitute of the same width. */
static uint32_t glyph_for(enum glyph_level level, uint32_t code_point)
{
    if (code_point < 0x7F && code_point >= ' ') return code_point;
    if (utf8_is_control(code_point)) return ' ';
    if (level == GLYPHS_BRAILLE) return code_point;
    for (size_t i = 0; i < sizeof stand_ins / sizeof *stand_ins; i++)
        if (stand_ins[i].glyph == code_point)
            return level == GLYPHS_BLOCK ? stand_ins[i].block : (unsigned char)stand_ins[i].ascii;
    return level == GLYPHS_BLOCK ? code_point : '?';
}

uint32_t glyph_next(const char **text)
{
    uint32_t point;
    if (**text == '\0') return 0;
    size_t bytes = utf8_character(*text, strnlen(*text, 4), &point);
    *text += bytes ? bytes : 1;
    return bytes ? point : 0xFFFD;
}

int glyph_width(uint32_t code_point)
{
    if (code_point >= ' ' && code_point < 0x7F) return 1;
    if (utf8_is_control(code_point)) return 1; /* drawn as a space */
    if (code_point >= 0x2500 && code_point < 0x2600)
        return 1; /* lines and blocks, whatever the locale reports */
    if (code_point >= 0x2800 && code_point < 0x2900) return 1; /* braille */
    if (code_point >= 0x2010 && code_point < 0x2028) return 1; /* dashes, quotes, dots: LANG=C lacks them */
    int width = wcwidth((wchar_t)code_point);
    if (width < 0 && MB_CUR_MAX == 1) /* a locale like C knows ASCII alone, but names are in any script */
        return utf8proc_charwidth((utf8proc_int32_t)code_point);
    if (width < 0) return code_point == 0xFFFD ? 1 : 0;
    return width;
}

int glyph_text_width(const char *text)
{
    int width = 0;
    for (uint32_t c; (c = glyph_next(&text)) != 0;) width += glyph_width(c);
    return width;
}

size_t glyph_encode(uint32_t c, char *buf, size_t size)
{
    utf8proc_uint8_t bytes[4];
    size_t n = (size_t)utf8proc_encode_char((utf8proc_int32_t)c, bytes);
    if (n + 1 > size) return 0;
    memcpy(buf, bytes, n);
    buf[n] = '\0';
    return n;
}

/* --- cells --- */

enum { GRID_MAX = 4096 }; /* columns or rows; larger claims of a terminal are wrong */

enum status grid_resize(struct grid *grid, int w, int h, struct err *err)
{
    w = w < 1 ? 1 : w > GRID_MAX ? GRID_MAX : w;
    h = h < 1 ? 1 : h > GRID_MAX ? GRID_MAX : h;
    size_t need = (size_t)w * (size_t)h;
    if (need > grid->capacity) {
        struct cell *cells = realloc(grid->cells, need * sizeof *cells);
        if (!cells) return err_no_memory(err, "a screen of %d x %d cells", w, h);
        grid->cells = cells;
        grid->capacity = need;
    }
    grid->w = w;
    grid->h = h;
    grid_clear(grid);
    return STATUS_OK;
}

void grid_release(struct grid *grid)
{
    free(grid->cells);
    free(grid->scratch);
    *grid = (struct grid){0};
}

void *grid_scratch(struct grid *grid, size_t bytes)
{
    if (bytes > grid->scratch_bytes) {
        free(grid->scratch);
        grid->scratch = malloc(bytes);
        grid->scratch_bytes = grid->scratch ? bytes : 0;
    }
    if (grid->scratch) memset(grid->scratch, 0, bytes);
    return grid->scratch;
}

void grid_clear(struct grid *grid)
{
    size_t n = (size_t)grid->w * (size_t)grid->h;
    for (size_t i = 0; i < n; i++) grid->cells[i] = (struct cell){' ', STYLE_TEXT, ATTR_NONE};
}

void rect_skip(struct rect *area, int rows)
{
    area->y += rows;
    area->h -= rows;
}

/* The part of `area` that lies on the grid. */
static struct rect clip(const struct grid *grid, struct rect area)
{
    int x1 = area.x + area.w, y1 = area.y + area.h;
    if (area.x < 0) area.x = 0;
    if (area.y < 0) area.y = 0;
    if (x1 > grid->w) x1 = grid->w;
    if (y1 > grid->h) y1 = grid->h;
    area.w = x1 - area.x;
    area.h = y1 - area.y;
    return area;
}

/* Sets a cell; half an overwritten double-width character becomes a space. */
static void set_cell(struct grid *grid, int x, int y, struct cell cell)
{
    struct cell *at = &grid->cells[(size_t)y * (size_t)grid->w + (size_t)x];
    if (at->glyph == GRID_CONTINUATION && cell.glyph != GRID_CONTINUATION && x > 0) at[-1].glyph = ' ';
    if (x + 1 < grid->w && at[1].glyph == GRID_CONTINUATION) at[1].glyph = ' ';
    *at = cell;
}

void grid_fill(struct grid *grid, struct rect area, uint32_t glyph, enum style style)
{
    area = clip(grid, area);
    struct cell cell = {glyph_for(grid->level, glyph), (uint8_t)style, ATTR_NONE};
    for (int y = area.y; y < area.y + area.h; y++)
        for (int x = area.x; x < area.x + area.w; x++) set_cell(grid, x, y, cell);
}

void grid_mark(struct grid *grid, struct rect area, int attr)
{
    area = clip(grid, area);
    for (int y = area.y; y < area.y + area.h; y++)
        for (int x = area.x; x < area.x + area.w; x++)
            grid->cells[(size_t)y * (size_t)grid->w + (size_t)x].attr |= (uint8_t)attr;
}

void grid_put(struct grid *grid, int x, int y, uint32_t glyph, enum style style, int attr)
{
    if (x < 0 || y < 0 || x >= grid->w || y >= grid->h) return;
    set_cell(grid, x, y, (struct cell){glyph_for(grid->level, glyph), (uint8_t)style, (uint8_t)attr});
}

int grid_text(struct grid *grid, int x, int y, int width, enum style style, int attr, const char *text)
{
    if (y < 0 || y >= grid->h || width <= 0) return 0;
    bool cut = glyph_text_width(text) > width;
    int room = cut ? width - 1 : width, used = 0;
    for (uint32_t c; (c = glyph_next(&text)) != 0;) {
        int w = glyph_width(c);
        if (w == 0) continue;
        if (used + w > room) break;
        uint32_t shown = glyph_for(grid->level, c);
        if (x + used >= 0 && x + used + w <= grid->w) {
            set_cell(grid, x + used, y, (struct cell){shown, (uint8_t)style, (uint8_t)attr});
            if (w == 2) {
                struct cell rest = {shown == '?' ? ' ' : GRID_CONTINUATION, (uint8_t)style, (uint8_t)attr};
                set_cell(grid, x + used + 1, y, rest);
            }
        }
        used += w;
    }
    if (cut) {
        grid_put(grid, x + used, y, 0x2026, style, attr);
        used++;
    }
    return used;
}

int grid_text_right(struct grid *grid, int x, int y, int width, enum style style, int attr, const char *text)
{
    int w = glyph_text_width(text);
    int indent = w < width ? width - w : 0;
    return grid_text(grid, x + indent, y, width - indent, style, attr, text);
}

int grid_name(struct grid *grid, int x, int y, int width, enum style style, int attr, const char *text)
{
    int tail = width / 2, over = glyph_text_width(text) - tail;
    const char *end = text;
    if (over <= width - tail) return grid_text(grid, x, y, width, style, attr, text);
    while (over > 0) over -= glyph_width(glyph_next(&end));
    int used = grid_text(grid, x, y, width - tail, style, attr, text);
    return used + grid_text(grid, x + used, y, tail, style, attr, end);
}

void grid_line(struct grid *grid, struct rect *area, enum style style, int attr, const char *format, ...)
{
    char text[1024];
    TEXT_FORMAT(text, format);
    if (area->h > 0) grid_text(grid, area->x + 1, area->y, area->w - 2, style, attr, text);
    if (area->h > 0) rect_skip(area, 1);
}

void pen_print(struct pen *pen, enum style style, int attr, const char *format, ...)
{
    char text[1024];
    TEXT_FORMAT(text, format);
    pen->x += grid_text(pen->grid, pen->x, pen->y, pen->end - pen->x, style, attr, text);
}

void pen_word(struct pen *pen, enum style style, int attr, const char *format, ...)
{
    char text[1024];
    TEXT_FORMAT(text, format);
    pen_print(pen, style, attr, "%s", text);
    pen->x += 2;
}

void pen_fact(struct pen *pen, const char *label, enum style style, const char *format, ...)
{
    char value[128];
    TEXT_FORMAT(value, format);
    int label_w = glyph_text_width(label) + (*label != 0);
    if (pen->x + label_w + glyph_text_width(value) > pen->end) return;
    pen_print(pen, STYLE_DIM, 0, "%s", label);
    pen->x += *label != 0;
    pen_print(pen, style, ATTR_BOLD, "%s", value);
    pen->x += 3;
}

void pen_print_right(struct pen *pen, enum style style, int attr, const char *text)
{
    grid_text_right(pen->grid, pen->x, pen->y, pen->end - pen->x, style, attr, text);
}

/* --- text in a rectangle --- */

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
    for (const char *next; area.w > 0 && *text && rows < area.h; text = next, rows++) {
        struct pen pen = {grid, area.x, area.y + rows, area.x + area.w};
        const char *end = wrap_line(text, area.w, &next);
        pen_print(&pen, style, ATTR_NONE, "%.*s", (int)(end - text), text);
        bool cut = *next && rows == area.h - 1;
        if (cut) grid_put(grid, pen.x - (pen.x == pen.end), pen.y, 0x2026, style, ATTR_NONE);
    }
    return rows;
}

/* --- frames, titles, lines --- */

struct rect grid_box(struct grid *grid, struct rect area, enum style style, const char *title)
{
    struct rect inside = {area.x + 1, area.y + 1, area.w - 2, area.h - 2};
    int right = area.x + area.w - 1, bottom = area.y + area.h - 1;
    if (area.w < 2 || area.h < 2) return (struct rect){area.x, area.y, 0, 0};
    grid_fill(grid, area, 0x2502, style);
    grid_fill(grid, (struct rect){inside.x, area.y, inside.w, area.h}, 0x2500, style);
    grid_fill(grid, inside, ' ', STYLE_TEXT);
    grid_put(grid, area.x, area.y, 0x250C, style, 0);
    grid_put(grid, right, area.y, 0x2510, style, 0);
    grid_put(grid, area.x, bottom, 0x2514, style, 0);
    grid_put(grid, right, bottom, 0x2518, style, 0);
    struct pen pen = {grid, area.x + 2, area.y, right - 1};
    if (title) pen_print(&pen, STYLE_TEXT, ATTR_BOLD, " %s ", title);
    return inside;
}

void grid_title(struct grid *grid, struct rect *area, const char *title, const char *detail)
{
    struct pen pen = {grid, area->x + 1, area->y, area->x + area->w};
    grid_fill(grid, (struct rect){area->x, area->y, area->w, 1}, 0x2500, STYLE_RULE);
    grid_put(grid, area->x, area->y, ' ', STYLE_TEXT, 0);
    pen_print(&pen, STYLE_TEXT, ATTR_BOLD, "%s", title);
    if (detail && *detail) pen_print(&pen, STYLE_DIM, 0, " %s", detail);
    pen_print(&pen, STYLE_DIM, 0, " ");
    rect_skip(area, 1);
}

void grid_scroll_marks(struct grid *grid, struct rect area, bool above, bool below)
{
    int x = area.x + area.w - 1;
    if (above) grid_put(grid, x, area.y, 0x25B2, STYLE_ACCENT, ATTR_BOLD);
    if (below) grid_put(grid, x, area.y + area.h - 1, 0x25BC, STYLE_ACCENT, ATTR_BOLD);
}

char *grid_row(const struct grid *grid, int y, char *buf, size_t size)
{
    size_t n = 0, end = 0;
    buf[0] = '\0';
    if (y < 0 || y >= grid->h) return buf;
    for (int x = 0; x < grid->w; x++) {
        uint32_t glyph = grid->cells[(size_t)y * (size_t)grid->w + (size_t)x].glyph;
        if (glyph == GRID_CONTINUATION) continue;
        size_t wrote = glyph_encode(glyph, buf + n, size - n);
        if (wrote == 0) break;
        n += wrote;
        if (glyph != ' ') end = n;
    }
    buf[end] = '\0';
    return buf;
}
