/* Learning-rate schedules: their formulas, and the corners where a division by zero could hide. */
#include <math.h>

#include "core/train/schedule.h"
#include "tests/cmocka.h"

static const enum schedule_kind kinds[] = {SCHEDULE_CONSTANT, SCHEDULE_WARMUP_CONSTANT, SCHEDULE_COSINE,
                                           SCHEDULE_LINEAR,   SCHEDULE_INVERSE_SQRT,    SCHEDULE_WSD};
enum { KINDS = sizeof kinds / sizeof *kinds };

static double at(enum schedule_kind kind, int64_t warmup, int64_t total, int64_t step)
{
    struct schedule schedule = {
        .kind = kind, .lr = 0.5, .lr_min = 0.05, .warmup = warmup, .total = total, .decay = 1};
    return schedule_lr(&schedule, step);
}

static void expect_near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-15)) fail_msg("%.17g, expected %.17g", got, want);
}

TEST_CASE(constant_ignores_the_warmup)
{
    for (int64_t s = 0; s < 30; s++) expect_near(at(SCHEDULE_CONSTANT, 10, 20, s), 0.5);
}

TEST_CASE(warmup_rises_in_equal_steps_and_reaches_the_peak_in_its_last_one)
{
    static const enum schedule_kind rising[] = {SCHEDULE_WARMUP_CONSTANT, SCHEDULE_COSINE, SCHEDULE_LINEAR,
                                                SCHEDULE_INVERSE_SQRT};
    for (int k = 0; k < 4; k++)
        for (int64_t s = 0; s < 10; s++) expect_near(at(rising[k], 10, 100, s), 0.5 * (double)(s + 1) / 10);
}

TEST_CASE(warmup_constant_stays_at_the_peak)
{
    expect_near(at(SCHEDULE_WARMUP_CONSTANT, 10, 100, 10), 0.5);
    expect_near(at(SCHEDULE_WARMUP_CONSTANT, 10, 100, 99), 0.5);
}

TEST_CASE(cosine_falls_from_the_peak_through_the_middle_to_the_floor)
{
    expect_near(at(SCHEDULE_COSINE, 20, 100, 20), 0.5);
    expect_near(at(SCHEDULE_COSINE, 20, 100, 40), 0.05 + 0.45 * 0.5 * (1 + cos(M_PI / 4)));
    expect_near(at(SCHEDULE_COSINE, 20, 100, 60), 0.275);
    expect_near(at(SCHEDULE_COSINE, 20, 100, 100), 0.05);
}

TEST_CASE(linear_falls_in_equal_steps)
{
    expect_near(at(SCHEDULE_LINEAR, 20, 100, 20), 0.5);
    expect_near(at(SCHEDULE_LINEAR, 20, 100, 40), 0.3875);
    expect_near(at(SCHEDULE_LINEAR, 20, 100, 60), 0.275);
    expect_near(at(SCHEDULE_LINEAR, 20, 100, 100), 0.05);
}

TEST_CASE(inverse_sqrt_peaks_at_the_end_of_the_warmup)
{
    expect_near(at(SCHEDULE_INVERSE_SQRT, 10, 1000, 9), 0.5);
    expect_near(at(SCHEDULE_INVERSE_SQRT, 10, 1000, 39), 0.25);
    expect_near(at(SCHEDULE_INVERSE_SQRT, 10, 1000, 159), 0.125);
    for (int64_t s = 0; s < 1000; s++) assert_true(at(SCHEDULE_INVERSE_SQRT, 10, 1000, s) <= 0.5);
}

