/* Tests of where things go: the panels of a screen, the columns and rows of a table. */
#include "tests/cmocka.h"
#include "tests/tui/widget/cells.h"
#include "tui/widget/layout.h"

static void assert_inside(struct rect r, int w, int h)
{
    if (r.w <= 0 || r.h <= 0) return;
    assert_true(r.x >= 0 && r.y >= 0 && r.x + r.w <= w && r.y + r.h <= h);
}

static void assert_apart(struct rect a, struct rect b)
{
    if (a.w <= 0 || a.h <= 0 || b.w <= 0 || b.h <= 0) return;
    assert_true(a.x + a.w <= b.x || b.x + b.w <= a.x || a.y + a.h <= b.y || b.y + b.h <= a.y);
}

TEST_CASE(layout_of_a_run_never_overlaps_at_any_size)
{
    for (int w = 1; w <= 400; w += w < 170 ? 1 : 23) {
        for (int h = 1; h <= 120; h++) {
            for (int charts = 1; charts <= 60; charts += charts < 10 ? 1 : 25) {
                struct run_layout layout;
                layout_run(w, h, charts, (w + 3 * h) % 40, &layout);
                struct rect all[4 + LAYOUT_CHARTS] = {layout.header, layout.sample, layout.events,
                                                      layout.side};
                size_t count = 4;
                for (int c = 0; c < layout.chart_count; c++) {
                    all[count++] = layout.chart[c];
                    assert_true(layout.chart[c].h >= 4 && layout.chart[c].w >= 40);
                }
                for (size_t i = 0; i < count; i++) {
                    assert_inside(all[i], w, h);
                    for (size_t j = i + 1; j < count; j++) assert_apart(all[i], all[j]);
                }
                assert_true(layout.chart_count <= charts);
                if (!layout_too_small(w, h)) assert_true(layout.chart_count > 0);
            }
        }
    }
}

TEST_CASE(each_size_of_screen_has_its_panels)
{
    static const struct {
        int w, h, header, charts, sample, events, side;
    } sizes[] = {{40, 10, 3, 1, 0, 0, 0},    {80, 15, 3, 2, 0, 0, 0},   {80, 16, 4, 2, 0, 0, 0},
                 {80, 20, 4, 2, 0, 1, 0},    {80, 24, 4, 2, 3, 1, 0},   {80, 22, 4, 2, 3, 1, 0},
                 {99, 40, 4, 2, 7, 3, 0},    {100, 40, 4, 4, 7, 3, 0},  {120, 25, 4, 4, 3, 1, 0},
                 {120, 24, 4, 2, 3, 1, 0},   {120, 36, 4, 4, 7, 3, 0},  {120, 49, 4, 6, 7, 3, 0},
                 {120, 50, 4, 4, 9, 4, 0},   {159, 60, 4, 9, 9, 4, 0},  {160, 60, 4, 8, 9, 0, 40},
                 {160, 29, 4, 6, 3, 1, 0},   {160, 30, 4, 4, 3, 0, 40}, {224, 60, 4, 12, 9, 0, 56},
                 {300, 60, 4, 16, 9, 0, 56}, {300, 90, 4, 24, 9, 0, 56}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct run_layout layout;
        layout_run(sizes[i].w, sizes[i].h, 30, 0, &layout);
        bool same = layout.header.h == sizes[i].header && layout.chart_count == sizes[i].charts &&
                    layout.sample.h == sizes[i].sample && layout.events.h == sizes[i].events &&
                    layout.side.w == sizes[i].side;
        if (!same)
            fail_msg("%d x %d: header %d, charts %d, sample %d, events %d, side %d", sizes[i].w, sizes[i].h,
                     layout.header.h, layout.chart_count, layout.sample.h, layout.events.h, layout.side.w);
        layout_run(sizes[i].w, sizes[i].h, 1, 0, &layout);
        assert_int_equal(layout.chart_count, 1);
        assert_int_equal(layout.chart[0].y + layout.chart[0].h, layout.sample.h   ? layout.sample.y
                                                                : layout.events.h ? layout.events.y
                                                                                  : sizes[i].h - 1);
    }
}

