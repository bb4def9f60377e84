/* The curve of a search for a learning rate: what ends it, what it suggests, and its chart by rate. */
#include <math.h>

#include "tests/cmocka.h"
#include "tests/tui/widget/cells.h"
#include "tui/widget/rate_curve.h"

static struct rate_curve curve;

/* From 1e-6 to 1 in a hundred steps. */
static double rate_of(int step)
{
    return pow(1e-6, 1 - step / 99.0);
}

/* A loss of 5 that falls to 2 from a rate of 1e-4 to 1e-2, and from 1e-1 on rises by 4 for each decade. */
static double loss_of(int step)
{
    double decade = log10(rate_of(step));
    return decade < -4 ? 5 : decade < -2 ? 2 - 1.5 * (decade + 2) : decade < -1 ? 2 : 2 + 4 * (decade + 1);
}

/* Adds steps until the curve says that it has ended, at most a hundred. */
static bool fill(void)
{
    bool more = true;
    memset(&curve, 0, sizeof curve);
    for (int k = 0; more && k < 100; k++) more = rate_curve_add(&curve, rate_of(k), loss_of(k));
    return more;
}

TEST_CASE(the_suggestion_is_the_rate_of_the_steepest_fall_or_a_tenth_of_the_lowest)
{
    assert_true(fill());
    assert_int_equal(curve.count, 100);
    double lowest = curve.rate[curve.lowest], steepest = curve.rate[rate_curve_steepest(&curve)];
    assert_true(rate_curve_falls(&curve));
    for (int k = 0; k < 100; k++) assert_true(curve.smooth[k] >= curve.smooth[curve.lowest]);
    assert_true(lowest > 0.05 && lowest < 0.3);
    assert_true(steepest > 1e-4 && steepest < 0.03);
    assert_true(steepest < lowest / 10); /* the loss stays low for a decade */
    assert_true(fabs(rate_curve_suggestion(&curve) - steepest) <= 0.05 * steepest);
    assert_true(rate_curve_round(0.0012345) == 0.0012);
    memset(&curve, 0, sizeof curve);
    for (int k = 0; k < 60; k++) rate_curve_add(&curve, rate_of(k), k < 55 ? 5 : 5 - 0.1 * (k - 54));
    assert_int_equal(curve.lowest, 59); /* and falls fastest there */
    assert_true(fabs(rate_curve_suggestion(&curve) - rate_of(59) / 10) <= 0.05 * rate_of(59) / 10);
}

TEST_CASE(it_ends_where_the_average_is_back_above_the_beginning_or_a_loss_is_no_number)
{
    fill();
    int more = 0;
    while (more < 1000 && rate_curve_add(&curve, 2, 9)) more++;
    assert_true(more > 3 && more < 100);
    assert_true(curve.smooth[curve.count - 1] > 1.2 * curve.smooth[0]);
    int count = curve.count;
    assert_false(rate_curve_add(&curve, 2, NAN));
    assert_false(rate_curve_add(&curve, 2, INFINITY));
    assert_int_equal(curve.count, count);
}

TEST_CASE(a_curve_is_judged_from_its_eleventh_step_and_full_after_its_last)
{
    memset(&curve, 0, sizeof curve);
    for (int k = 0; k <= 2 * RATES_WARMING; k++) {
        assert_false(rate_curve_falls(&curve));
        assert_true(rate_curve_add(&curve, rate_of(k), 5 - 0.1 * k));
    }
    assert_true(rate_curve_falls(&curve));
    while (curve.count < RATES_MAX) assert_true(rate_curve_add(&curve, 1, 2));
    double last = curve.smooth[RATES_MAX - 1];
    assert_true(rate_curve_add(&curve, 1, 2)); /* is not recorded */
    assert_int_equal(curve.count, RATES_MAX);
    assert_true(curve.smooth[RATES_MAX - 1] == last);
}

TEST_CASE(losses_that_do_not_fall_suggest_nothing)
{
    memset(&curve, 0, sizeof curve);
    assert_true(isnan(rate_curve_suggestion(&curve)));
    for (int k = 0; k < 50; k++) assert_true(rate_curve_add(&curve, rate_of(k), 5 + k * 0.001));
    assert_false(rate_curve_falls(&curve));
    assert_true(isnan(rate_curve_suggestion(&curve)));
}

static void expect_drawn(const struct chart *chart, const char *words)
{
    char row[1024];
    bool found = false;
    struct grid grid = make_grid(78, 16, GLYPHS_BRAILLE);
    chart_draw(&grid, (struct rect){0, 0, 78, 16}, chart);
    for (int y = 0; y < 16; y++) found = found || strstr(grid_row(&grid, y, row, sizeof row), words);
    if (!found) fail_msg("\"%s\" is not drawn", words);
    grid_release(&grid);
}

/* Of all rates that a search may have. */
TEST_CASE(the_chart_has_a_logarithmic_axis_of_rates)
{
    char title[64];
    fill();
    struct chart chart = rate_curve_chart(&curve);
    expect_drawn(&chart, " 1e-6        1e-5       1e-4        1e-3        0.01         0.1         1");
    snprintf(title, sizeof title, "★ best %.3f @0.", curve.smooth[curve.lowest]);
    expect_drawn(&chart, title);
    chart.cursor = rate_curve_place(1e-3);
    expect_drawn(&chart, "loss by learning rate @0.0010 ");
    memset(&curve, 0, sizeof curve);
    expect_drawn(&(struct chart){.title = "none", .trace_count = 1, .cursor = -1, .best_step = -1}, "none");
    for (int k = 0; k < 16; k++) rate_curve_add(&curve, 1e-12 * pow(10, k), 1);
    chart = rate_curve_chart(&curve);
    expect_drawn(&chart, " 1e-12 ");
    expect_drawn(&chart, " 1e-3 ");
}

TEST_MAIN()
