/* Tests of the charts: golden drawings at small sizes, and properties that hold at every size. */
#include <locale.h>
#include <math.h>

#include "tests/cmocka.h"
#include "tests/tui/widget/chart_scene.h"
#include "tui/widget/axis.h"

static void assert_picture(const struct grid *grid, const char *expected)
{
    char picture[16384] = "", row[4096];
    for (int y = 0; y < grid->h; y++) {
        strcat(picture, grid_row(grid, y, row, sizeof row));
        strcat(picture, "\n");
    }
    if (strcmp(picture, expected) != 0) fail_msg("the picture is\n%sand should be\n%s", picture, expected);
}

CHART_CASE(a_ramp_in_braille)
{
    struct scene *scene = *state;
    chart_scene_ramp(scene, 101);
    chart_scene_draw(scene, 27, 7);
    assert_picture(&scene->grid, " loss 100.0 ───────────────\n"
                                 "   100┤ ·   ·   ·   ·  ⣀⡤⠖⠋\n"
                                 "      │            ⣀⠤⠖⠋⠁\n"
                                 "    50┤ ·   ·  ⣀⠤⠖⠉ ·   ·\n"
                                 "      │   ⢀⣠⠴⠒⠉\n"
                                 "     0┤⣠⠴⠚⠉ ·   ·   ·   ·\n"
                                 "       0                100\n");
}

CHART_CASE(an_event_is_marked_above_its_step_while_that_is_shown)
{
    struct scene *scene = *state;
    static const struct chart_mark events[] = {{50, true}, {101, true}, {700, true}};
    chart_scene_ramp(scene, 101);
    scene->chart.marks = events;
    scene->chart.mark_count = 3;
    scene->chart.events = true;
    chart_scene_draw(scene, 27, 7);
    assert_picture(&scene->grid, " loss 100.0 ───────────────\n"
                                 "   100┤ ·   ·   ·!  ·  ⣀⡤⠖⠋\n"
                                 "      │            ⣀⠤⠖⠋⠁\n"
                                 "    50┤ ·   ·  ⣀⠤⠖⠉ ·   ·\n"
                                 "      │   ⢀⣠⠴⠒⠉\n"
                                 "     0┤⣠⠴⠚⠉ ·   ·   ·   ·\n"
                                 "       0                100\n");
}

CHART_CASE(logarithmic_steps_spread_the_beginning)
{
    struct scene *scene = *state;
    for (int i = 0; i <= 1000; i++) scene->points[i] = series_point_of(i, i < 1 ? 0 : log10(i));
    scene->chart.trace[0].count = 1001;
    scene->chart.last_step = 1000;
    scene->chart.log_steps = true;
    chart_scene_draw(scene, 47, 7);
    assert_picture(&scene->grid, " loss 3.000 ───────────────────────────────────\n"
                                 "      │                                ⣀⣀⣠⠤⠴⠒⠚⠉\n"
                                 "     2┤ ·   ·   ·   ·   ·   ·  ⣀⣀⡤⠤⠖⠒⠋⠉⠁·   ·\n"
                                 "      │                ⣀⣠⠤⠤⠒⠒⠋⠉⠁\n"
                                 "      │       ⢀⣀⡠⠤⠔⠒⠊⠉⠉\n"
                                 "     0┤⣀⠤⠤⠒⠒⠊⠉⠁ ·   ·   ·   ·   ·   ·   ·   ·\n"
                                 "       1           10           100        1000\n");
}

CHART_CASE(a_ramp_in_ascii)
{
    struct scene *scene = *state;
    scene->grid.level = GLYPHS_ASCII;
    chart_scene_ramp(scene, 101);
    chart_scene_draw(scene, 27, 7);
    assert_picture(&scene->grid, " loss 100.0 ---------------\n"
                                 "   100+                ..''\n"
                                 "      |            ..'''\n"
                                 "    50+        ..''\n"
                                 "      |   ...''\n"
                                 "     0+..''\n"
                                 "       0                100\n");
}

CHART_CASE(an_empty_chart_waits)
{
    struct scene *scene = *state;
    scene->chart.last_step = 1;
    chart_scene_draw(scene, 40, 6);
    assert_picture(&scene->grid, " loss -- ───────────────────────────────\n"
                                 "      │\n"
                                 "      │\n"
                                 "      │ waiting for the first value\n"
                                 "      │\n"
                                 "       0                               1\n");
}

