/* Characters that a terminal can show, and stand-ins for those it cannot. Code draws with the full set;
 * the grid asks here for the replacement, so no widget has a second drawing path except where shapes differ
 * (charts). */
#ifndef ANNEAL_TUI_GLYPH_H
#define ANNEAL_TUI_GLYPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum glyph_level {
    GLYPHS_ASCII,   /* not UTF-8 */
    GLYPHS_BLOCK,   /* UTF-8 with the font of a PC console: lines, half blocks, no braille */
    GLYPHS_BRAILLE, /* everything */
};

/* `codeset` as nl_langinfo(CODESET) gives it, `term` as in $TERM (NULL: unknown). */
enum glyph_level glyph_level_detect(const char *codeset, const char *term);

/* The glyph to show for `code_point`: itself, or a stand-in of the same width. */
uint32_t glyph_for(enum glyph_level level, uint32_t code_point);

/* The next code point of UTF-8 text, advancing *text; 0 at the end. Invalid bytes give U+FFFD, one a byte. */
uint32_t glyph_next(const char **text);

/* Columns it takes on the terminal: 0 (combining, or not shown), 1 or 2. */
int glyph_width(uint32_t code_point);

/* Columns of a whole text. */
int glyph_text_width(const char *text);

/* Appends the UTF-8 form of a code point; returns the bytes written (0 if it does not fit with a NUL). */
size_t glyph_encode(uint32_t code_point, char *buf, size_t size);

#endif
