/* See table.h. */
#include "tui/widget/table.h"

static int total(const int *widths, int count, int gap)
{
    int sum = -gap;
    for (int i = 0; i < count; i++)
        if (widths[i]) sum += widths[i] + gap;
    return sum;
}

void table_fit(const struct table_column *columns, int count, int width, int gap, int *widths)
{
    for (int i = 0; i < count; i++) widths[i] = columns[i].min;
    while (total(widths, count, gap) > width) {
        int drop = -1;
        for (int i = 0; i < count; i++)
            if (widths[i] && columns[i].rank > 0 && (drop < 0 || columns[i].rank > columns[drop].rank))
                drop = i;
        if (drop < 0) break;
        widths[drop] = 0;
    }
    for (bool grew = true; grew && total(widths, count, gap) < width;) {
        grew = false;
        for (int i = 0; i < count && total(widths, count, gap) < width; i++) {
            if (widths[i] && widths[i] < columns[i].max) {
                widths[i]++;
                grew = true;
            }
        }
    }
}

void table_draw_titles(struct grid *grid, int x, int y, const struct table_column *columns, int count,
                       int gap, const int *widths, int attr)
{
    for (int i = 0; i < count; i++) {
        if (!widths[i]) continue;
        (columns[i].right ? grid_text_right : grid_text)(grid, x, y, widths[i], STYLE_DIM, attr,
                                                         columns[i].title);
        x += widths[i] + gap;
    }
}

void table_scroll(size_t *first, size_t at, size_t count, size_t page)
{
    if (at < *first) *first = at;
    if (at >= *first + page) *first = at - page + 1;
    if (*first + page > count) *first = count > page ? count - page : 0;
}