/* Whether any plot cell of row y holds a dot. */
static bool row_has_dots(const struct scene *scene, int y)
{
    struct rect plot = chart_plot((struct rect){0, 0, scene->grid.w, scene->grid.h});
    for (int x = plot.x; x < plot.x + plot.w; x++)
        if (scene->grid.cells[y * scene->grid.w + x].style == STYLE_TRAIN) return true;
    return false;
}

static int count_glyph(const struct grid *grid, uint32_t glyph)
{
    int count = 0;
    for (int i = 0; i < grid->w * grid->h; i++) count += grid->cells[i].glyph == glyph;
    return count;
}

CHART_CASE(nan_and_infinity_are_marked_and_not_drawn_as_numbers)
{
    struct scene *scene = *state;
    chart_scene_ramp(scene, 100);
    scene->points[50] = series_point_of(50, NAN);
    scene->points[90] = series_point_of(90, INFINITY);
    chart_scene_draw(scene, 60, 12);
    assert_int_equal(count_glyph(&scene->grid, 0x2717), 2);
    for (int i = 0; i < 100; i++) scene->points[i] = series_point_of(i, NAN);
    chart_scene_draw(scene, 60, 12);
    char row[512];
    assert_non_null(strstr(grid_row(&scene->grid, 6, row, sizeof row), "no finite value"));
    assert_non_null(strstr(grid_row(&scene->grid, 0, row, sizeof row), "NaN"));
    assert_true(count_glyph(&scene->grid, 0x2717) > 10);
}

CHART_CASE(a_line_breaks_where_there_was_no_number)
{
    struct scene *scene = *state;
    for (int lost = 0; lost < 3; lost++) {
        chart_scene_ramp(scene, 60);
        for (int i = 20; i < 40; i++)
            scene->points[i] =
                lost == 0 ? series_point_of(i, 30) : series_point_of(i, lost == 1 ? NAN : -INFINITY);
        if (lost) scene->points[30] = series_point_of(30, 15); /* a number between two gaps */
        chart_scene_draw(scene, 67, 12);
        struct rect plot = chart_plot((struct rect){0, 0, 67, 12});
        int blank = 0, between = 0;
        for (int x = plot.x + 21; x < plot.x + 39; x++) {
            int dots = 0;
            for (int y = plot.y; y < plot.y + plot.h; y++)
                dots += scene->grid.cells[y * 67 + x].style == STYLE_TRAIN;
            blank += !dots;
            between += dots && x >= plot.x + 29 && x <= plot.x + 31;
        }
        if (lost) assert_in_range(blank, 16, 18);
        if (lost) assert_in_range(between, 1, 2);
        if (!lost) assert_int_equal(blank, 0);
    }
    /* where nothing was recorded at all the line goes on: steps apart are not lost ones */
    for (int i = 0; i < 4; i++) scene->points[i] = series_point_of(20 * i, 7);
    scene->chart.trace[0].count = 4;
    scene->chart.last_step = 60;
    chart_scene_draw(scene, 67, 12);
    int dots = 0;
    for (int x = CHART_MARGIN; x < 67; x++)
        for (int y = 1; y < 11; y++) dots += scene->grid.cells[y * 67 + x].style == STYLE_TRAIN;
    assert_int_equal(dots, 60);
}

CHART_CASE(orders_are_marked_below_the_curve_while_their_step_is_shown)
{
    struct scene *scene = *state;
    static const struct chart_mark orders[] = {{0, false}, {30, false}, {40, true}, {60, false}, {61, false}};
    for (int i = 0; i < 61; i++) scene->points[i] = series_point_of(i, 60 - i);
    scene->points[5] = series_point_of(5, 1);
    scene->chart.trace[0].count = 61;
    scene->chart.last_step = 60;
    scene->chart.marks = orders;
    scene->chart.mark_count = 5;
    chart_scene_draw(scene, 68, 12);
    uint32_t bottom[61];
    for (int x = 0; x < 61; x++) bottom[x] = scene->grid.cells[10 * 68 + CHART_MARGIN + x].glyph;
    assert_int_equal(count_glyph(&scene->grid, 0x25B2), 2 + (bottom[60] == 0x25B2));
    assert_int_equal(bottom[0], 0x25B2);
    assert_int_equal(bottom[30], 0x25B2);
    scene->chart.first_step = 31;
    chart_scene_draw(scene, 68, 12);
    assert_true(count_glyph(&scene->grid, 0x25B2) <= 1);
}

