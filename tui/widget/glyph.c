/* See glyph.h. */
#include "tui/widget/glyph.h"

#include <string.h>
#include <strings.h>
#include <wchar.h>

#include "core/base/text.h"

struct stand_in {
    uint32_t glyph;
    uint32_t block; /* in the 256 or so glyphs of a PC console font */
    char ascii;
};

static const struct stand_in stand_ins[] = {
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

uint32_t glyph_for(enum glyph_level level, uint32_t code_point)
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
    if (utf8_is_control(code_point)) return 1; /* shown as a space */
    if (code_point >= 0x2500 && code_point < 0x2600)
        return 1; /* lines and blocks, whatever the locale says */
    if (code_point >= 0x2800 && code_point < 0x2900) return 1; /* braille */
    if (code_point >= 0x2010 && code_point < 0x2028) return 1; /* dashes, quotes, dots: LANG=C knows none */
    int width = wcwidth((wchar_t)code_point);
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
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    if (n + 1 > size) return 0;
    static const unsigned char lead[] = {0, 0x00, 0xC0, 0xE0, 0xF0};
    for (size_t i = n - 1; i > 0; i--, c >>= 6) buf[i] = (char)(0x80 | (c & 0x3F));
    buf[0] = (char)(lead[n] | c);
    buf[n] = '\0';
    return n;
}
