/* See clean.h. */
#include "core/base/clean.h"

#include <string.h>

#include "core/base/utf8.h"

size_t clean_block(char *out, size_t size, const char *bytes, size_t n)
{
    size_t used = 0;
    if (!size) return 0;
    n -= utf8_incomplete_tail(bytes, n);
    for (size_t at = 0; at < n;) {
        uint32_t point;
        size_t length = utf8_character(bytes + at, n - at, &point), m = length;
        const char *piece = bytes + at;
        if (!length || (utf8_is_control(point) && point != '\n' && point != '\t')) {
            piece = "\xEF\xBF\xBD";
            m = 3;
        }
        if (used + m + 1 > size) break;
        memcpy(out + used, piece, m);
        used += m;
        at += length ? length : 1;
    }
    out[used] = '\0';
    return used;
}

void clean_line(char *out, size_t size, const char *text)
{
    clean_block(out, size, text, strlen(text));
    for (char *c = out; size && (c = strpbrk(c, "\n\t")); c++) *c = ' ';
}

const char *clean_block_new(struct arena *arena, const char *text)
{
    size_t n = strlen(text), size = 3 * n + 1;
    char *out = arena_alloc(arena, size);
    if (!out) return "?";
    clean_block(out, size, text, n);
    return out;
}

const char *clean_line_new(struct arena *arena, const char *text)
{
    size_t size = 3 * strlen(text) + 1;
    char *out = arena_alloc(arena, size);
    if (!out) return "?";
    clean_line(out, size, text);
    return out;
}