CHART_CASE(noise_stays_small_on_an_axis_of_a_least_span)
{
    struct scene *scene = *state;
    char row[512];
    for (int i = 0; i < 60; i++) scene->points[i] = series_point_of(i, 1000 + i % 2);
    scene->chart.trace[0].count = 60;
    scene->chart.last_step = 59;
    chart_scene_draw(scene, 60, 12);
    assert_true(row_has_dots(scene, 1) && row_has_dots(scene, 10)); /* as wide as the values are */
    scene->chart.least_span = 0.25;
    chart_scene_draw(scene, 60, 12);
    for (int y = 1; y < 11; y++)
        assert_int_equal(row_has_dots(scene, y), y == 5 || (y == 6 && row_has_dots(scene, 6)));
    bool low = false, high = false; /* 875.1 to 1125.9 */
    for (int y = 1; y < 11; y++) {
        grid_row(&scene->grid, y, row, sizeof row);
        low = low || strstr(row, " 900");
        high = high || strstr(row, "1100");
    }
    assert_true(low && high);
    scene->chart.least_span = 0;
    scene->chart.zero = true; /* from zero, with a twentieth above */
    chart_scene_draw(scene, 60, 12);
    assert_true(row_has_dots(scene, 1) && !row_has_dots(scene, 3));
    assert_non_null(strstr(grid_row(&scene->grid, 10, row, sizeof row), "     0"));
    scene->points[30] = series_point_of(30, 1); /* rare, but the axis has room for it anyway */
    scene->chart.outliers = true;
    chart_scene_draw(scene, 60, 12);
    assert_null(strstr(grid_row(&scene->grid, 0, row, sizeof row), "all values"));
    scene->points[30] = series_point_of(30, 1e6);
    chart_scene_draw(scene, 60, 12);
    assert_non_null(strstr(grid_row(&scene->grid, 0, row, sizeof row), "all values"));
}

/* Rare values are marked instead of drawn, but not the newest one. */
CHART_CASE(the_newest_value_is_on_the_axis_unless_it_is_infinite)
{
    struct scene *scene = *state;
    char row[512];
    static const struct {
        double outlier, newest;
        bool exponential;
        const char *title;
    } cases[] = {{2, 2, false, "loss 2.000 ─"},
                 {40, 2, false, "loss 2.000 1 above ↑ ─"},
                 {2, 40, false, "loss 40.00 ─"},
                 {2, -40, false, "loss -40.00 ─"},
                 {10, 1000, true, "loss inf 2 above ↑ ─"}};
    scene->chart.trace[0].count = 100;
    scene->chart.last_step = 99;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        for (int i = 0; i < 100; i++) scene->points[i] = series_point_of(i, 2 + 0.1 * (i % 3));
        scene->points[50] = series_point_of(50, cases[c].outlier);
        scene->points[99] = series_point_of(99, cases[c].newest);
        scene->chart.exponential = cases[c].exponential;
        chart_scene_draw(scene, 60, 12);
        if (!strstr(grid_row(&scene->grid, 0, row, sizeof row), cases[c].title))
            fail_msg("%s, not %s", row, cases[c].title);
    }
}

CHART_CASE(title_shows_the_newest_value_and_the_cursor_its_own)
{
    struct scene *scene = *state;
    char row[512];
    chart_scene_ramp(scene, 100);
    chart_scene_draw(scene, 60, 12);
    assert_non_null(strstr(grid_row(&scene->grid, 0, row, sizeof row), "loss 99.00"));
    scene->chart.cursor = 25;
    chart_scene_draw(scene, 60, 12);
    assert_non_null(strstr(grid_row(&scene->grid, 0, row, sizeof row), "@25 25.00"));
    assert_true(count_glyph(&scene->grid, 0x250A) > 3);
}

