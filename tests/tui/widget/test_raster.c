/* Tests of the rasteriser, dot for dot against a naive one: each dot of a picture is computed by itself. */
#include <math.h>

#include "tests/cmocka.h"
#include "tests/tui/widget/chart_scene.h"
#include "tui/widget/raster.h"

enum { SIDE = 400 /* dots at most */ };

struct naive {
    int columns, rows;
    bool set[SIDE][SIDE]; /* row, column */
};

static uint32_t draw(uint64_t *seed, uint32_t below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % below;
}

/* Sets the dots that are nearest to the straight line: one in each step along its longer side. Of two that
 * are as near it takes the one nearer to the end. */
static void naive_line(struct naive *naive, int x0, int y0, int x1, int y1)
{
    int n = abs(x1 - x0) > abs(y1 - y0) ? abs(x1 - x0) : abs(y1 - y0);
    for (int i = 0; i <= n; i++) {
        int x = x0, y = y0;
        if (n) x += (int)round((double)i * (x1 - x0) / n);
        if (n) y += (int)round((double)i * (y1 - y0) / n);
        if (x >= 0 && x < naive->columns && y >= 0 && y < naive->rows) naive->set[y][x] = true;
    }
}

/* The glyph of a cell, by the definitions of Unicode and of ASCII's substitutes. */
static uint32_t naive_glyph(const struct naive *naive, enum glyph_level level, int x, int y)
{
    static const int number[4][2] = {{1, 4}, {2, 5}, {3, 6}, {7, 8}}; /* of the dots of braille */
    static const char ascii[] = " '-'.:.|";
    uint32_t glyph = 0;
    if (level == GLYPHS_BRAILLE) {
        for (int r = 0; r < 4; r++)
            for (int c = 0; c < 2; c++)
                if (naive->set[4 * y + r][2 * x + c]) glyph |= 1u << (number[r][c] - 1);
        return glyph ? 0x2800 + glyph : 0;
    }
    if (level == GLYPHS_BLOCK) {
        bool upper = naive->set[2 * y][x], lower = naive->set[2 * y + 1][x];
        return upper && lower ? 0x2588 : upper ? 0x2580 : lower ? 0x2584 : 0;
    }
    for (int r = 0; r < 3; r++) glyph |= (uint32_t)naive->set[3 * y + r][x] << r;
    return glyph ? (unsigned char)ascii[glyph] : 0;
}

/* Cells that the naive picture leaves blank have nothing of a curve; a cross for NaN covers a dot. */
static void assert_same(const struct grid *grid, struct rect area, const struct naive *naive)
{
    for (int y = 0; y < area.h; y++)
        for (int x = 0; x < area.w; x++) {
            const struct cell *cell = &grid->cells[(area.y + y) * grid->w + area.x + x];
            uint32_t expected = naive_glyph(naive, grid->level, x, y);
            if (cell->style == STYLE_BAD && y == 0) continue;
            if (cell->style == STYLE_TRAIN ? cell->glyph != expected : expected)
                fail_msg("%d x %d cells, level %d: cell %d, %d is U+%04X and should be U+%04X", area.w,
                         area.h, (int)grid->level, x, y, cell->glyph, expected);
        }
}

CHART_CASE(lines_have_the_dots_of_a_naive_rasteriser)
{
    struct scene *scene = *state;
    struct grid *grid = &scene->grid;
    struct err err = {0};
    uint64_t seed = 1;
    for (int round = 0; round < 3000; round++) {
        static struct naive naive;
        struct raster raster;
        struct rect area = {2, 1, 1 + (int)draw(&seed, 60), 1 + (int)draw(&seed, 20)};
        assert_int_equal(grid_resize(grid, 64, 22, &err), STATUS_OK);
        grid->level = (enum glyph_level)(round % 3);
        assert_true(raster_init(&raster, grid, area));
        naive = (struct naive){.columns = raster.columns, .rows = raster.rows};
        for (int line = 0; line < 3; line++) { /* also beyond the edges */
            int x[2], y[2];
            for (int end = 0; end < 2; end++) {
                x[end] = (int)draw(&seed, (uint32_t)raster.columns + 2) - 1;
                y[end] = (int)draw(&seed, (uint32_t)raster.rows + 2) - 1;
            }
            raster_line(&raster, x[0], y[0], x[1], y[1], STYLE_TRAIN, 1);
            naive_line(&naive, x[0], y[0], x[1], y[1]);
        }
        raster_show(&raster);
        assert_same(grid, area, &naive);
    }
}

