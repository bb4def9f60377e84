/* See layout.h. */
#include "tui/widget/layout.h"

#include <string.h>

bool layout_too_small(int w, int h)
{
    return w < LAYOUT_MIN_W || h < LAYOUT_MIN_H;
}

/* The part `i` of `count` equal ones of a length; the first ones are longer where it cannot be divided. */
static void divide(int length, int count, int i, int *from, int *size)
{
    int least = length / count, longer = length % count;
    *from = i * least + (i < longer ? i : longer);
    *size = least + (i < longer);
}

/* Places the charts above the text. Of two above each other the first, the loss, is higher. */
static void place_charts(struct run_layout *out, int charts)
{
    enum { GOOD_W = 50, GOOD_H = 11, LEAST_H = 5, GAP = 2 };
    struct rect all = {0, out->header.h, out->sample.w, out->sample.y - out->header.h};
    int columns = all.w / GOOD_W > 0 ? all.w / GOOD_W : 1, rows = all.h / GOOD_H, done = 0;
    if (rows < 2) rows = all.h >= 2 * LEAST_H ? 2 : 1;
    if (rows == 2 && all.h < 16) columns = 1;
    if (rows == 1) columns = 1;
    int count = charts < columns * rows ? charts : columns * rows;
    if (count > LAYOUT_CHARTS) count = LAYOUT_CHARTS;
    if (count < 1) count = 1;
    rows = (count + columns - 1) / columns;
    for (int r = 0; r < rows; r++) {
        int y, h, first, n;
        divide(all.h, rows, r, &y, &h);
        divide(count, rows, r, &first, &n);
        if (rows == 2 && columns == 1 && all.h >= 12) {
            int upper = (all.h * 3 + 2) / 5;
            y = r ? upper : 0;
            h = r ? all.h - upper : upper;
        }
        for (int c = 0; c < n; c++) {
            int x, w;
            divide(all.w - (n - 1) * GAP, n, c, &x, &w);
            out->chart[done++] = (struct rect){all.x + x + c * GAP, all.y + y, w, h};
        }
    }
    out->chart_count = done;
}

void layout_run(int w, int h, int charts, int rows, struct run_layout *out)
{
    memset(out, 0, sizeof *out);
    if (layout_too_small(w, h)) return;
    int header = h >= 16 ? 4 : 3, side = w >= 160 && h >= 30 ? w / 4 > 56 ? 56 : w / 4 : 0;
    int sample = h >= 50 ? 9 : h >= 36 ? 7 : h >= 22 ? 3 : 0;
    int most = h - 18 < h / 3 ? h - 18 : h / 3; /* header, bottom line and two charts take 18 rows at least */
    if (sample && rows > sample) sample = most < sample ? sample : most < rows ? most : rows;
    int events = h >= 50 ? 4 : h >= 36 ? 3 : h >= 20 ? 1 : 0;
    out->header = (struct rect){0, 0, w, header};
    if (side) out->side = (struct rect){w - side, header, side, h - 1 - header};
    if (side) events = 0; /* the side panel shows them */
    out->events = (struct rect){0, h - 1 - events, side ? w - side - 2 : w, events};
    out->sample = (struct rect){0, out->events.y - sample, out->events.w, sample};
    place_charts(out, charts);
}

/* --- tables --- */

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