CHART_CASE(a_smoothed_title_has_the_average_and_the_value_with_and_without_a_cursor)
{
    struct scene *scene = *state;
    char row[512];
    struct series_value at = {true, INFINITY, NAN};
    chart_scene_ramp(scene, 100);
    for (int i = 0; i < 100; i++) scene->smooth[i] = i / 2.0;
    scene->chart.trace[0].smooth = scene->smooth;
    chart_scene_draw(scene, 60, 12);
    assert_non_null(strstr(grid_row(&scene->grid, 0, row, sizeof row), "loss 49.50 (99.00)"));
    scene->chart.cursor = 99;
    chart_scene_draw(scene, 60, 12);
    assert_non_null(strstr(grid_row(&scene->grid, 0, row, sizeof row), "@99 49.50 (99.00)"));
    scene->chart.trace[0].at = &at; /* what was recorded, though the point has another value */
    chart_scene_draw(scene, 60, 12);
    assert_non_null(strstr(grid_row(&scene->grid, 0, row, sizeof row), "@99 inf ─"));
    at.known = false;
    chart_scene_draw(scene, 60, 12);
    assert_non_null(strstr(grid_row(&scene->grid, 0, row, sizeof row), "@99 -- ─"));
}

CHART_CASE(the_best_evaluation_is_starred)
{
    struct scene *scene = *state;
    chart_scene_ramp(scene, 100);
    scene->chart.best_step = 40;
    scene->chart.best = 40;
    chart_scene_draw(scene, 60, 12);
    char row[512];
    assert_non_null(strstr(grid_row(&scene->grid, 0, row, sizeof row), "40.00 @40"));
    assert_int_equal(count_glyph(&scene->grid, 0x2605), 2); /* in the title and at its place */
    scene->chart.first_step = 60;                           /* zoomed past it */
    chart_scene_draw(scene, 60, 12);
    assert_int_equal(count_glyph(&scene->grid, 0x2605), 1);
}

CHART_CASE(a_long_name_loses_its_middle_and_leaves_room_for_the_value)
{
    struct scene *scene = *state;
    char row[500];
    chart_scene_ramp(scene, 101);
    scene->chart.title = "grad_norm_model_layers_11_self_attention_projection_bias";
    chart_scene_draw(scene, 60, 7);
    grid_row(&scene->grid, 0, row, sizeof row);
    if (!strstr(row, " grad_norm_model_laye\u2026ention_projection_bias 100.0 ")) fail_msg("%s", row);
    chart_scene_draw(scene, 100, 7);
    assert_non_null(strstr(grid_row(&scene->grid, 0, row, sizeof row), "projection_bias 100.0 "));
    assert_null(strstr(row, "\u2026"));
}

/* The whole title of a compared run's chart, and no number in it cut. */
CHART_CASE(a_narrow_title_has_fewer_words_but_no_cut_number)
{
    struct scene *scene = *state;
    char row[512];
    chart_scene_ramp(scene, 5000);
    scene->chart.trace_count = 3;
    scene->chart.trace[0].name = "train";
    scene->chart.trace[1] = scene->chart.trace[2] = scene->chart.trace[0];
    scene->chart.trace[1].name = "val";
    scene->chart.trace[2].name = "lion-first";
    scene->chart.best_step = 4100;
    scene->chart.best = 1.834;
    chart_scene_draw(scene, 75, 12);
    assert_string_equal(grid_row(&scene->grid, 0, row, sizeof row),
                        " loss  ━ train 4999  ━ val 4999  ━ lion-first 4999  ★ best 1.834 @4100 ────");
    chart_scene_draw(scene, 66, 12);
    assert_string_equal(grid_row(&scene->grid, 0, row, sizeof row),
                        " loss  ━ train 4999  ━ val 4999  ━ lion-first 4999  ★ 1.834 @4100");
    chart_scene_draw(scene, 61, 12);
    assert_string_equal(grid_row(&scene->grid, 0, row, sizeof row),
                        " loss  ━ train 4999  ━ val 4999  ━ lion-first 4999  ★ 1.834 ─");
    chart_scene_draw(scene, 46, 12);
    assert_string_equal(grid_row(&scene->grid, 0, row, sizeof row),
                        " loss  ━ train 4999  ━ val 4999  ━ lion… 4999");
    chart_scene_draw(scene, 32, 12); /* not a column too many */
    assert_string_equal(grid_row(&scene->grid, 0, row, sizeof row), " loss  ━ train 4999  ━ val 4999");
    for (int w = 18; w < 90; w++) {
        chart_scene_draw(scene, w, 12);
        grid_row(&scene->grid, 0, row, sizeof row);
        for (const char *cut = row; (cut = strstr(cut, "…")) != NULL; cut += strlen("…"))
            assert_true(cut[strlen("…")] == ' '); /* a name, its value after it */
        for (const char *step = row; (step = strchr(step, '@')) != NULL; step++)
            assert_memory_equal(step, "@4100", 5);
    }
}