TEST_CASE(a_list_gets_rows_that_the_charts_can_spare)
{
    static const int cases[][5] = {/* w, h, rows, sample, charts */
                                   {80, 24, 4, 4, 2},    {80, 24, 100, 6, 2},  {80, 22, 100, 4, 2},
                                   {80, 20, 100, 0, 2},  {120, 40, 14, 13, 4}, {120, 40, 5, 7, 4},
                                   {120, 60, 100, 20, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct run_layout layout;
        layout_run(cases[i][0], cases[i][1], 30, cases[i][2], &layout);
        assert_int_equal(layout.sample.h, cases[i][3]);
        assert_int_equal(layout.chart_count, cases[i][4]);
    }
}

TEST_CASE(a_table_drops_the_least_important_columns_and_keeps_what_just_fits)
{
    static const struct table_column columns[] = {
        {"a", 10, 12, 0, false}, {"b", 5, 5, 2, true}, {"c", 5, 7, 1, false}};
    static const int expected[][4] = {{22, 10, 5, 5}, {21, 12, 0, 7}, {17, 10, 0, 5},
                                      {16, 10, 0, 5}, {15, 12, 0, 0}, {23, 11, 5, 5},
                                      {25, 12, 5, 6}, {26, 12, 5, 7}, {99, 12, 5, 7}};
    int widths[3];
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        table_fit(columns, 3, expected[i][0], 1, widths);
        int w = expected[i][0];
        if (w == 21 || w == 17) { /* one is dropped, the others share what it leaves */
            assert_int_equal(widths[1], 0);
            assert_true(widths[0] + 1 + widths[2] <= w);
        }
        if (w >= 22)
            for (int c = 0; c < 3; c++) assert_int_equal(widths[c], expected[i][c + 1]);
    }
    table_fit(columns, 3, 16, 1, widths); /* 10 + 1 + 5 */
    assert_true(widths[0] == 10 && widths[1] == 0 && widths[2] == 5);
    table_fit(columns, 3, 15, 1, widths);
    assert_true(widths[0] == 12 && widths[2] == 0);
    table_fit(columns, 3, 3, 1, widths); /* the one of rank 0 stays, and is clipped by the grid */
    assert_true(widths[0] == 10 && widths[1] == 0 && widths[2] == 0);
    struct grid grid = make_grid(30, 1, GLYPHS_ASCII);
    table_fit(columns, 3, 26, 1, widths);
    table_draw_titles(&grid, 1, 0, columns, 3, 1, widths, ATTR_UNDERLINE);
    assert_row(&grid, 0, " a                b c");
    grid_release(&grid);
}

TEST_CASE(the_first_column_can_be_the_least_important_and_equals_go_from_the_left)
{
    static const struct table_column columns[] = {
        {"a", 5, 5, 2, false}, {"b", 5, 5, 1, false}, {"c", 5, 5, 1, false}};
    static const int expected[][4] = {
        {17, 5, 5, 5}, {16, 0, 5, 5}, {11, 0, 5, 5}, {10, 0, 0, 5}, {4, 0, 0, 0}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        int widths[3];
        table_fit(columns, 3, expected[i][0], 1, widths);
        assert_memory_equal(widths, expected[i] + 1, sizeof widths);
    }
}

TEST_CASE(a_table_scrolls_no_further_than_it_must)
{
    static const struct {
        size_t first, at, count, page, expected;
    } cases[] = {{0, 0, 10, 4, 0}, {0, 3, 10, 4, 0}, {0, 4, 10, 4, 1}, {5, 4, 10, 4, 4}, {5, 5, 10, 4, 5},
                 {9, 9, 10, 4, 6}, {6, 2, 3, 4, 0},  {2, 3, 5, 5, 0},  {2, 3, 6, 5, 1},  {0, 0, 0, 4, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t first = cases[i].first;
        table_scroll(&first, cases[i].at, cases[i].count, cases[i].page);
        if (first != cases[i].expected) fail_msg("case %zu begins at %zu", i, first);
    }
}

TEST_MAIN()
