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