CHART_CASE(logarithmic_values_count_what_is_not_positive)
{
    struct scene *scene = *state;
    for (int i = 0; i < 100; i++)
        scene->points[i] = series_point_of(i, i == 3 ? 0 : i == 4 ? -1 : pow(10, i / 25.0));
    scene->points[5].min = -1; /* of several steps, some above 0 */
    scene->points[5].count = 20;
    scene->chart.trace[0].count = 100;
    scene->chart.last_step = 99;
    scene->chart.log = true;
    chart_scene_draw(scene, 60, 14);
    char row[512];
    assert_non_null(strstr(grid_row(&scene->grid, 0, row, sizeof row), "log"));
    assert_non_null(strstr(row, "3+ below ↓"));
    assert_non_null(strstr(grid_row(&scene->grid, 12, row, sizeof row), "↓"));
    assert_non_null(strstr(row, "     1┤")); /* the least value above 0 */
    bool decade = false;
    for (int y = 1; y < 13; y++)
        decade = decade || strstr(grid_row(&scene->grid, y, row, sizeof row), "1000");
    assert_true(decade);
    for (int i = 0; i < 100; i++)
        scene->points[i] = series_point_of(i, -i); /* nothing to take a logarithm of */
    chart_scene_draw(scene, 60, 14);
}

CHART_CASE(smoothing_keeps_the_raw_spike_in_sight)
{
    struct scene *scene = *state;
    for (int i = 0; i < 1000; i++) {
        scene->points[i] = series_point_of(i, i == 500 ? 40 : 1);
        scene->smooth[i] = 1;
    }
    scene->chart.trace[0].count = 1000;
    scene->chart.trace[0].smooth = scene->smooth;
    scene->chart.last_step = 999;
    chart_scene_draw(scene, 60, 12);
    int dim = 0;
    for (int x = CHART_MARGIN; x < 60; x++)
        dim += scene->grid.cells[60 + x].style == STYLE_DIM && scene->grid.cells[60 + x].glyph >= 0x2800;
    assert_true(dim >= 1);
}

CHART_CASE(values_that_differ_in_their_ninth_digit_have_labels_that_differ)
{
    struct scene *scene = *state;
    char row[512];
    bool first = false, other = false;
    for (int i = 0; i < 600; i++) scene->points[i] = series_point_of(i, 1 + 1e-9 * i);
    scene->chart.trace[0].count = 600;
    scene->chart.last_step = 599;
    chart_scene_draw(scene, 60, 16);
    for (int y = 1; y < 15; y++) {
        grid_row(&scene->grid, y, row, sizeof row);
        first = first || strstr(row, " 1.000┤");
        other = other || strstr(row, " +4e-7┤");
        assert_null(strstr(row, "…"));
    }
    assert_true(first && other);
}

CHART_CASE(no_size_and_no_data_makes_it_write_outside)
{
    struct scene *scene = *state;
    struct err err = {0};
    double nasty[] = {0, -0.0, 1e308, -1e308, 5e-324, NAN, INFINITY, -INFINITY, 1};
    for (int i = 0; i < 900; i++) scene->points[i] = series_point_of(i * 7, nasty[i % 9]);
    scene->chart.trace[0].count = 900;
    scene->chart.last_step = 899 * 7;
    scene->chart.cursor = 3000;
    scene->chart.best_step = 14;
    scene->chart.best = 1e308;
    for (int log = 0; log < 4; log++) {
        scene->chart.log = log % 2;
        scene->chart.trace[0].band = log > 1;
        scene->chart.trace[0].marker = '1';
        scene->chart.x_scale = log > 1 ? 3600 : 0;
        for (int w = 0; w <= 60; w += 3) {
            for (int h = 0; h <= 20; h++) {
                assert_int_equal(grid_resize(&scene->grid, 70, 30, &err), STATUS_OK);
                struct rect area = {5, 5, w, h};
                chart_draw(&scene->grid, area, &scene->chart);
                for (int y = 0; y < 30; y++)
                    for (int x = 0; x < 70; x++)
                        if (x < 5 || y < 5 || x >= 5 + w || y >= 5 + h)
                            assert_int_equal(scene->grid.cells[y * 70 + x].glyph, ' ');
            }
        }
    }
}

