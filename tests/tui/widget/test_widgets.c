/* Tests of the widgets that draw text: glyphs, grid, axis, gauge, sparkline, wrapping, tables, input, layout.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>

#include "tui/widget/axis.h"
#include "tui/widget/bars.h"
#include "tui/widget/grid.h"
#include "tui/widget/input.h"
#include "tui/widget/layout.h"
#include "tui/widget/smooth.h"
#include "tui/widget/table.h"
#include "tui/widget/wrap.h"

static struct grid make_grid(int w, int h, enum glyph_level level)
{
    struct grid grid = {0};
    struct err err = {0};
    assert_int_equal(grid_resize(&grid, w, h, &err), STATUS_OK);
    grid.level = level;
    return grid;
}

static void assert_row(const struct grid *grid, int y, const char *expected)
{
    char row[4096];
    assert_string_equal(grid_row(grid, y, row, sizeof row), expected);
}

/* --- glyphs --- */

static void glyph_set_follows_codeset_and_terminal(void **state)
{
    (void)state;
    assert_int_equal(glyph_level_detect("UTF-8", "xterm-256color"), GLYPHS_BRAILLE);
    assert_int_equal(glyph_level_detect("UTF-8", NULL), GLYPHS_BRAILLE);
    assert_int_equal(glyph_level_detect("UTF-8", "linux"), GLYPHS_BLOCK);
    assert_int_equal(glyph_level_detect("UTF-8", "vt220"), GLYPHS_BLOCK);
    assert_int_equal(glyph_level_detect("ANSI_X3.4-1968", "xterm"), GLYPHS_ASCII);
    assert_int_equal(glyph_level_detect(NULL, "xterm"), GLYPHS_ASCII);
}

static void broken_utf8_is_replaced_a_byte_at_a_time(void **state)
{
    (void)state;
    /* a lone continuation, an overlong slash, a surrogate, a cut sequence before the end */
    const char *text = "a\x80"
                       "b\xC0\xAF"
                       "c\xED\xA0\x80"
                       "d\xE2\x82";
    uint32_t got[16];
    int n = 0;
    for (uint32_t c; n < 16 && (c = glyph_next(&text)) != 0;) got[n++] = c;
    uint32_t expected[] = {'a',    0xFFFD, 'b',    0xFFFD, 0xFFFD, 'c',
                           0xFFFD, 0xFFFD, 0xFFFD, 'd',    0xFFFD, 0xFFFD};
    assert_int_equal(n, 12);
    assert_memory_equal(got, expected, sizeof expected);
}

static void code_points_survive_a_round_trip(void **state)
{
    (void)state;
    uint32_t points[] = {'A', 0x7FF, 0x800, 0xFFFD, 0x10000, 0x10FFFF};
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        char text[5];
        assert_true(glyph_encode(points[i], text, sizeof text) > 0);
        const char *at = text;
        assert_int_equal(glyph_next(&at), points[i]);
        assert_int_equal(*at, '\0');
    }
    char small[2];
    assert_int_equal(glyph_encode(0x800, small, sizeof small), 0);
}

/* --- grid --- */

static void text_is_clipped_and_ends_in_an_ellipsis(void **state)
{
    (void)state;
    struct grid grid = make_grid(10, 2, GLYPHS_BRAILLE);
    assert_int_equal(grid_text(&grid, 2, 0, 5, STYLE_TEXT, 0, "learning"), 5);
    assert_row(&grid, 0, "  lear\xE2\x80\xA6");
    grid_text(&grid, -3, 1, 20, STYLE_TEXT, 0, "abcdefghijklmnop");
    assert_row(&grid, 1, "defghijklm");
    grid_text(&grid, 0, 5, 20, STYLE_TEXT, 0, "below the grid"); /* nothing, and no crash */
    grid_text(&grid, 0, -1, 20, STYLE_TEXT, 0, "above the grid");
    grid_fill(&grid, (struct rect){-5, -5, 100, 100}, '.', STYLE_TEXT, 0);
    assert_row(&grid, 1, "..........");
    grid_release(&grid);
}

