/* Tests of the range of values that a chart shows, against one made from sorted values. */
#include <locale.h>
#include <math.h>

#include "tests/cmocka.h"
#include "tui/widget/chart.h"
#include "tui/widget/robust.h"

enum { VALUES = 400 };

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static void naive_range(double *lows, double *highs, size_t count, double *lo, double *hi)
{
    size_t rare = count / ROBUST_RARE;
    qsort(lows, count, sizeof *lows, compare);
    qsort(highs, count, sizeof *highs, compare);
    double low = lows[rare], high = highs[count - 1 - rare], span = high - low;
    if (rare && span > 0 && low - *lo > ROBUST_WASTE * span) *lo = low - span / 4;
    if (rare && span > 0 && *hi - high > ROBUST_WASTE * span) *hi = high + span / 4;
}

TEST_CASE(the_range_is_that_of_sorted_values)
{
    uint64_t seed = 1;
    for (size_t round = 0; round < 2000; round++) {
        double values[4][VALUES], range[2][2] = {{INFINITY, -INFINITY}};
        size_t count = 1 + round % VALUES;
        for (size_t i = 0; i < count; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            double value = (double)(seed >> 60); /* few different ones: many are equal */
            if (seed >> 33 & 1) value += (double)(seed >> 40) * 1e-9;
            if ((seed >> 34) % 64 == 0) value = seed >> 50 & 1 ? 1e300 : -1e300;
            values[0][i] = values[2][i] = value;
            values[1][i] = values[3][i] = value + 1;
            range[0][0] = fmin(range[0][0], value);
            range[0][1] = fmax(range[0][1], value + 1);
        }
        memcpy(range[1], range[0], sizeof range[0]);
        robust_range(values[0], values[1], count, &range[0][0], &range[0][1]);
        naive_range(values[2], values[3], count, &range[1][0], &range[1][1]);
        assert_memory_equal(range[0], range[1], sizeof range[0]);
    }
}

struct scene {
    struct grid grid;
    struct series_point points[5 * VALUES];
    struct chart chart;
};

/* Draws noise between 1 and 2 with the spikes of `values` at steps 100, 150, … */
static void draw_noise(struct scene *scene, const double *values, int count)
{
    struct err err = {0};
    scene->grid.level = GLYPHS_BRAILLE;
    scene->chart =
        (struct chart){.title = "loss",
                       .trace_count = 1,
                       .cursor = -1,
                       .best_step = -1,
                       .last_step = VALUES - 1,
                       .outliers = scene->chart.outliers,
                       .trace = {{.points = scene->points, .count = VALUES, .style = STYLE_TRAIN}}};
    for (int i = 0; i < VALUES; i++) {
        double value = 1 + i % 10 / 9.0;
        if (i >= 100 && i % 50 == 0 && (i - 100) / 50 < count) value = values[(i - 100) / 50];
        if (i == VALUES - 1 && count > 6) value = values[count - 1];
        scene->points[i] = (struct series_point){i, i, value, value, value, value, 1, 0};
    }
    assert_int_equal(grid_resize(&scene->grid, 80, 14, &err), STATUS_OK);
    chart_draw(&scene->grid, (struct rect){0, 0, 80, 14}, &scene->chart);
}

static bool row_has(const struct scene *scene, int y, const char *text)
{
    char row[1024];
    return strstr(grid_row(&scene->grid, y, row, sizeof row), text) != NULL;
}

static bool has_tick(const struct scene *scene, const char *tick)
{
    bool any = false;
    for (int y = 1; y < 13; y++) any = any || row_has(scene, y, tick);
    return any;
}

/* The rows of the plot that the curve touches. */
static int rows_with_dots(const struct scene *scene)
{
    int rows = 0;
    for (int y = 1; y < 13; y++) {
        bool any = false;
        for (int x = CHART_MARGIN; x < 80; x++) {
            const struct cell *cell = &scene->grid.cells[y * 80 + x];
            any = any || (cell->style == STYLE_TRAIN && cell->glyph > 0x2800);
        }
        rows += any;
    }
    return rows;
}

TEST_CASE(spikes_are_marked_at_the_edge_and_do_not_flatten_the_rest)
{
    struct scene scene = {0};
    const double spikes[] = {1000, 1e300, -50, 900};
    draw_noise(&scene, spikes, 4);
    assert_true(row_has(&scene, 0, "3 above ↑"));
    assert_true(row_has(&scene, 0, "1 below ↓"));
    assert_true(row_has(&scene, 1, "↑"));
    assert_true(row_has(&scene, 12, "↓"));
    assert_true(has_tick(&scene, "1.5┤")); /* the axis shows numbers between 1 and 2 */
    scene.chart.outliers = true;
    draw_noise(&scene, spikes, 4);
    assert_false(row_has(&scene, 0, "↑"));
    assert_false(row_has(&scene, 1, "↑"));
    assert_true(row_has(&scene, 0, "loss all values"));
    draw_noise(&scene, spikes, 0); /* nothing to tell apart */
    assert_false(row_has(&scene, 0, "all values"));
    grid_release(&scene.grid);
}