CHART_CASE(every_tick_of_the_steps_has_its_label)
{
    struct scene *scene = *state;
    char row[2048];
    for (int w = CHART_MIN_W; w <= 300; w += w < 60 ? 1 : 7) {
        for (int64_t last = 1; last < INT64_C(1) << 50; last = last * 7 / 3 + 1) {
            for (int log = 0; log < 2; log++) {
                struct axis axis;
                int64_t first = last % 3 ? 0 : last / 2;
                scene->chart.first_step = first;
                scene->chart.last_step = last;
                scene->chart.log_steps = log;
                chart_scene_draw(scene, w, 8);
                axis_init_steps(&axis, (double)first, (double)last, log, (w - CHART_MARGIN) / 10);
                const char *at = grid_row(&scene->grid, 7, row, sizeof row);
                for (int i = 0; i < axis.count; i++) {
                    const char *found = strstr(at, axis.label[i]);
                    if (!found) fail_msg("%d columns, steps to %lld: \"%s\"", w, (long long)last, row);
                    at = found + strlen(axis.label[i]);
                }
            }
        }
    }
}

CHART_CASE(what_lies_under_the_cursor_tells_how_many_of_its_values_are_no_number)
{
    struct scene *scene = *state;
    static const struct {
        int64_t non_finite, cursor;
        const char *title;
    } cases[] = {
        {0, 3, "@3 2.000 ─"}, {3, 3, "@3 2.000 3 ✗ ─"}, {10, 3, "@3 NaN ─"}, {3, -1, "loss 2.000 ─"}};
    scene->chart.trace[0].count = 1;
    scene->chart.last_step = 9;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char row[512];
        scene->points[0] = (struct series_point){0, 9, 2, 2, 2, 2, 10, cases[i].non_finite};
        scene->chart.cursor = cases[i].cursor;
        chart_scene_draw(scene, 60, 12);
        if (!strstr(grid_row(&scene->grid, 0, row, sizeof row), cases[i].title)) fail_msg("%s", row);
    }
}

CHART_CASE(a_perplexity_beyond_all_numbers_does_not_stretch_the_axis)
{
    struct scene *scene = *state;
    char row[512];
    chart_scene_ramp(scene, 4);
    scene->points[2].max = 800; /* of several steps, one has a loss whose exponential is infinite */
    scene->chart.exponential = scene->chart.outliers = true;
    chart_scene_draw(scene, 60, 12);
    assert_non_null(strstr(grid_row(&scene->grid, 1, row, sizeof row), "20┤"));
}

CHART_CASE(an_infinite_perplexity_leaves_the_plot_and_is_counted)
{
    struct scene *scene = *state;
    char row[512];
    scene->chart.exponential = true;
    scene->chart.trace[0].count = 60;
    scene->chart.last_step = 59;
    for (int i = 0; i < 60; i++) scene->points[i] = series_point_of(i, i >= 30 && i < 35 ? 1000 : 2);
    chart_scene_draw(scene, 67, 12);
    assert_non_null(strstr(grid_row(&scene->grid, 0, row, sizeof row), "5 above ↑"));
    assert_int_equal(count_glyph(&scene->grid, 0x2191), 1 + 5);
    for (int y = 3; y < 11; y++) assert_int_equal(scene->grid.cells[y * 67 + CHART_MARGIN + 32].glyph, ' ');
    for (int i = 0; i < 60; i++) scene->points[i] = series_point_of(i, 1e30);
    scene->chart.best_step = 20;
    scene->chart.best = 1e30;
    chart_scene_draw(scene, 67, 12);
    assert_int_equal(count_glyph(&scene->grid, 0x2605), 1); /* in the title alone */
    assert_non_null(strstr(grid_row(&scene->grid, 0, row, sizeof row), "60 above ↑"));
    assert_int_equal(count_glyph(&scene->grid, 0x2191), 1 + 60);
}