static void double_width_characters_keep_their_halves_together(void **state)
{
    (void)state;
    struct grid grid = make_grid(8, 1, GLYPHS_BRAILLE);
    grid_text(&grid, 0, 0, 8, STYLE_TEXT, 0, "\xE4\xBD\xA0\xE5\xA5\xBDx"); /* two CJK characters and an x */
    assert_row(&grid, 0, "\xE4\xBD\xA0\xE5\xA5\xBDx");
    assert_int_equal(grid.cells[1].glyph, GRID_CONTINUATION);
    assert_int_equal(grid.cells[4].glyph, 'x');
    grid_put(&grid, 1, 0, '|', STYLE_TEXT, 0); /* over the right half of the first */
    assert_row(&grid, 0, " |\xE5\xA5\xBDx");
    grid_put(&grid, 2, 0, '|', STYLE_TEXT, 0); /* over the left half of the second */
    assert_row(&grid, 0, " || x");
    grid_release(&grid);
}

static void ascii_grid_holds_only_ascii(void **state)
{
    (void)state;
    struct grid grid = make_grid(24, 4, GLYPHS_ASCII);
    grid_box(&grid, (struct rect){0, 0, 24, 3}, STYLE_TEXT, "\xE2\x98\x85 best");
    grid_text(&grid, 1, 1, 20, STYLE_TEXT, 0, "\xE2\x97\x8F \xE2\x9C\x93 \xC3\xA9 \xE4\xBD\xA0 \xE2\x80\xA6");
    for (int i = 0; i < 24 * 4; i++) assert_in_range(grid.cells[i].glyph, ' ', '~');
    assert_row(&grid, 0, "+- * best -------------+");
    grid_release(&grid);
}

static void control_characters_never_reach_a_cell(void **state)
{
    (void)state;
    struct grid grid = make_grid(16, 1, GLYPHS_BRAILLE);
    grid_text(&grid, 0, 0, 16, STYLE_TEXT, 0,
              "a\x1B[31mb\x07\x7F\xC2\x9B"
              "c");
    for (int i = 0; i < 16; i++) assert_true(grid.cells[i].glyph >= ' ' && grid.cells[i].glyph != 0x7F);
    for (int i = 0; i < 16; i++) assert_true(grid.cells[i].glyph < 0x80 || grid.cells[i].glyph >= 0xA0);
    grid_release(&grid);
}

/* --- axis --- */

static void ticks_are_round_rising_and_inside(void **state)
{
    (void)state;
    double ranges[][2] = {{0, 1},          {2.137, 8.94}, {-3, 17}, {0, 50000},      {3e-5, 3e-4},
                          {1e-300, 1e300}, {5, 5},        {0, 0},   {-1e-9, 1e-9},   {99999, 100001},
                          {INFINITY, 1},   {NAN, NAN},    {7, -7},  {1e15, 1e15 + 8}};
    for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++) {
        for (int log = 0; log < 2; log++) {
            for (int max = 1; max <= 20; max++) {
                struct axis axis;
                axis_init(&axis, ranges[r][0], ranges[r][1], log, max);
                assert_true(isfinite(axis.lo) && isfinite(axis.hi) && axis.lo < axis.hi);
                assert_in_range(axis.count, 0, max < AXIS_TICKS_MAX ? max : AXIS_TICKS_MAX);
                for (int i = 0; i < axis.count; i++) {
                    assert_true(axis.tick[i] >= axis.lo - (axis.hi - axis.lo) * 1e-6);
                    assert_true(axis.tick[i] <= axis.hi + (axis.hi - axis.lo) * 1e-6);
                    if (i) assert_true(axis.tick[i] > axis.tick[i - 1]);
                    if (i) assert_string_not_equal(axis.label[i], axis.label[i - 1]);
                    assert_in_range(strlen(axis.label[i]), 1, 9);
                }
            }
        }
    }
}

static void assert_labels(const struct axis *axis, const char *expected)
{
    char got[256] = "";
    for (int i = 0; i < axis->count; i++) {
        if (i) strcat(got, " ");
        strcat(got, axis->label[i]);
    }
    assert_string_equal(got, expected);
}