/* Points of one step or of buckets, with gaps between and values that are no numbers; returns how many. */
static size_t random_points(struct series_point *points, uint64_t *seed)
{
    size_t count = 1 + draw(seed, POINTS / 10);
    int64_t step = draw(seed, 100), size = draw(seed, 2) ? 1 : 64;
    uint32_t lost = draw(seed, 3) ? 1000 : 4;
    for (size_t i = 0; i < count; i++, step += size * (1 + draw(seed, 20) / 19 * draw(seed, 50))) {
        double value = draw(seed, 1000), spread = size > 1 ? draw(seed, 300) : 0;
        points[i] = series_point_of(step, draw(seed, lost) ? value : NAN);
        points[i].last_step = step + size - 1;
        points[i].min -= spread;
        points[i].max += spread;
    }
    return count;
}

/* The least and the largest value of all traces. */
static void find_range(const struct chart *chart, double *lo, double *hi)
{
    *lo = INFINITY;
    *hi = -INFINITY;
    for (int t = 0; t < chart->trace_count; t++)
        for (size_t i = 0; i < chart->trace[t].count; i++) {
            *lo = fmin(*lo, chart->trace[t].points[i].min);
            *hi = fmax(*hi, chart->trace[t].points[i].max);
        }
}

static void naive_curve(struct naive *naive, const struct chart *chart, const struct chart_trace *trace)
{
    double lo, hi;
    int before = -1, row = 0; /* the end of the curve */
    find_range(chart, &lo, &hi);
    for (int x = 0; x < naive->columns; x++) {
        const struct series_point *first = NULL, *last = NULL;
        bool lost = false;
        int top = naive->rows, bottom = -1;
#define ROW(value) (int)lround((1 - ((value)-lo) / (hi - lo)) * (naive->rows - 1))
        for (size_t i = 0; i < trace->count; i++) {
            const struct series_point *p = &trace->points[i];
            double middle = (double)(p->first_step + p->last_step) / 2,
                   at = (middle - (double)chart->first_step) / (double)(chart->last_step - chart->first_step);
            if (lround(at * (naive->columns - 1)) != x) continue;
            lost = lost || p->non_finite;
            if (p->non_finite) continue;
            first = first ? first : p;
            last = p;
            top = ROW(p->max) < top ? ROW(p->max) : top;
            bottom = ROW(p->min) > bottom ? ROW(p->min) : bottom;
        }
        if (!first && lost) before = -1;
        if (!first) continue;
        if (before >= 0) naive_line(naive, before, row, x, ROW(first->mean));
        for (int y = top; y <= bottom; y++) naive->set[y][x] = true;
        before = x;
        row = ROW(last->mean);
    }
}

CHART_CASE(charts_have_the_dots_of_a_naive_rasteriser)
{
    struct scene *scene = *state;
    struct chart *chart = &scene->chart;
    uint64_t seed = 2;
    for (int round = 0; round < 600; round++) {
        static struct naive naive;
        struct series_point *points = scene->points;
        int w = CHART_MIN_W + (int)draw(&seed, 150), h = CHART_MIN_H + (int)draw(&seed, 40);
        chart->outliers = true; /* the axis spans all values */
        chart->first_step = INT64_MAX;
        chart->last_step = 0;
        chart->trace_count = 1 + round % 2;
        for (int t = 0; t < chart->trace_count; t++) {
            size_t count = random_points(points, &seed);
            chart->trace[t] = (struct chart_trace){.points = points, .count = count, .style = STYLE_TRAIN};
            if (points[0].first_step < chart->first_step) chart->first_step = points[0].first_step;
            points += count;
            if (points[-1].last_step > chart->last_step) chart->last_step = points[-1].last_step;
        }
        double lo, hi;
        find_range(chart, &lo, &hi);
        if (!(lo < hi)) continue; /* an axis of one value is widened */
        enum glyph_level level = scene->grid.level = (enum glyph_level)(round / 2 % 3);
        chart_scene_draw(scene, w, h);
        struct rect plot = chart_plot((struct rect){0, 0, w, h});
        naive = (struct naive){.columns = plot.w * (level == GLYPHS_BRAILLE ? 2 : 1),
                               .rows = plot.h * (level == GLYPHS_BRAILLE ? 4
                                                 : level == GLYPHS_BLOCK ? 2
                                                                         : 3)};
        for (int t = 0; t < chart->trace_count; t++) naive_curve(&naive, chart, &chart->trace[t]);
        assert_same(&scene->grid, plot, &naive);
    }
}

TEST_MAIN()