TEST_CASE(wsd_stays_at_the_peak_and_falls_in_its_last_steps)
{
    static const double middle[DECAY_SHAPES] = {0.5, 0.70710678118654752, 0.29289321881345248};
    for (int shape = 0; shape < DECAY_SHAPES; shape++) {
        struct schedule s = {SCHEDULE_WSD, (enum decay_shape)shape, 0.5, 0.05, 10, 100, 40};
        for (int64_t step = 0; step < 10; step++)
            expect_near(schedule_lr(&s, step), 0.05 * (double)(step + 1));
        for (int64_t step = 10; step <= 60; step++) expect_near(schedule_lr(&s, step), 0.5);
        expect_near(schedule_lr(&s, 80), 0.05 + 0.45 * middle[shape]);
        expect_near(schedule_lr(&s, 100), 0.05);
        expect_near(schedule_lr(&s, 1000), 0.05);
        s.decay = 100; /* the whole run: what is left of the warm-up comes first */
        expect_near(schedule_lr(&s, 0), 0.05);
        expect_near(schedule_lr(&s, 50), 0.05 + 0.45 * middle[shape]);
    }
}

TEST_CASE(the_floor_is_that_of_the_step_after_the_last)
{
    static const enum schedule_kind falling[] = {SCHEDULE_COSINE, SCHEDULE_LINEAR, SCHEDULE_WSD};
    for (int k = 0; k < 3; k++) {
        struct schedule s = {falling[k], DECAY_LINEAR, 0.5, 0.05, 10, 100, 40};
        assert_true(schedule_lr(&s, 99) > 0.05 && schedule_lr(&s, 99) < 0.07);
        expect_near(schedule_lr(&s, 100), 0.05);
        s.decay = 1;
        if (falling[k] == SCHEDULE_WSD) expect_near(schedule_lr(&s, 99), 0.5); /* the peak begins a decay */
    }
}

TEST_CASE(rising_multiplies_the_rate_by_the_same_factor_up_to_the_peak_in_its_last_step)
{
    double factor = pow(10, 1.0 / 10); /* from 0.05 to 0.5 in steps 0 to 10 */
    for (int64_t s = 0; s <= 10; s++)
        expect_near(at(SCHEDULE_RISING, 5, 11, s), 0.05 * pow(factor, (double)s));
    expect_near(at(SCHEDULE_RISING, 5, 11, 10), 0.5);
    expect_near(at(SCHEDULE_RISING, 5, 11, 12), 0.5);
    expect_near(at(SCHEDULE_RISING, 0, 1, 0), 0.5);
}

TEST_CASE(without_warmup_the_first_step_is_at_the_peak)
{
    for (int k = 0; k < KINDS; k++) expect_near(at(kinds[k], 0, 100, 0), 0.5);
    expect_near(at(SCHEDULE_INVERSE_SQRT, 0, 100, 3), 0.25); /* as if W were 1 */
}

TEST_CASE(a_run_inside_its_warmup_never_reaches_the_peak)
{
    static const enum schedule_kind rising[] = {SCHEDULE_WARMUP_CONSTANT, SCHEDULE_COSINE, SCHEDULE_LINEAR,
                                                SCHEDULE_INVERSE_SQRT};
    for (int k = 0; k < 4; k++)
        for (int64_t s = 0; s < 5; s++) {
            expect_near(at(rising[k], 10, 5, s), 0.5 * (double)(s + 1) / 10);
            expect_near(at(rising[k], 5, 5, s), 0.5 * (double)(s + 1) / 5);
        }
}

TEST_CASE(after_the_last_step_the_value_of_the_end_stays)
{
    for (int k = 0; k < KINDS; k++)
        for (int64_t warmup = 0; warmup <= 200; warmup += 50) {
            double end = at(kinds[k], warmup, 100, 100);
            expect_near(at(kinds[k], warmup, 100, 101), end);
            expect_near(at(kinds[k], warmup, 100, INT64_MAX), end);
        }
}

TEST_CASE(every_value_is_finite_positive_and_at_most_the_peak)
{
    static const int64_t sizes[] = {0, 1, 2, 3, 10, 1000000000000};
    for (int k = 0; k < KINDS; k++)
        for (int w = 0; w < 6; w++)
            for (int t = 1; t < 6; t++)
                for (int s = 0; s < 6; s++) {
                    double lr = at(kinds[k], sizes[w], sizes[t], sizes[s]);
                    assert_true(isfinite(lr) && lr > 0 && lr <= 0.5);
                }
}

TEST_MAIN()