static void tick_labels_are_short(void **state)
{
    (void)state;
    struct axis axis;
    axis_init(&axis, 2.2, 8.5, false, 4);
    assert_labels(&axis, "4 6 8");
    axis_init(&axis, 0, 3e-4, false, 4);
    assert_labels(&axis, "0 1e-4 2e-4 3e-4");
    axis_init(&axis, 0.9, 2.1, false, 4);
    assert_labels(&axis, "1.0 1.5 2.0");
    axis_init(&axis, 11000, 14000, false, 5);
    assert_labels(&axis, "11k 12k 13k 14k");
    axis_init(&axis, 0.02, 30, true, 8);
    assert_labels(&axis, "0.03 0.1 0.3 1 3 10 30");
    axis_init_steps(&axis, 0, 3, 10);
    assert_labels(&axis, "0 1 2 3");
    axis_init_steps(&axis, 0, 50000, 6);
    assert_labels(&axis, "0 10k 20k 30k 40k 50k");
}

static void numbers_have_four_digits_and_say_what_is_not_finite(void **state)
{
    (void)state;
    struct {
        double value;
        const char *text;
    } cases[] = {{3.12449, "3.124"},       {12.345, "12.35"},     {0, "0"},         {0.0003, "3.00e-4"},
                 {0.000123456, "1.23e-4"}, {999.99, "1000"},      {12345, "12.3k"}, {NAN, "NaN"},
                 {-INFINITY, "-inf"},      {0.0123456, "0.0123"}, {1e300, "1e300"}, {-2.5, "-2.500"},
                 {9.99951, "10.00"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[32];
        assert_string_equal(axis_format(cases[i].value, text, sizeof text), cases[i].text);
    }
}

/* --- gauge and sparkline --- */

static void gauge_is_full_only_at_one_and_empty_only_at_zero(void **state)
{
    (void)state;
    struct grid grid = make_grid(4, 5, GLYPHS_BRAILLE);
    gauge_draw(&grid, 0, 0, 4, STYLE_TEXT, 0);
    assert_row(&grid, 0, "░░░░");
    gauge_draw(&grid, 0, 1, 4, STYLE_TEXT, 1e-9);
    assert_row(&grid, 1, "▏░░░");
    gauge_draw(&grid, 0, 2, 4, STYLE_TEXT, 0.999999);
    assert_row(&grid, 2, "███▉");
    gauge_draw(&grid, 0, 3, 4, STYLE_TEXT, 7);
    assert_row(&grid, 3, "████");
    gauge_draw(&grid, 0, 4, 4, STYLE_TEXT, NAN);
    assert_row(&grid, 4, "░░░░");
    grid.level = GLYPHS_ASCII;
    gauge_draw(&grid, 0, 0, 4, STYLE_TEXT, 0.5);
    assert_row(&grid, 0, "##..");
    grid_release(&grid);
}

static struct series_point point(int64_t step, double value)
{
    bool finite = isfinite(value);
    double shown = finite ? value : NAN;
    return (struct series_point){step, step, shown, shown, shown, shown, 1, !finite};
}

static void sparkline_shows_a_spike_of_one_step(void **state)
{
    (void)state;
    struct grid grid = make_grid(8, 1, GLYPHS_BRAILLE);
    struct series_point points[800];
    for (int i = 0; i < 800; i++) points[i] = point(i, i == 437 ? 9 : 1);
    sparkline_draw(&grid, 0, 0, 8, STYLE_TEXT, points, 800);
    assert_row(&grid, 0, "▁▁▁▁█▁▁▁");
    for (int i = 100; i < 200; i++) points[i] = point(i, NAN);
    sparkline_draw(&grid, 0, 0, 8, STYLE_TEXT, points, 800);
    assert_row(&grid, 0, "▁✗▁▁█▁▁▁");
    grid_release(&grid);
}

static void sparkline_of_a_noisy_falling_loss_falls(void **state)
{
    (void)state;
    struct grid grid = make_grid(8, 1, GLYPHS_BRAILLE);
    struct series_point points[800];
    for (int i = 0; i < 800; i++)
        points[i] = point(i, 9 - 0.01 * i + (i % 2 ? 3 : -3) + (i % 50 == 7 ? 2 : 0));
    sparkline_draw(&grid, 0, 0, 8, STYLE_TEXT, points, 800);
    assert_row(&grid, 0, "█▇▆▅▄▃▂▁");
    grid_release(&grid);
}

static void sparkline_crosses_only_a_wholly_lost_cell_and_the_newest(void **state)
{
    (void)state;
    struct grid grid = make_grid(8, 1, GLYPHS_BRAILLE);
    struct series_point points[800];
    for (int i = 0; i < 800; i++) points[i] = point(i, i < 400 ? 1 : 2);
    points[150] = point(150, NAN);
    for (int i = 300; i < 400; i++) points[i] = point(i, INFINITY);
    sparkline_draw(&grid, 0, 0, 8, STYLE_TEXT, points, 800);
    assert_row(&grid, 0, "▁▁▁✗████");
    points[750] = point(750, NAN);
    sparkline_draw(&grid, 0, 0, 8, STYLE_TEXT, points, 800);
    assert_row(&grid, 0, "▁▁▁✗███✗");
    /* buckets wider than a cell: the last one is the newest, though it begins before the last cell */
    struct series_point wide[] = {{0, 3, 1, 1, 1, 1, 4, 0}, {4, 7, 2, 2, 2, 2, 4, 1}};
    grid_fill(&grid, (struct rect){0, 0, 8, 1}, ' ', STYLE_TEXT, 0);
    sparkline_draw(&grid, 0, 0, 8, STYLE_TEXT, wide, 2);
    assert_row(&grid, 0, "▁   ✗");
    grid_release(&grid);
}

static void smoothing_is_debiased_and_skips_what_is_not_finite(void **state)
{
    (void)state;
    struct series_point points[] = {point(0, NAN), point(1, 4), point(2, 4), point(3, INFINITY), point(4, 8)};
    double out[5];
    smooth_points(points, 5, 0.9, out);
    assert_true(isnan(out[0]));
    assert_float_equal(out[1], 4, 1e-12); /* not 0.4: the start is corrected */
    assert_float_equal(out[2], 4, 1e-12);
    assert_float_equal(out[3], 4, 1e-12);
    assert_float_equal(out[4], (0.1 * 8 + 0.9 * 0.1 * 4 + 0.81 * 0.1 * 4) / (1 - 0.9 * 0.9 * 0.9), 1e-12);
    /* a bucket of three equal steps counts as three steps */
    struct series_point bucket = {0, 2, 5, 5, 5, 5, 3, 0}, after = point(3, 7);
    struct series_point coarse[] = {bucket, after}, fine[] = {point(0, 5), point(1, 5), point(2, 5), after};
    double coarse_out[2], fine_out[4];
    smooth_points(coarse, 2, 0.9, coarse_out);
    smooth_points(fine, 4, 0.9, fine_out);
    assert_float_equal(coarse_out[1], fine_out[3], 1e-12);
}

/* --- wrapping, tables, input --- */

static void text_wraps_at_words_and_cuts_long_ones(void **state)
{
    (void)state;
    struct grid grid = make_grid(10, 4, GLYPHS_BRAILLE);
    struct rect area = {0, 0, 10, 4};
    assert_int_equal(wrap_draw(&grid, area, STYLE_TEXT, "In the beginning\nGod createdtheheavens"), 4);
    assert_row(&grid, 0, "In the");
    assert_row(&grid, 1, "beginning");
    assert_row(&grid, 2, "God");
    assert_row(&grid, 3, "createdth\xE2\x80\xA6");
    grid_release(&grid);
}

static void wrapping_advances_at_every_width(void **state)
{
    (void)state;
    const char *texts[] = {"word",     "\xE4\xBD\xA0\xE5\xA5\xBD",      "  ", "a\n\nb",
                           "\xFF\xFE", "averyveryverylongword and more"};
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        for (int width = 0; width < 12; width++) {
            int lines = 0;
            for (const char *at = texts[t], *next; *at; at = next, lines++) {
                const char *end = wrap_line(at, width, &next);
                assert_true(next > at && end >= at && end <= next);
                assert_true(lines < 100);
            }
        }
    }
}

