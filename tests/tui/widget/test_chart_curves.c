/* Tests of charts with the curves of several runs: digits, bands, other axes than steps. */
#include <locale.h>
#include <math.h>

#include "tests/cmocka.h"
#include "tests/tui/widget/chart_scene.h"

/* Makes the traces of ten runs: parallel lines, or one and the same. */
static void fill_runs(struct scene *scene, double apart)
{
    struct chart *chart = &scene->chart;
    chart->trace_count = CHART_TRACES_MAX;
    chart->bare = true;
    chart->last_step = 99;
    for (int t = 0; t < CHART_TRACES_MAX; t++) {
        struct series_point *points = scene->points + 100 * t;
        for (int i = 0; i < 100; i++) points[i] = series_point_of(i, 100 - i + apart * t);
        chart->trace[t] = (struct chart_trace){.points = points,
                                               .count = 100,
                                               .style = (enum style)(STYLE_CURVE + t),
                                               .marker = "1234567890"[t]};
    }
}

/* The markers of a trace inside the plot. */
static int markers_of(const struct grid *grid, int trace)
{
    struct rect plot = chart_plot((struct rect){0, 0, grid->w, grid->h});
    int count = 0;
    for (int y = plot.y; y < plot.y + plot.h; y++)
        for (int x = plot.x; x < plot.x + plot.w; x++) {
            const struct cell *cell = &grid->cells[y * grid->w + x];
            bool own = cell->glyph == (uint32_t) "1234567890"[trace];
            if (own) assert_int_equal(cell->style, STYLE_CURVE + trace);
            count += own;
        }
    return count;
}

CHART_CASE(each_of_ten_runs_has_its_digit_on_any_terminal)
{
    struct scene *scene = *state;
    for (int apart = 0; apart < 2; apart++)
        for (scene->grid.level = GLYPHS_ASCII; scene->grid.level <= GLYPHS_BRAILLE; scene->grid.level++)
            for (int w = 40; w <= 200; w += 20) {
                fill_runs(scene, 10 * apart);
                chart_scene_draw(scene, w, 20);
                for (int t = 0; t < CHART_TRACES_MAX; t++)
                    assert_in_range(markers_of(&scene->grid, t), 1, w / 8 + 1);
            }
    fill_runs(scene, 10); /* a run with one value, and one with none */
    scene->chart.trace[3].count = 1;
    scene->chart.trace[4].count = 0;
    chart_scene_draw(scene, 80, 24);
    assert_int_equal(markers_of(&scene->grid, 3), 1);
    assert_int_equal(markers_of(&scene->grid, 4), 0);
}

CHART_CASE(the_range_of_several_runs_is_shaded_around_their_mean)
{
    struct scene *scene = *state;
    struct grid *grid = &scene->grid;
    for (int i = 0; i < 100; i++) {
        scene->points[i] = series_point_of(i, 5);
        scene->points[i].min = 4;
        scene->points[i].max = i == 50 ? 10 : 6;
    }
    scene->points[70] = series_point_of(70, NAN); /* interrupts the band */
    scene->chart.trace[0] = (struct chart_trace){
        .points = scene->points, .count = 100, .style = STYLE_CURVE, .band = true, .marker = '1'};
    scene->chart.outliers = true;
    scene->chart.last_step = 99;
    chart_scene_draw(scene, 7 + 100, 22); /* a column for each step */
    int shaded[100] = {0};
    for (int y = 1; y < 21; y++)
        for (int x = 0; x < 100; x++) shaded[x] += grid->cells[y * grid->w + 7 + x].glyph == 0x2591;
    assert_in_range(shaded[20], 4, 8);
    assert_in_range(shaded[50], 17, 20);
    assert_in_range(shaded[90], 4, 8);
    assert_int_equal(shaded[70], 0);
}

CHART_CASE(an_axis_of_time_has_round_numbers_of_its_unit)
{
    struct scene *scene = *state;
    char row[512];
    chart_scene_ramp(scene, 100);
    for (int i = 0; i < 100; i++) scene->points[i].first_step = scene->points[i].last_step = i * 60000;
    scene->chart.last_step = 99 * 60000;
    scene->chart.x_scale = 60000; /* milliseconds, in minutes */
    chart_scene_draw(scene, 60, 12);
    assert_string_equal(grid_row(&scene->grid, 11, row, sizeof row) + 7,
                        "0        20         40         60        80");
    scene->chart.cursor = 150000;
    chart_scene_draw(scene, 60, 12);
    assert_non_null(strstr(grid_row(&scene->grid, 0, row, sizeof row), " @2.500 2.000 ─"));
}

/* A learning rate or a speed may differ by much from run to run, and is no sign of a failure. */
CHART_CASE(only_a_free_axis_leaves_out_runs_far_above_the_others)
{
    struct scene *scene = *state;
    char row[512];
    for (int kind = 0; kind < 3; kind++) {
        fill_runs(scene, 0);
        for (int i = 0; i < 100; i++) scene->points[i] = series_point_of(i, 1e6 + i);
        scene->chart.trace_count = 4;
        scene->chart.runs = true;
        scene->chart.zero = kind == 1;
        scene->chart.least_span = kind == 2 ? 0.25 : 0;
        chart_scene_draw(scene, 80, 12);
        assert_int_equal(strstr(grid_row(&scene->grid, 0, row, sizeof row), "100 above ↑") != NULL,
                         kind == 0);
    }
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    return TEST_RUN(NULL, NULL);
}
