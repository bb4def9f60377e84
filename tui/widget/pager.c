/* See pager.h. Positions are bytes, and rows are found by wrapping from the start of a line, so that the cost
 * depends on the page and not on the length of the text. */
#include "tui/widget/pager.h"

#include <stdlib.h>
#include <string.h>

void pager_release(struct pager *pager)
{
    free(pager->text);
    *pager = (struct pager){0};
}

void pager_clear(struct pager *pager)
{
    pager->length = pager->top = 0;
    pager->stays = pager->cut = false;
    if (pager->text) pager->text[0] = '\0';
}

/* Drops the oldest half, up to the end of a line if there is one near. */
static void drop_oldest(struct pager *pager)
{
    size_t drop = pager->length - PAGER_MOST / 2;
    const char *end = memchr(pager->text + drop, '\n', PAGER_MOST / 4);
    if (end) drop = (size_t)(end + 1 - pager->text);
    memmove(pager->text, pager->text + drop, pager->length - drop + 1);
    pager->length -= drop;
    pager->top -= pager->top < drop ? pager->top : drop;
    pager->cut = true;
}

bool pager_add(struct pager *pager, const char *bytes, size_t n)
{
    enum { MOST = PAGER_MOST / 2 };
    for (; n > MOST; bytes += MOST, n -= MOST)
        if (!pager_add(pager, bytes, MOST)) return false;
    if (pager->length + n + 1 > pager->capacity) {
        size_t capacity = 2 * (pager->length + n + 1);
        char *text = realloc(pager->text, capacity);
        if (!text) return false;
        pager->text = text;
        pager->capacity = capacity;
    }
    char *to = pager->text + pager->length;
    memcpy(to, bytes, n);
    for (char *nul; (nul = memchr(to, '\0', n)) != NULL;) *nul = ' ';
    pager->length += n;
    pager->text[pager->length] = '\0';
    if (pager->length > PAGER_MOST) drop_oldest(pager);
    return true;
}

static size_t line_start(const struct pager *pager, size_t at)
{
    while (at > 0 && pager->text[at - 1] != '\n') at--;
    return at;
}

/* The start of the row before the one that begins at `at`; 0 at the beginning. */
static size_t row_before(const struct pager *pager, size_t at)
{
    if (at == 0) return 0;
    const char *row = pager->text + line_start(pager, at - 1), *next;
    for (;; row = next) {
        (void)wrap_line(row, pager->width, &next);
        if (next >= pager->text + at || !*next) return (size_t)(row - pager->text);
    }
}

/* The start of the first row of the last page. */
static size_t last_page(const struct pager *pager)
{
    size_t at = pager->length;
    for (int i = 0; i < pager->rows && at > 0; i++) at = row_before(pager, at);
    return at;
}

void pager_scroll(struct pager *pager, int rows)
{
    if (!pager->length || pager->width <= 0) return;
    size_t last = last_page(pager), at = pager->stays ? pager->top : last;
    for (; rows < 0 && at > 0; rows++) at = row_before(pager, at);
    for (const char *next; rows > 0 && at < last; rows--) {
        (void)wrap_line(pager->text + at, pager->width, &next);
        at = (size_t)(next - pager->text);
    }
    pager->top = at;
    pager->stays = at < last;
}

void pager_go(struct pager *pager, bool end)
{
    pager->top = 0;
    pager->stays = !end;
}

void pager_draw(struct pager *pager, struct grid *grid, struct rect area, pager_style *style)
{
    pager->width = area.w;
    pager->rows = area.h > 0 ? area.h : 0;
    pager->above = pager->below = false;
    if (!pager->length || area.w <= 0 || area.h <= 0) return;
    size_t at = pager->stays ? pager->top : last_page(pager);
    const char *row = pager->text + at, *line = pager->text + line_start(pager, at), *next;
    enum { LINE_BEGINS = 256 }; /* bytes that decide on the style */
    for (int y = 0; y < area.h && *row; y++, row = next) {
        char shown[2048];
        const char *end = wrap_line(row, area.w, &next);
        if (row > line && row[-1] == '\n') line = row;
        size_t n = (size_t)(end - row) < sizeof shown ? (size_t)(end - row) : sizeof shown - 1;
        memcpy(shown, row, n);
        shown[n] = '\0';
        grid_text(grid, area.x, area.y + y, area.w,
                  style ? style(line, strnlen(line, LINE_BEGINS)) : STYLE_TEXT, 0, shown);
    }
    pager->above = at > 0;
    pager->below = *row != '\0';
}