static void table_drops_the_least_important_columns_first(void **state)
{
    (void)state;
    struct table_column columns[] = {{"a", 10, 20, 0, false}, {"b", 5, 5, 2, false}, {"c", 5, 9, 1, false}};
    int widths[3];
    table_fit(columns, 3, 60, 1, widths);
    assert_int_equal(widths[0], 20);
    assert_int_equal(widths[1], 5);
    assert_int_equal(widths[2], 9);
    table_fit(columns, 3, 18, 1, widths);
    assert_int_equal(widths[1], 0);
    assert_int_equal(widths[0] + widths[2] + 1, 18);
    table_fit(columns, 3, 3, 1, widths);
    assert_int_equal(widths[2], 0);
    assert_int_equal(widths[0], 10); /* rank 0 stays, and is clipped by the grid */
}

static void input_edits_whole_characters(void **state)
{
    (void)state;
    struct input input = {0};
    input_type(&input, 'a');
    input_type(&input, 0xE9);
    input_type(&input, 0x4F60);
    assert_string_equal(input.text, "a\xC3\xA9\xE4\xBD\xA0");
    input_left(&input);
    input_backspace(&input);
    assert_string_equal(input.text, "a\xE4\xBD\xA0");
    input_delete(&input);
    assert_string_equal(input.text, "a");
    assert_false(input_delete(&input));
    assert_false(input_type(&input, '\x1B'));
    for (int i = 0; i < 1000; i++) input_type(&input, 0x4F60);
    assert_true(strlen(input.text) < INPUT_MAX);
    const char *at = input.text;
    for (uint32_t c; (c = glyph_next(&at)) != 0;) assert_true(c == 'a' || c == 0x4F60);
}

