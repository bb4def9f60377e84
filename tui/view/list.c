/* See list.h. */
#include "tui/view/list.h"

bool list_key(struct workbench *workbench, struct list *list, enum action action, uint32_t code)
{
    if (action == ACTION_FILTER && code == K_ENTERED) {
        workbench->typing = false;
        list->letters = workbench->answer;
        return true;
    }
    if (action == ACTION_CLICK) {
        int y = workbench->pointer.y - list->top;
        size_t row = list->scroll + (size_t)y;
        if (y >= 0 && y < (int)list->page && row < list->count) list->at = row;
        return true;
    }
    bool edits = workbench->typing && (code == K_HOME || code == K_END);
    if (!edits && keys_move(action, &list->at, list->count, list->page)) return true;
    if (!workbench->typing) {
        bool clears = code == K_ESCAPE && list->letters.text[0];
        if (clears) input_set(&list->letters, "");
        if (action == ACTION_FILTER) workbench->typing = true;
        return clears || action == ACTION_FILTER;
    }
    bool empty = !list->letters.text[0];
    if (code == K_ESCAPE) input_set(&list->letters, "");
    if (code == K_ENTER || code == K_ESCAPE || (code == K_BACKSPACE && empty))
        workbench->typing = false;
    else
        input_key(&list->letters, code);
    return true;
}

void list_set_count(struct list *list, size_t count)
{
    list->count = count;
    if (list->at >= count) list->at = count ? count - 1 : 0;
}

size_t list_fit(struct list *list, struct rect area)
{
    list->top = area.y;
    list->page = area.h > 0 ? (size_t)area.h : 1;
    table_scroll(&list->scroll, list->at, list->count, list->page);
    size_t end = list->scroll + list->page;
    return area.h <= 0 ? list->scroll : end < list->count ? end : list->count;
}

void list_draw_letters(const struct workbench *workbench, const struct list *list, struct pen *pen)
{
    if (!workbench->typing && !list->letters.text[0]) return;
    pen_print(pen, STYLE_ACCENT, ATTR_BOLD, "/");
    input_draw(pen, &list->letters, workbench->typing, 0, 0);
}

void list_mark(const struct list *list, struct grid *grid, struct rect area)
{
    if (area.h <= 0 || !list->count) return;
    grid_mark(grid, (struct rect){area.x, area.y + (int)(list->at - list->scroll), area.w, 1}, ATTR_REVERSE);
    grid_scroll_marks(grid, area, list->scroll > 0, list->scroll + list->page < list->count);
}

void list_draw_table(struct list *list, struct grid *grid, struct rect area, const struct list_table *table)
{
    enum { GAP = 2 };
    int widths[LIST_COLUMNS_MAX];
    if (area.h < 2) return;
    table_fit(table->columns, table->count, area.w - 2, GAP, widths);
    table_draw_titles(grid, area.x + 1, area.y, table->columns, table->count, GAP, widths, 0);
    rect_skip(&area, 1);
    size_t end = list_fit(list, area);
    for (size_t row = list->scroll; row < end; row++) {
        struct pen pen = {grid, area.x + 1, area.y + (int)(row - list->scroll), 0};
        for (int c = 0; c < table->count; c++) {
            if (!widths[c]) continue;
            pen.end = pen.x + widths[c];
            table->cell(table->view, row, c, pen);
            pen.x = pen.end + GAP;
        }
    }
    list_mark(list, grid, area);
}