CHART_CASE(where_no_value_has_a_logarithm_the_chart_says_so)
{
    struct scene *scene = *state;
    char row[512];
    scene->chart.log = true;
    scene->chart.trace[0].count = 60;
    scene->chart.last_step = 59;
    for (int i = 0; i < 60; i++) scene->points[i] = series_point_of(i, i % 2 ? 0 : -i);
    chart_scene_draw(scene, 67, 12);
    assert_non_null(strstr(grid_row(&scene->grid, 0, row, sizeof row), "loss log 0 60 below ↓"));
    chart_scene_draw(scene, 21, 12);
    assert_non_null(strstr(grid_row(&scene->grid, 0, row, sizeof row), "loss log 0 ──")); /* not cut */
    chart_scene_draw(scene, 67, 12);
    assert_non_null(strstr(grid_row(&scene->grid, 6, row, sizeof row), "no value above 0 in this range"));
    for (int y = 1; y < 11; y++)
        for (int x = CHART_MARGIN; x < 67; x++) assert_true(scene->grid.cells[y * 67 + x].glyph < 0x2800);
    for (int i = 0; i < 60; i++) scene->points[i] = series_point_of(i, NAN);
    chart_scene_draw(scene, 67, 12);
    assert_non_null(strstr(grid_row(&scene->grid, 6, row, sizeof row), "no finite value in this range"));
}

/* A bucket that begins before the steps shown, and one that ends behind them: their middles lie outside. */
CHART_CASE(marks_and_markers_stay_in_the_plot)
{
    struct scene *scene = *state;
    scene->points[0] = (struct series_point){0, 101, 1, 1, 1, 1, 10, 1};
    scene->points[1] = (struct series_point){102, 198, 2, 2, 2, 2, 10, 0};
    scene->points[2] = (struct series_point){199, 300, 3, 3, 3, 3, 10, 1};
    scene->chart.trace[0].count = 3;
    scene->chart.trace[0].marker = '7';
    scene->chart.first_step = 100;
    scene->chart.last_step = 200;
    scene->chart.bare = true;
    for (int level = GLYPHS_ASCII; level <= GLYPHS_BRAILLE; level++) {
        struct err err = {0};
        scene->grid.level = (enum glyph_level)level;
        assert_int_equal(grid_resize(&scene->grid, 100, 12, &err), STATUS_OK);
        chart_draw(&scene->grid, (struct rect){10, 0, 60, 12}, &scene->chart);
        for (int y = 1; y < 11; y++) {
            const struct cell *row = scene->grid.cells + 100 * y;
            uint32_t rule = row[10 + CHART_MARGIN - 1].glyph;
            assert_true(rule == 0x2502 || rule == 0x2524 || rule == '|' || rule == '+');
            for (int x = 70; x < 100; x++) assert_int_equal(row[x].glyph, ' ');
        }
        assert_int_equal(count_glyph(&scene->grid, '7'), 1);
    }
}

CHART_CASE(the_point_under_the_cursor_is_the_last_that_began)
{
    struct scene *scene = *state;
    static const struct {
        int64_t cursor;
        const char *title;
    } cases[] = {{9, "@9 --"}, {10, "@10 1.000"}, {25, "@25 1.000"}, {35, "@35 2.000"}, {99, "@99 2.000"}};
    scene->points[0] = (struct series_point){10, 19, 1, 1, 1, 1, 10, 0};
    scene->points[1] = (struct series_point){30, 39, 2, 2, 2, 2, 10, 0};
    scene->chart.trace[0].count = 2;
    scene->chart.last_step = 99;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char row[512];
        scene->chart.cursor = cases[i].cursor;
        chart_scene_draw(scene, 60, 12);
        assert_non_null(strstr(grid_row(&scene->grid, 0, row, sizeof row), cases[i].title));
    }
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    return TEST_RUN(NULL, NULL);
}
