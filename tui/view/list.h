/* A list of rows on a page, of which one is selected, and which may be searched by typed letters: what views
 * with such a list share. The view owns the rows; the list knows their number alone. */
#ifndef ANNEAL_TUI_LIST_H
#define ANNEAL_TUI_LIST_H

#include "tui/view/workbench.h"
#include "tui/widget/layout.h"

struct list {
    size_t at, scroll, page; /* the selected row, the first row shown, rows of a page when last drawn */
    size_t count;
    int top;              /* of the rows on the screen when last drawn */
    struct input letters; /* "": all rows are listed */
};

/* Whether the list used the key: it moves, a row is clicked, or the search is begun, typed or ended. The view
 * lists the rows anew where `letters` may have changed. */
bool list_key(struct workbench *workbench, struct list *list, enum action action, uint32_t code);

/* Sets the number of rows, and keeps the selection on one of them. */
void list_set_count(struct list *list, size_t count);

/* Scrolls so that the selected row is shown in `area`. Returns the end of the rows shown, which begin at
 * list->scroll; once they are drawn, list_mark marks the selected one, and with arrows where there are more.
 */
size_t list_fit(struct list *list, struct rect area);
void list_mark(const struct list *list, struct grid *grid, struct rect area);

/* Draws "/letters" at the pen while there are any or they are typed. */
void list_draw_letters(const struct workbench *workbench, const struct list *list, struct pen *pen);

/* A table whose rows are those of a list; `cell` draws one, from pen.x to pen.end. */
enum { LIST_COLUMNS_MAX = 64 };
struct list_table {
    const struct table_column *columns;
    int count; /* at most LIST_COLUMNS_MAX */
    void (*cell)(const void *view, size_t row, int column, struct pen pen);
    const void *view; /* for `cell` */
};

/* Draws the titles and the rows that fit, the selected one marked, and arrows where there are more. */
void list_draw_table(struct list *list, struct grid *grid, struct rect area, const struct list_table *table);

#endif
