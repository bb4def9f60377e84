/* A text that grows and is read a page at a time: the log of a run, the output of a command, an answer. It
 * shows the end and follows it, or stays where the user has scrolled to. Only the newest part is kept. */
#ifndef ANNEAL_TUI_WIDGET_PAGER_H
#define ANNEAL_TUI_WIDGET_PAGER_H

#include "tui/widget/grid.h"

enum { PAGER_MOST = 1 << 20 }; /* bytes that are kept */

struct pager {
    char *text; /* NUL-terminated; NULL: none yet */
    size_t length, capacity;
    bool cut;          /* older text was dropped */
    bool stays;        /* at `top`; else the end is shown */
    size_t top;        /* byte where the first row begins */
    int width, rows;   /* when last drawn */
    bool above, below; /* whether there was more */
};

void pager_release(struct pager *pager);
void pager_clear(struct pager *pager);

/* Appends bytes of any kind: a NUL becomes a blank. Drops the oldest lines above PAGER_MOST bytes. False: no
 * memory, and the text is as before. */
bool pager_add(struct pager *pager, const char *bytes, size_t n);

/* Scrolls by rows as drawn last, negative: up. Reaching the end, it follows it again. */
void pager_scroll(struct pager *pager, int rows);
void pager_go(struct pager *pager, bool end); /* to the end, or to the beginning */

/* The style of a whole line, from its first `n` bytes; a newline may be among them. */
typedef enum style pager_style(const char *line, size_t n);

/* Draws the rows that fit, wrapped. `style` may be NULL. */
void pager_draw(struct pager *pager, struct grid *grid, struct rect area, pager_style *style);

#endif