/* --- layout --- */

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

static void layout_of_a_run_never_overlaps_at_any_size(void **state)
{
    (void)state;
    for (int w = 1; w <= 400; w += w < 170 ? 1 : 23) {
        for (int h = 1; h <= 120; h++) {
            for (int enlarged = 0; enlarged < 2; enlarged++) {
                struct run_layout layout;
                layout_run(w, h, enlarged, &layout);
                struct rect all[] = {layout.header,   layout.chart[0], layout.chart[1],
                                     layout.chart[2], layout.chart[3], layout.sample,
                                     layout.events,   layout.side,     layout.footer};
                for (size_t i = 0; i < 9; i++) {
                    assert_inside(all[i], w, h);
                    for (size_t j = i + 1; j < 9; j++) assert_apart(all[i], all[j]);
                }
                if (!layout_too_small(w, h)) assert_true(layout.chart_count > 0 && layout.chart[0].h >= 4);
            }
        }
    }
}

static void an_event_takes_the_room_it_needs_at_any_size(void **state)
{
    (void)state;
    static const int needs[][3] = {{2, 12, 0}, {9, 5, 5}, {1, 0, 3}, {4, 0, 100}}; /* used, wanted, needed */
    for (int w = 1; w <= 220; w += 3) {
        for (int h = 1; h <= 80; h++) {
            for (size_t i = 0; i < 8; i++) {
                struct run_layout layout;
                const int *need = needs[i / 2];
                layout_run(w, h, i % 2, &layout);
                layout_run_events(&layout, i % 2, need[0], need[1], need[2]);
                struct rect all[] = {layout.header,   layout.chart[0], layout.chart[1],
                                     layout.chart[2], layout.chart[3], layout.sample,
                                     layout.events,   layout.side,     layout.footer};
                for (size_t a = 0; a < 9; a++) {
                    assert_inside(all[a], w, h);
                    for (size_t b = a + 1; b < 9; b++) assert_apart(all[a], all[b]);
                }
                if (layout_too_small(w, h)) continue;
                int others = layout.sample.h + layout.chart[0].h;
                assert_true(layout.events.h >= need[2] || others == 0);
                if (layout.chart[0].h < 4) assert_int_equal(layout.sample.h, 0); /* the text goes first */
                if (layout.chart[0].h < 4)
                    assert_int_equal(layout.events.h, need[2] < h ? need[2] : layout.events.h);
            }
        }
    }
}

static void events_first_take_what_the_sample_leaves_blank(void **state)
{
    (void)state;
    struct run_layout layout, before;
    layout_run(120, 40, false, &before);
    layout = before;
    layout_run_events(&layout, false, before.sample.h, 9, 0); /* the text fills its rows */
    assert_memory_equal(&layout, &before, sizeof layout);
    layout_run_events(&layout, false, 2, before.events.h + 3, 0);
    assert_int_equal(layout.events.h, before.events.h + 3);
    assert_int_equal(layout.sample.h, before.sample.h - 3);
    assert_int_equal(layout.chart[3].h, before.chart[3].h);
    layout = before;
    layout_run_events(&layout, false, 2, 99, 0); /* no more than that, however many there are */
    assert_int_equal(layout.sample.h, 2);
    assert_int_equal(layout.chart[3].h, before.chart[3].h);
    layout_run(80, 24, false, &layout);
    layout_run_events(&layout, false, 9, 1, 3); /* asked for: the sample, then the charts give way */
    assert_int_equal(layout.events.h, 3);
    assert_int_equal(layout.sample.h, 2);
}