TEST_CASE(many_high_values_and_the_newest_are_no_outliers)
{
    struct scene scene = {0};
    const double none[] = {1, 1, 1, 1, 1, 1, 2}, newest[] = {1, 1, 1, 1, 1, 1, 1000};
    draw_noise(&scene, none, 7);
    assert_true(rows_with_dots(&scene) > 10);
    assert_false(row_has(&scene, 0, "above"));
    draw_noise(&scene, newest, 7); /* a run that diverges now */
    assert_false(row_has(&scene, 0, "above"));
    assert_true(has_tick(&scene, "1000┤"));
    for (int i = VALUES / 2; i < VALUES; i++) scene.points[i].min = scene.points[i].max = 1000;
    chart_draw(&scene.grid, (struct rect){0, 0, 80, 14}, &scene.chart);
    assert_false(row_has(&scene, 0, "above"));
    grid_release(&scene.grid);
}

/* Draws runs whose values lie between 1 and 2 at first; from step 200 on they are multiplied by factors[]. */
static void draw_runs(struct scene *scene, const double *factors, int count)
{
    struct err err = {0};
    scene->grid.level = GLYPHS_BRAILLE;
    scene->chart.cursor = scene->chart.best_step = -1;
    scene->chart.title = "loss";
    scene->chart.last_step = VALUES - 1;
    scene->chart.trace_count = count;
    for (int t = 0; t < count; t++) {
        struct series_point *points = scene->points + t * VALUES;
        for (int i = 0; i < VALUES; i++) {
            double value = (1 + i % 10 / 9.0) * (i < 200 ? 1 : factors[t]);
            points[i] = (struct series_point){i, i, value, value, value, value, 1, 0};
        }
        scene->chart.trace[t] =
            (struct chart_trace){.points = points, .count = VALUES, .style = STYLE_CURVE + t};
    }
    assert_int_equal(grid_resize(&scene->grid, 80, 14, &err), STATUS_OK);
    chart_draw(&scene->grid, (struct rect){0, 0, 80, 14}, &scene->chart);
}

TEST_CASE(curves_are_far_above_others_only_by_their_magnitude)
{
    static const struct {
        struct reach reach[4];
        double ceiling;
    } cases[] = {{{{0, 1}, {0, 2}, {0, 1}, {0, 100}}, 2},
                 {{{0, 0}, {0, 0}, {0, 0}, {0, 5}}, INFINITY}, /* 0 has none */
                 {{{-1, 0}, {0, 0}, {0, 0}, {0, 5}}, 0},
                 {{{0, 1}, {0, 1}, {0, 90}, {0, 100}}, 1},
                 {{{0, 1}, {0, 80}, {0, 90}, {0, 100}}, INFINITY}, /* most of them */
                 {{{1, 0}, {1, 0}, {0, 1}, {0, 100}}, 1}};         /* some have no values */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (robust_ceiling(cases[i].reach, 4) != cases[i].ceiling)
            fail_msg("case %zu: %g", i, robust_ceiling(cases[i].reach, 4));
}

TEST_CASE(a_diverged_run_leaves_the_chart_and_the_others_stay_large)
{
    struct scene scene = {.chart.runs = true};
    const double diverged[] = {1, 1e6, 1}, twice[] = {1, 1e6, 1, 1e9, 0.9}, apart[] = {1, 2, 1};
    for (int count = 2; count <= 3; count++) {
        draw_runs(&scene, diverged, count);
        assert_true(has_tick(&scene, "1.2┤"));
        assert_true(row_has(&scene, 0, "200 above ↑"));
        int arrows = 0; /* one, where it leaves */
        for (int x = CHART_MARGIN; x < 80; x++) arrows += scene.grid.cells[80 + x].glyph == 0x2191;
        assert_int_equal(arrows, 1);
        assert_int_equal(scene.grid.cells[80 + CHART_MARGIN + 73 / 2].glyph, 0x2191);
    }
    draw_runs(&scene, twice, 5);
    assert_true(has_tick(&scene, "1.2┤"));
    draw_runs(&scene, apart, 3); /* worse, but no more than that */
    assert_true(has_tick(&scene, "3.5┤"));
    assert_false(row_has(&scene, 0, "above"));
    draw_runs(&scene, (const double[]){1, 1e6, 1e6}, 3); /* most of them are no outliers */
    assert_true(has_tick(&scene, "2.0M┤"));
    scene.chart.outliers = true;
    draw_runs(&scene, diverged, 3);
    assert_true(has_tick(&scene, "2.0M┤"));
    assert_true(row_has(&scene, 0, "all values"));
    scene.chart.outliers = scene.chart.runs = false; /* of one run the newest values stay inside */
    draw_runs(&scene, diverged, 2);
    assert_true(has_tick(&scene, "2.0M┤"));
    grid_release(&scene.grid);
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    return TEST_RUN(NULL, NULL);
}
