/* See clean.h. */
#include "tui/command/clean.h"

#include <string.h>

#include "core/generate/generate.h"

void clean_line(char *buf, size_t size, const char *text)
{
    generate_clean_utf8(buf, size, text, strlen(text));
    for (char *c = buf; size && (c = strpbrk(c, "\n\t")); c++) *c = ' ';
}

const char *clean_line_new(struct arena *arena, const char *text)
{
    size_t size = 3 * strlen(text) + 1; /* one byte may become three */
    char *buf = arena_alloc(arena, size);
    if (!buf) return "?";
    clean_line(buf, size, text);
    return buf;
}

const char *clean_block_new(struct arena *arena, const char *text)
{
    size_t n = strlen(text), size = 3 * n + 1;
    char *buf = arena_alloc(arena, size);
    if (!buf) return "?";
    generate_clean_utf8(buf, size, text, n);
    return buf;
}