static void words_are_chosen_by_the_room_there_is(void **state)
{
    (void)state;
    struct grid grid = make_grid(12, 3, GLYPHS_BRAILLE);
    const char *words[] = {"a long one", "short", NULL};
    assert_int_equal(grid_text_fitting(&grid, 0, 0, 10, STYLE_TEXT, 0, words), 10);
    assert_row(&grid, 0, "a long one");
    grid_text_fitting(&grid, 0, 1, 9, STYLE_TEXT, 0, words);
    assert_row(&grid, 1, "short");
    grid_text_fitting(&grid, 0, 2, 4, STYLE_TEXT, 0, words);
    assert_row(&grid, 2, "sho…");
    grid_release(&grid);
}

static void dashes_and_quotes_have_a_width_in_every_locale(void **state)
{
    (void)state;
    setlocale(LC_CTYPE, "C");
    int width = glyph_text_width("a – ‘b’ …");
    setlocale(LC_CTYPE, "C.UTF-8");
    assert_int_equal(width, 9);
}

static void wrapped_rows_are_counted_as_drawn(void **state)
{
    (void)state;
    static const char text[] = "In the beginning God created the heaven and the earth.\nAnd the earth";
    struct grid grid = make_grid(60, 60, GLYPHS_BRAILLE);
    for (int w = 2; w <= 60; w++)
        assert_int_equal(wrap_rows(text, w), wrap_draw(&grid, (struct rect){0, 0, w, 60}, STYLE_TEXT, text));
    assert_int_equal(wrap_rows("", 10), 0);
    grid_release(&grid);
}

static void layout_uses_the_room_there_is(void **state)
{
    (void)state;
    struct run_layout layout;
    layout_run(80, 24, false, &layout);
    assert_int_equal(layout.chart_count, 2);
    assert_true(layout.sample.h >= 2);
    layout_run(120, 40, false, &layout);
    assert_int_equal(layout.chart_count, 4);
    assert_int_equal(layout.side.w, 0);
    layout_run(200, 60, false, &layout);
    assert_int_equal(layout.chart_count, 4);
    assert_true(layout.side.w >= 40);
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(glyph_set_follows_codeset_and_terminal),
        cmocka_unit_test(broken_utf8_is_replaced_a_byte_at_a_time),
        cmocka_unit_test(code_points_survive_a_round_trip),
        cmocka_unit_test(text_is_clipped_and_ends_in_an_ellipsis),
        cmocka_unit_test(double_width_characters_keep_their_halves_together),
        cmocka_unit_test(ascii_grid_holds_only_ascii),
        cmocka_unit_test(control_characters_never_reach_a_cell),
        cmocka_unit_test(ticks_are_round_rising_and_inside),
        cmocka_unit_test(tick_labels_are_short),
        cmocka_unit_test(numbers_have_four_digits_and_say_what_is_not_finite),
        cmocka_unit_test(gauge_is_full_only_at_one_and_empty_only_at_zero),
        cmocka_unit_test(sparkline_shows_a_spike_of_one_step),
        cmocka_unit_test(sparkline_of_a_noisy_falling_loss_falls),
        cmocka_unit_test(sparkline_crosses_only_a_wholly_lost_cell_and_the_newest),
        cmocka_unit_test(smoothing_is_debiased_and_skips_what_is_not_finite),
        cmocka_unit_test(text_wraps_at_words_and_cuts_long_ones),
        cmocka_unit_test(wrapping_advances_at_every_width),
        cmocka_unit_test(table_drops_the_least_important_columns_first),
        cmocka_unit_test(input_edits_whole_characters),
        cmocka_unit_test(layout_of_a_run_never_overlaps_at_any_size),
        cmocka_unit_test(an_event_takes_the_room_it_needs_at_any_size),
        cmocka_unit_test(events_first_take_what_the_sample_leaves_blank),
        cmocka_unit_test(words_are_chosen_by_the_room_there_is),
        cmocka_unit_test(dashes_and_quotes_have_a_width_in_every_locale),
        cmocka_unit_test(wrapped_rows_are_counted_as_drawn),
        cmocka_unit_test(layout_uses_the_room_there_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
