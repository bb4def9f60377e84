/* Tests of the widgets that draw text: glyphs, grid, axis, gauge, sparkline, wrapping, input. */
#include <locale.h>
#include <math.h>

#include "tests/cmocka.h"
#include "tests/tui/widget/cells.h"
#include "tui/view/keys.h"
#include "tui/view/run_model.h"
#include "tui/widget/axis.h"
#include "tui/widget/bars.h"
#include "tui/widget/grid.h"

/* --- glyphs --- */

TEST_CASE(glyph_set_follows_codeset_and_terminal)
{
    assert_int_equal(glyph_level_detect("UTF-8", "xterm-256color"), GLYPHS_BRAILLE);
    assert_int_equal(glyph_level_detect("UTF-8", NULL), GLYPHS_BRAILLE);
    assert_int_equal(glyph_level_detect("UTF-8", "linux"), GLYPHS_BLOCK);
    assert_int_equal(glyph_level_detect("UTF-8", "vt220"), GLYPHS_BLOCK);
    assert_int_equal(glyph_level_detect("ANSI_X3.4-1968", "xterm"), GLYPHS_ASCII);
    assert_int_equal(glyph_level_detect(NULL, "xterm"), GLYPHS_ASCII);
}

TEST_CASE(broken_utf8_is_replaced_a_byte_at_a_time)
{
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

TEST_CASE(code_points_survive_a_round_trip)
{
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

TEST_CASE(text_is_clipped_and_ends_in_an_ellipsis)
{
    struct grid grid = make_grid(10, 2, GLYPHS_BRAILLE);
    assert_int_equal(grid_text(&grid, 2, 0, 5, STYLE_TEXT, 0, "learning"), 5);
    assert_row(&grid, 0, "  lear\xE2\x80\xA6");
    grid_text(&grid, -3, 1, 20, STYLE_TEXT, 0, "abcdefghijklmnop");
    assert_row(&grid, 1, "defghijklm");
    grid_text(&grid, 0, 5, 20, STYLE_TEXT, 0, "below the grid"); /* nothing, and no crash */
    grid_text(&grid, 0, -1, 20, STYLE_TEXT, 0, "above the grid");
    grid_fill(&grid, (struct rect){-5, -5, 100, 100}, '.', STYLE_TEXT);
    assert_row(&grid, 1, "..........");
    grid_release(&grid);
}

TEST_CASE(double_width_characters_keep_their_halves_together)
{
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

TEST_CASE(ascii_grid_holds_only_ascii)
{
    struct grid grid = make_grid(24, 4, GLYPHS_ASCII);
    grid_box(&grid, (struct rect){0, 0, 24, 3}, STYLE_TEXT, "\xE2\x98\x85 best");
    grid_text(&grid, 1, 1, 20, STYLE_TEXT, 0, "\xE2\x97\x8F \xE2\x9C\x93 \xC3\xA9 \xE4\xBD\xA0 \xE2\x80\xA6");
    for (int i = 0; i < 24 * 4; i++) assert_in_range(grid.cells[i].glyph, ' ', '~');
    assert_row(&grid, 0, "+- * best -------------+");
    grid_release(&grid);
}

TEST_CASE(control_characters_never_reach_a_cell)
{
    struct grid grid = make_grid(16, 1, GLYPHS_BRAILLE);
    grid_text(&grid, 0, 0, 16, STYLE_TEXT, 0,
              "a\x1B[31mb\x07\x7F\xC2\x9B"
              "c");
    for (int i = 0; i < 16; i++) assert_true(grid.cells[i].glyph >= ' ' && grid.cells[i].glyph != 0x7F);
    for (int i = 0; i < 16; i++) assert_true(grid.cells[i].glyph < 0x80 || grid.cells[i].glyph >= 0xA0);
    grid_release(&grid);
}

/* --- axis --- */

TEST_CASE(ticks_are_round_rising_and_inside)
{
    double ranges[][2] = {{0, 1},        {2.137, 8.94},     {-3, 17},         {0, 50000},
                          {3e-5, 3e-4},  {1e-300, 1e300},   {5, 5},           {0, 0},
                          {-1e-9, 1e-9}, {99999, 100001},   {INFINITY, 1},    {NAN, NAN},
                          {7, -7},       {1e305, 1e306},    {-1e306, -1e305}, {1e15, 1e15 + 8},
                          {0, 5e-324},   {-1e-310, 2e-310}, {1e-310, 1e-308}};
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

/* The number that a label shows. */
static double label_value(const char *label)
{
    static const struct {
        char suffix;
        double scale;
    } units[] = {{'k', 1e3}, {'M', 1e6}, {'B', 1e9}, {'T', 1e12}};
    char *end;
    double value = strtod(label, &end);
    for (size_t u = 0; u < sizeof units / sizeof *units; u++)
        if (*end == units[u].suffix) value *= units[u].scale, end++;
    assert_int_equal(*end, '\0');
    return value;
}

/* Random numbers in [0, 1), the same every time. */
static double chance(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 11) / (double)(UINT64_C(1) << 53);
}

static void assert_even(const struct axis *axis)
{
    double step = axis->count > 1 ? axis->tick[1] - axis->tick[0] : 0;
    for (int i = 0; i < axis->count; i++) {
        double shown = label_value(axis->label[i]);
        if (fabs(shown - axis->tick[i]) > 1e-6 * fmax(step, fabs(axis->tick[i]))) {
            fail_msg("the tick at %.17g of %.17g..%.17g reads %s", axis->tick[i], axis->lo, axis->hi,
                     axis->label[i]);
        }
        if (i < 2) continue;
        double gap = axis->tick[i] - axis->tick[i - 1];
        if (fabs(gap - step) > 1e-6 * step)
            fail_msg("ticks of %.17g..%.17g are not even: %s %s %s", axis->lo, axis->hi, axis->label[i - 2],
                     axis->label[i - 1], axis->label[i]);
    }
    if (axis->count < 2) return;
    /* there is none missing at the ends */
    assert_true(axis->tick[0] - step < axis->lo && axis->tick[axis->count - 1] + step > axis->hi);
}

/* On a logarithmic axis, neighbours lie a decade or several apart, or have digits 1, 2, 5 or 1, 3. */
static void assert_even_ratios(const struct axis *axis)
{
    double least = INFINITY, most = 0;
    for (int i = 1; i < axis->count; i++) {
        double ratio = axis->tick[i] / axis->tick[i - 1];
        least = fmin(least, ratio);
        most = fmax(most, ratio);
        assert_true(fabs(label_value(axis->label[i]) - axis->tick[i]) <= 1e-6 * axis->tick[i]);
    }
    if (most > least * 1.26)
        fail_msg("ticks of %.17g..%.17g are not even: ratios from %g to %g", axis->lo, axis->hi, least, most);
}

TEST_CASE(ticks_are_even_and_read_as_they_are_at_all_scales)
{
    uint64_t seed = 1;
    int logarithmic = 0;
    for (int i = 0; i < 40000; i++) {
        double lo = (chance(&seed) - 0.3) * pow(10, floor(chance(&seed) * 24 - 10)),
               span = pow(10, chance(&seed) * 24 - 10);
        int max = 2 + (int)(chance(&seed) * 15);
        struct axis axis;
        if (span < fabs(lo) * 1e-2) span = fabs(lo) * 1e-2; /* a label has few digits */
        axis_init(&axis, lo, lo + span, false, max);
        assert_even(&axis);
        axis_init_steps(&axis, floor(fabs(lo)), floor(fabs(lo)) + ceil(span), false, max);
        assert_even(&axis);
        for (int t = 0; t < axis.count; t++) assert_true(axis.tick[t] == floor(axis.tick[t]));
        if (!(lo > 0)) continue;
        axis_init(&axis, lo, lo + span, true, max);
        if (axis.hi / axis.lo < 100) continue; /* linear ticks then */
        assert_even_ratios(&axis);
        logarithmic++;
    }
    assert_true(logarithmic > 5000);
}

TEST_CASE(tick_labels_are_short)
{
    static const struct {
        double lo, hi;
        bool steps, log;
        int most;
        const char *labels;
    } cases[] = {{2.2, 8.5, false, false, 4, "4 6 8"},
                 {0, 3e-4, false, false, 4, "0 1e-4 2e-4 3e-4"},
                 {0.9, 2.1, false, false, 4, "1.0 1.5 2.0"},
                 {11000, 14000, false, false, 5, "11k 12k 13k 14k"},
                 {0.02, 30, false, true, 8, "0.03 0.1 0.3 1 3 10 30"},
                 {0.005, 5e8, false, true, 4, "0.01 100 1M"}, /* each fourth decade, from the first inside */
                 {2, 200, false, true, 1, "10"},              /* two decades */
                 {2, 190, false, true, 1, "100"},
                 {0, 3, true, false, 10, "0 1 2 3"},
                 {0, 50000, true, false, 6, "0 10k 20k 30k 40k 50k"},
                 {0, 200000, true, true, 8, "1 10 100 1000 10k 100k"},
                 {1200, 1900, true, true, 4, "1200 1400 1600 1800"}}; /* no decade */
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct axis axis;
        char got[256] = "";
        (cases[c].steps ? axis_init_steps : axis_init)(&axis, cases[c].lo, cases[c].hi, cases[c].log,
                                                       cases[c].most);
        for (int i = 0; i < axis.count; i++) sprintf(got + strlen(got), "%s%s", i ? " " : "", axis.label[i]);
        assert_string_equal(got, cases[c].labels);
    }
}

TEST_CASE(labels_without_room_are_distances_from_the_first)
{
    static const struct {
        double lo, hi;
        int width;
        const char *labels;
    } cases[] = {{1, 2, 6, "1.0 1.2 1.4 1.6 1.8 2.0"}, /* they have room */
                 {1, 1 + 6e-7, 6, "1.000 +1e-7 +2e-7 +3e-7 +4e-7 +5e-7 +6e-7"},
                 {1, 1.000003, 6, "1.000 +5e-7 +1e-6 +15e-7 +2e-6 +25e-7 +3e-6"},
                 {2, 2 + 3e-10, 6, "2.000 +5e-11 +1e-10  +2e-10  +3e-10"},
                 {-20000.5, -20000, 6, "-20.0k +0.1 +0.2 +0.3 +0.4 +0.5"},
                 {123456, 123458, 6, "123k +0.5 +1 +1.5 +2"}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct axis axis;
        char got[256] = "";
        axis_init(&axis, cases[c].lo, cases[c].hi, false, 7);
        axis_shorten(&axis, cases[c].width);
        for (int i = 0; i < axis.count; i++) sprintf(got + strlen(got), "%s%s", i ? " " : "", axis.label[i]);
        assert_string_equal(got, cases[c].labels);
    }
}

TEST_CASE(every_place_on_an_axis_has_a_value)
{
    static const double ranges[][2] = {{0, 1}, {0, 1e6}, {7, 7}, {1000, 200000}, {1e6, 1e18}};
    for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++) {
        for (int log = 0; log < 2; log++) {
            struct axis axis;
            axis_init_steps(&axis, ranges[r][0], ranges[r][1], log, 6);
            assert_float_equal(axis_value(&axis, 0), axis.lo, 1e-9 * axis.lo);
            for (int i = 0; i <= 100; i++)
                assert_float_equal(axis_position(&axis, axis_value(&axis, i / 100.0)), i / 100.0, 1e-9);
        }
    }
}

TEST_CASE(numbers_have_four_digits_and_say_what_is_not_finite)
{
    struct {
        double value;
        const char *text;
    } cases[] = {{3.12449, "3.124"},       {12.345, "12.35"},     {0, "0"},         {0.0003, "3.00e-4"},
                 {0.000123456, "1.23e-4"}, {999.99, "1000"},      {12345, "12.3k"}, {NAN, "NaN"},
                 {-INFINITY, "-inf"},      {0.0123456, "0.0123"}, {1e300, "1e300"}, {-2.5, "-2.500"},
                 {9.99951, "10.00"},       {9999.5, "10.0k"},     {1e15, "1e15"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[32];
        assert_string_equal(axis_format(cases[i].value, text, sizeof text), cases[i].text);
    }
    char text[32];
    assert_string_equal(axis_format_within(0.000729, 7, text, sizeof text), "7.29e-4");
    assert_string_equal(axis_format_within(0.000729, 6, text, sizeof text), "7.3e-4");
    assert_string_equal(axis_format_within(-0.000729, 6, text, sizeof text), "-7e-4");
    assert_string_equal(axis_format_within(0.0729, 6, text, sizeof text), "0.0729");
    assert_string_equal(axis_format_within(12345, 4, text, sizeof text),
                        "12.3k"); /* has no exponent to cut */
}

/* --- gauge and sparkline --- */

TEST_CASE(gauge_is_full_only_at_one_and_empty_only_at_zero)
{
    struct grid grid = make_grid(4, 5, GLYPHS_BRAILLE);
    static const struct {
        double fraction;
        const char *bar;
    } cases[] = {{0, "░░░░"}, {1e-9, "▏░░░"}, {0.999999, "███▉"}, {7, "████"}, {NAN, "░░░░"}};
    for (int i = 0; i < 5; i++) {
        gauge_draw(&grid, 0, i, 4, STYLE_TEXT, cases[i].fraction);
        assert_row(&grid, i, cases[i].bar);
    }
    grid.level = GLYPHS_ASCII;
    gauge_draw(&grid, 0, 0, 4, STYLE_TEXT, 0.5);
    assert_row(&grid, 0, "##..");
    gauge_draw(&grid, 0, 1, 1, STYLE_TEXT, 0.9); /* one cell that is either: not full */
    assert_true(grid.cells[4].glyph == '.');
    grid_release(&grid);
}

TEST_CASE(sparkline_shows_a_spike_of_one_step)
{
    struct grid grid = make_grid(8, 1, GLYPHS_BRAILLE);
    struct series_point points[800];
    for (int i = 0; i < 800; i++) points[i] = series_point_of(i, i == 437 ? 9 : 1);
    sparkline_draw(&grid, 0, 0, 8, STYLE_TEXT, points, 800);
    assert_row(&grid, 0, "▁▁▁▁█▁▁▁");
    for (int i = 100; i < 200; i++) points[i] = series_point_of(i, NAN);
    sparkline_draw(&grid, 0, 0, 8, STYLE_TEXT, points, 800);
    assert_row(&grid, 0, "▁✗▁▁█▁▁▁");
    grid_release(&grid);
}

TEST_CASE(sparkline_of_a_noisy_falling_loss_falls)
{
    struct grid grid = make_grid(8, 1, GLYPHS_BRAILLE);
    struct series_point points[800];
    for (int i = 0; i < 800; i++)
        points[i] = series_point_of(i, 9 - 0.01 * i + (i % 2 ? 3 : -3) + (i % 50 == 7 ? 2 : 0));
    sparkline_draw(&grid, 0, 0, 8, STYLE_TEXT, points, 800);
    assert_row(&grid, 0, "█▇▆▅▄▃▂▁");
    grid_release(&grid);
}

TEST_CASE(sparkline_crosses_only_a_wholly_lost_cell_and_the_newest)
{
    struct grid grid = make_grid(8, 1, GLYPHS_BRAILLE);
    struct series_point points[800];
    for (int i = 0; i < 800; i++) points[i] = series_point_of(i, i < 400 ? 1 : 2);
    points[150] = series_point_of(150, NAN);
    for (int i = 300; i < 400; i++) points[i] = series_point_of(i, INFINITY);
    sparkline_draw(&grid, 0, 0, 8, STYLE_TEXT, points, 800);
    assert_row(&grid, 0, "▁▁▁✗████");
    points[750] = series_point_of(750, NAN);
    sparkline_draw(&grid, 0, 0, 8, STYLE_TEXT, points, 800);
    assert_row(&grid, 0, "▁▁▁✗███✗");
    /* buckets wider than a cell: the last one is the newest, though it begins before the last cell */
    struct series_point wide[] = {{0, 3, 1, 1, 1, 1, 4, 0}, {4, 7, 2, 2, 2, 2, 4, 1}};
    grid_fill(&grid, (struct rect){0, 0, 8, 1}, ' ', STYLE_TEXT);
    sparkline_draw(&grid, 0, 0, 8, STYLE_TEXT, wide, 2);
    assert_row(&grid, 0, "▁   ✗");
    grid_release(&grid);
}

TEST_CASE(sparkline_of_any_width_stays_in_it)
{
    static const int widths[] = {-8, 0, 1, 256, 300}; /* 256 at most */
    struct series_point points[800];
    for (int i = 0; i < 800; i++) points[i] = series_point_of(i, 1);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        struct grid grid = make_grid(310, 1, GLYPHS_BRAILLE);
        int drawn = 0, wanted = widths[i] < 0 ? 0 : widths[i] > 256 ? 256 : widths[i];
        sparkline_draw(&grid, 2, 0, widths[i], STYLE_TEXT, points, 800);
        for (int x = 0; x < 310; x++) drawn += grid.cells[x].glyph != ' ';
        assert_int_equal(drawn, wanted);
        grid_release(&grid);
    }
}

TEST_CASE(sparkline_in_ascii_has_four_heights)
{
    struct grid grid = make_grid(9, 1, GLYPHS_ASCII);
    struct series_point points[8];
    for (int i = 0; i < 8; i++) points[i] = series_point_of(i, i);
    sparkline_draw(&grid, 1, 0, 8, STYLE_TEXT, points, 8);
    assert_row(&grid, 0, " __..--''"); /* 0/7 … 7/7, to the nearest third */
    for (int i = 0; i < 8; i++) points[i] = series_point_of(i, 3);
    sparkline_draw(&grid, 1, 0, 8, STYLE_TEXT, points, 8);
    assert_row(&grid, 0, " --------"); /* a flat line lies in the middle */
    grid_release(&grid);
}

TEST_CASE(a_box_has_four_corners_and_a_title)
{
    struct grid grid = make_grid(12, 4, GLYPHS_BRAILLE);
    struct rect inside = grid_box(&grid, (struct rect){1, 0, 10, 4}, STYLE_TEXT, "Keys");
    assert_row(&grid, 0, " ┌─ Keys ─┐");
    assert_row(&grid, 1, " │        │");
    assert_row(&grid, 3, " └────────┘");
    assert_int_equal(inside.x, 2);
    assert_int_equal(inside.y, 1);
    assert_int_equal(inside.w, 8);
    assert_int_equal(inside.h, 2);
    inside = grid_box(&grid, (struct rect){3, 1, 1, 3}, STYLE_TEXT, "x");
    assert_true(inside.w <= 0 || inside.h <= 0);
    grid_release(&grid);
}

TEST_CASE(a_title_and_lines_take_rows_off_their_area)
{
    struct grid grid = make_grid(20, 4, GLYPHS_BRAILLE);
    struct rect area = {1, 0, 18, 2};
    grid_title(&grid, &area, "memory", "on one scale");
    assert_row(&grid, 0, "  memory on one sc…");
    assert_int_equal(area.h, 1);
    grid_line(&grid, &area, STYLE_TEXT, 0, "%d of %d rows", 1, 1);
    assert_row(&grid, 1, "  1 of 1 rows");
    grid_line(&grid, &area, STYLE_TEXT, 0, "no room");
    assert_row(&grid, 2, "");
    assert_int_equal(area.y, 2);
    area = (struct rect){0, 3, 20, 1};
    grid_title(&grid, &area, "run", NULL);
    assert_row(&grid, 3, " run ───────────────");
    grid_release(&grid);
}

/* --- wrapping, tables, input --- */

TEST_CASE(an_input_is_edited_at_its_cursor)
{
    struct input input = {0};
    input_set(&input, "abc\xC3\xA9");
    input_key(&input, 'd');
    assert_string_equal(input.text, "abc\xC3\xA9"
                                    "d");
    input_key(&input, K_HOME);
    input_key(&input, K_BACKSPACE);
    input_key(&input, K_LEFT);
    input_key(&input, '>');
    assert_string_equal(input.text, ">abc\xC3\xA9"
                                    "d");
    input_key(&input, K_RIGHT);
    input_key(&input, K_DELETE);
    assert_string_equal(input.text, ">ac\xC3\xA9"
                                    "d");
    for (int i = 0; i < 9; i++) input_key(&input, K_RIGHT);
    input_key(&input, K_LEFT);
    input_key(&input, K_BACKSPACE);
    assert_string_equal(input.text, ">acd");
    input_key(&input, K_END);
    input_key(&input, K_BACKSPACE);
    assert_string_equal(input.text, ">ac");
    char lengthy[INPUT_MAX + 10];
    memset(lengthy, 'x', sizeof lengthy);
    memcpy(lengthy + INPUT_MAX - 2, "\xC3\xA9", 3); /* does not fit whole */
    input_set(&input, lengthy);
    assert_int_equal(strlen(input.text), INPUT_MAX - 2);
    assert_int_equal(input.cursor, INPUT_MAX - 2);
    input_key(&input, 0xE9);
    input_key(&input, 'y');
    input_key(&input, 'z');
    assert_int_equal(strlen(input.text), INPUT_MAX - 1);
}

TEST_CASE(text_wraps_at_words_and_cuts_long_ones)
{
    struct grid grid = make_grid(10, 4, GLYPHS_BRAILLE);
    struct rect area = {0, 0, 10, 4};
    assert_int_equal(wrap_draw(&grid, area, STYLE_TEXT, "In the beginning\nGod createdtheheavens"), 4);
    assert_row(&grid, 0, "In the");
    assert_row(&grid, 1, "beginning");
    assert_row(&grid, 2, "God");
    assert_row(&grid, 3, "createdth\xE2\x80\xA6");
    grid_release(&grid);
}

TEST_CASE(wrapping_advances_at_every_width)
{
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

TEST_CASE(input_edits_whole_characters)
{
    struct input input = {0};
    input_key(&input, 'a');
    input_key(&input, 0xE9);
    input_key(&input, 0x4F60);
    assert_string_equal(input.text, "a\xC3\xA9\xE4\xBD\xA0");
    input_key(&input, K_LEFT);
    input_key(&input, K_BACKSPACE);
    assert_string_equal(input.text, "a\xE4\xBD\xA0");
    input_key(&input, K_DELETE);
    assert_string_equal(input.text, "a");
    input_key(&input, K_DELETE);
    input_key(&input, '\x1B');
    for (int i = 0; i < 1000; i++) input_key(&input, 0x4F60);
    assert_true(strlen(input.text) < INPUT_MAX);
    const char *at = input.text;
    for (uint32_t c; (c = glyph_next(&at)) != 0;) assert_true(c == 'a' || c == 0x4F60);
}

TEST_CASE(facts_are_written_whole_or_not_at_all)
{
    struct grid grid = make_grid(20, 2, GLYPHS_BRAILLE);
    struct pen pen = {&grid, 1, 0, 19};
    pen_fact(&pen, "loss", STYLE_TEXT, "%d", 12);
    pen_fact(&pen, "a long label", STYLE_TEXT, "%d", 3);
    pen_fact(&pen, "", STYLE_TEXT, "%s", "fits");
    assert_row(&grid, 0, " loss 12   fits");
    pen = (struct pen){&grid, 0, 1, 12};
    pen_print(&pen, STYLE_TEXT, 0, "%s is", "this");
    pen_print(&pen, STYLE_TEXT, 0, " too long");
    assert_row(&grid, 1, "this is too…");
    assert_int_equal(pen.x, pen.end);
    pen_print(&pen, STYLE_TEXT, 0, "x");
    assert_row(&grid, 1, "this is too…");
    grid_release(&grid);
}

TEST_CASE(dashes_and_quotes_have_a_width_in_every_locale)
{
    setlocale(LC_CTYPE, "C");
    int width = glyph_text_width("a – ‘b’ …");
    setlocale(LC_CTYPE, "C.UTF-8");
    assert_int_equal(width, 9);
}

TEST_CASE(wrapped_rows_are_counted_as_drawn)
{
    static const char text[] = "In the beginning God created the heaven and the earth.\nAnd the earth";
    struct grid grid = make_grid(60, 60, GLYPHS_BRAILLE);
    for (int w = 2; w <= 60; w++)
        assert_int_equal(wrap_rows(text, w), wrap_draw(&grid, (struct rect){0, 0, w, 60}, STYLE_TEXT, text));
    assert_int_equal(wrap_rows("", 10), 0);
    grid_release(&grid);
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    return TEST_RUN(NULL, NULL);
}
