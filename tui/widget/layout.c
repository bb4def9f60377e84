/* See layout.h. */
#include "tui/widget/layout.h"

#include <string.h>

bool layout_too_small(int w, int h)
{
    return w < LAYOUT_MIN_W || h < LAYOUT_MIN_H;
}

/* Places the charts above the text. */
static void place_charts(struct run_layout *out, bool enlarged)
{
    struct rect all = {0, out->header.h, out->sample.w, out->sample.y - out->header.h};
    struct rect upper = all, lower = all;
    bool four = all.w >= 100 && all.h >= 16;
    memset(out->chart, 0, sizeof out->chart);
    out->chart[0] = all;
    out->chart_count = enlarged || all.h < 10 ? 1 : four ? 4 : 2;
    upper.h = four ? (all.h + 1) / 2 : all.h >= 12 ? (all.h * 3 + 2) / 5 : all.h / 2;
    rect_skip(&lower, upper.h);
    for (int i = 0, count = out->chart_count, left = (all.w - 2) / 2; count > 1 && i < count; i++) {
        struct rect chart = i < count / 2 ? upper : lower;
        if (four) chart.x = i % 2 ? left + 2 : 0;
        if (four) chart.w = i % 2 ? all.w - left - 2 : left;
        out->chart[i] = chart;
    }
}

void layout_run(int w, int h, bool enlarged, int rows, struct run_layout *out)
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
    place_charts(out, enlarged);
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
