/* The limits of health.h, each at its edge: one side is left alone, the other is reported, at the step and
 * with the numbers that the header promises. Signals have no noise, so that every edge is exact. */
#include <math.h>

#include "tests/cmocka.h"
#include "tests/core/train/judged.h"

/* One event, and the step after which it was reported. */
struct report {
    struct health_event event;
    int64_t at;
};

struct patient {
    struct health health;
    struct loss_level level;
    struct report reports[8];
    int count;
    int64_t step;
};

static struct patient begin(struct config_health limits)
{
    struct patient p = {.count = 0};
    p.health.limits = limits;
    return p;
}

static void take(struct patient *p, struct health_step s)
{
    struct health_event events[HEALTH_EVENTS_MAX];
    s.step = p->step++;
    p->health.level = &p->level;
    int count = judge(&p->health, &s, events);
    for (int i = 0; i < count; i++) {
        assert_in_range(p->count, 0, 7);
        p->reports[p->count++] = (struct report){events[i], s.step};
    }
}

static const struct health_step good = {.loss = 2, .grad_norm = 1, .seconds = 1, .tokens_per_sec = 1000};

static void take_losses(struct patient *p, int count, double loss)
{
    struct health_step s = good;
    s.loss = loss;
    for (int i = 0; i < count; i++) take(p, s);
}

static void take_speeds(struct patient *p, int count, double tokens_per_sec)
{
    struct health_step s = good;
    s.tokens_per_sec = tokens_per_sec;
    for (int i = 0; i < count; i++) take(p, s);
}

static void take_waits(struct patient *p, int count, double waited)
{
    struct health_step s = good;
    s.waited = waited;
    for (int i = 0; i < count; i++) take(p, s);
}

static void expect_events(const struct patient *p, int count)
{
    if (p->count != count)
        fail_msg("%d events instead of %d; the last: %s", p->count, count,
                 p->count ? p->reports[p->count - 1].event.text : "");
}

static void expect_report(const struct patient *p, int i, int64_t step, int64_t at)
{
    assert_true(i < p->count);
    assert_int_equal(p->reports[i].event.step, step);
    assert_int_equal(p->reports[i].at, at);
}

static void expect_text(const struct patient *p, int i, const char *part)
{
    if (!strstr(p->reports[i].event.text, part))
        fail_msg("\"%s\" does not say \"%s\"", p->reports[i].event.text, part);
}

/* ---- not finite ---- */

TEST_CASE(sixteen_finite_steps_end_an_incident_and_fifteen_do_not)
{
    for (int calm = 15; calm <= 16; calm++) {
        struct patient p = begin((struct config_health){0});
        take_losses(&p, 3, 2);
        take_losses(&p, 1, NAN);
        take_losses(&p, 10, 2);
        take_losses(&p, 1, -INFINITY); /* starts the count of finite steps anew */
        take_losses(&p, calm, 2);
        take_losses(&p, 1, NAN);
        expect_events(&p, calm < 16 ? 1 : 2);
        expect_report(&p, 0, 3, 3);
    }
}

TEST_CASE(what_ends_the_run_is_an_error_that_says_so)
{
    for (int stop = 0; stop < 2; stop++) {
        struct patient p = begin((struct config_health){.on_nan = stop});
        struct health_step skipped = good;
        struct health_event event;
        skipped.grad_norm = INFINITY;
        skipped.skipped = true;
        take(&p, skipped);
        expect_events(&p, 1);
        assert_string_equal(p.reports[0].event.level, stop ? "error" : "warning");
        expect_text(&p, 0, stop ? "skipped; the run ends here" : "skipped; 100 in a row end the run");
        p = begin((struct config_health){.on_nan = stop});
        take_losses(&p, 1, 2);
        take_losses(&p, 1, NAN);
        assert_string_equal(p.reports[0].event.level, stop ? "error" : "warning");
        expect_text(&p, 0, stop ? "the loss is not finite; the run ends" : "the loss is not finite (lower ");
        p = begin((struct config_health){.on_nan = stop});
        assert_int_equal(judge_evaluation(&p.health, 7, NAN, &event), 1);
        assert_string_equal(event.level, stop ? "error" : "warning");
        assert_int_equal(strstr(event.text, "the run ends here") != NULL, stop);
        assert_non_null(strstr(event.text, "after 7 steps"));
    }
}

TEST_CASE(before_the_first_update_the_weights_are_to_blame_and_no_learning_rate)
{
    static const char remedy[] = "(look at the weights that the run begins with, or ";
    struct patient p = begin((struct config_health){0});
    struct health_event event;
    take_losses(&p, 1, NAN);
    expect_text(&p, 0, remedy);
    p = begin((struct config_health){0});
    assert_int_equal(judge_evaluation(&p.health, 0, NAN, &event), 1);
    assert_non_null(strstr(event.text, remedy));
}

/* ---- loss spike ---- */

TEST_CASE(a_spike_is_judged_once_thirty_two_losses_are_known)
{
    for (int known = 31; known <= 32; known++) {
        struct patient p = begin((struct config_health){.loss_spike = 6});
        take_losses(&p, known, 2);
        take_losses(&p, 1, 3);
        expect_events(&p, known - 31);
        if (p.count) expect_report(&p, 0, 32, 32);
    }
}

TEST_CASE(a_deviation_is_at_least_a_hundredth_of_the_median)
{
    for (int above = 0; above < 2; above++) {
        struct patient p = begin((struct config_health){.loss_spike = 6});
        take_losses(&p, 100, 2);
        take_losses(&p, 1, above ? 2.1201 : 2.1199);
        expect_events(&p, above);
        if (above) expect_text(&p, 0, "rose to 2.12, 6.0 deviations above 2, the median of the 64 steps");
    }
}

/* Half of the losses 1.5, half 2.5: the median 2, the median absolute deviation 0.5. */
TEST_CASE(a_deviation_is_that_of_a_gaussian_with_the_same_median_deviation)
{
    for (int above = 0; above < 2; above++) {
        struct patient p = begin((struct config_health){.loss_spike = 6});
        for (int i = 0; i < 100; i++) take_losses(&p, 1, i % 2 ? 1.5 : 2.5);
        take_losses(&p, 1, 2 + 6 * 1.4826 * 0.5 + (above ? 1e-4 : -1e-4));
        expect_events(&p, above);
    }
}

TEST_CASE(only_the_last_sixty_four_losses_count)
{
    struct patient p = begin((struct config_health){.loss_spike = 6});
    for (int i = 0; i < 64; i++) take_losses(&p, 1, i % 2 ? 1 : 5);
    take_losses(&p, 33, 1); /* more than half of the window, and so the median and its deviation */
    take_losses(&p, 1, 1.07);
    expect_events(&p, 1);
}

TEST_CASE(eight_calm_steps_end_a_spike_and_seven_do_not)
{
    for (int calm = 7; calm <= 8; calm++) {
        struct patient p = begin((struct config_health){.loss_spike = 6});
        take_losses(&p, 50, 2);
        take_losses(&p, 2, 3);
        take_losses(&p, 5, 2);
        take_losses(&p, 1, 2.0601); /* above by half of the limit: not calm, and the count starts anew */
        take_losses(&p, calm, 2.0599);
        take_losses(&p, 1, 3);
        expect_events(&p, calm - 6);
        expect_report(&p, 0, 50, 50);
    }
}

TEST_CASE(spikes_that_end_do_not_add_up_to_a_new_level)
{
    struct patient p = begin((struct config_health){.loss_spike = 6});
    take_losses(&p, 50, 2);
    for (int i = 0; i < 4; i++) {
        take_losses(&p, 40, 3);
        take_losses(&p, 10, 2);
    }
    expect_events(&p, 4);
}

TEST_CASE(after_sixty_four_steps_a_spike_is_the_new_level)
{
    for (int known = 31; known <= 32; known++) {
        struct patient p = begin((struct config_health){.loss_spike = 6});
        take_losses(&p, 50, 2);
        take_losses(&p, 64 + known, 3);
        take_losses(&p, 1, 4);
        expect_events(&p, known == 32 ? 2 : 1);
        if (p.count == 2) expect_report(&p, 1, 50 + 64 + 32, 50 + 64 + 32);
    }
}

/* ---- divergence ---- */

TEST_CASE(a_loss_far_above_the_first_one_and_a_guess_is_divergence_from_the_second_step_on)
{
    static const struct {
        double first, guess, edge;
    } cases[] = {{7.7, 7.6, 15.4}, {3, 10, 15}};
    for (int i = 0; i < 2; i++) {
        for (int above = 0; above < 2; above++) {
            struct patient p = begin((struct config_health){.loss_spike = 6});
            p.health.guess = cases[i].guess;
            take_losses(&p, 1, cases[i].first);
            take_losses(&p, 20, cases[i].edge + (above ? 1e-9 : 0));
            expect_events(&p, above);
            if (!above) continue;
            expect_report(&p, 0, 1, 1);
            expect_text(&p, 0, "step 1: training diverges: the loss is 15");
        }
    }
    struct patient p = begin((struct config_health){0}); /* off with loss_spike */
    p.health.guess = 7.6;
    take_losses(&p, 1, 7.7);
    take_losses(&p, 20, 100);
    expect_events(&p, 0);
}

TEST_CASE(divergence_is_over_after_eight_sound_steps_and_no_spike_next_to_a_spike)
{
    for (int sound = 7; sound <= 8; sound++) {
        struct patient p = begin((struct config_health){.loss_spike = 6});
        p.health.guess = 2;
        take_losses(&p, 2, 2);
        take_losses(&p, 1, 5);
        take_losses(&p, sound, 2);
        take_losses(&p, 1, 5);
        expect_events(&p, sound - 6);
    }
    struct patient p = begin((struct config_health){.loss_spike = 6});
    p.health.guess = 2;
    take_losses(&p, 50, 2);
    take_losses(&p, 20, 100);
    expect_events(&p, 1);
    expect_text(&p, 0, "the loss rose to 100");
}

/* ---- plateau ---- */

static struct patient begin_plateau(int64_t steps)
{
    return begin((struct config_health){.plateau_steps = steps, .plateau_delta = 0.002});
}

TEST_CASE(a_plateau_is_judged_once_all_groups_are_known)
{
    static const int64_t steps[] = {32, 64, 100};
    for (int i = 0; i < 3; i++) {
        struct patient p = begin_plateau(steps[i]);
        take_losses(&p, 300, 4);
        expect_events(&p, 1);
        expect_report(&p, 0, 0, steps[i] / 32 * 32 - 1);
    }
    struct patient p = begin_plateau(31); /* fewer steps than groups: off */
    take_losses(&p, 300, 4);
    expect_events(&p, 0);
}

/* The same loss lower by `fall` each step, `steps` times, from `loss` on. */
static double take_fall(struct patient *p, int steps, double loss, double fall)
{
    for (int i = 0; i < steps; i++) take_losses(p, 1, loss -= fall);
    return loss;
}

/* A straight fall by d a group: the medians lie 16 d apart, and its groups' noise counts as
 * 1.4826 / sqrt(2) * sqrt(pi / 2) * sqrt(2 / 16) d = 0.46455 d. */
TEST_CASE(a_fall_by_less_than_the_share_and_the_noise_is_a_plateau)
{
    double edge = 0.002 * 4 / (16 + 0.46455 + 0.002 * 7.5); /* the older half's median is at 4 - 7.5 d */
    for (int flat = 0; flat < 2; flat++) {
        struct patient p = begin_plateau(32);
        double d = edge * (flat ? 0.9995 : 1.0005);
        take_fall(&p, 32, 4 + d, d);
        expect_events(&p, flat);
    }
}

/* Known when it began: the first step of the oldest group, also after a step that had no finite loss. */
TEST_CASE(a_plateau_is_reported_with_its_first_step_and_both_losses)
{
    struct patient p = begin_plateau(64);
    double loss = take_fall(&p, 100, 8, 0.02);
    take_losses(&p, 1, NAN); /* reported for itself, and no part of a group */
    take_losses(&p, 200, loss);
    expect_events(&p, 2);
    assert_in_range(p.reports[1].event.step, 80, 100);
    assert_int_equal(p.reports[1].at - p.reports[1].event.step,
                     64 + (p.reports[1].event.step < 100 ? 0 : -1));
    expect_text(&p, 1, "then, 6.00");
}

/* After a plateau at 4, whether a drop by that much ends it: the next plateau is reported again. */
static int plateaus_around_a_drop(double drop, int groups, double after)
{
    struct patient p = begin_plateau(32);
    take_losses(&p, 60, 4);
    take_losses(&p, groups, 4 - drop);
    take_losses(&p, 100, after);
    return p.count;
}

TEST_CASE(a_plateau_ends_with_a_fall_by_four_times_the_share_for_eight_groups)
{
    assert_int_equal(plateaus_around_a_drop(0.0319, 100, 4 - 0.0319), 1);
    assert_int_equal(plateaus_around_a_drop(0.0321, 100, 4 - 0.0321), 2);
    /* of nine low groups the newer half has the most of for eight groups, then the loss is where it was */
    assert_int_equal(plateaus_around_a_drop(0.04, 9, 4), 2);
    assert_int_equal(plateaus_around_a_drop(0.04, 8, 4), 1);
}

/* A straight fall by d a group, whose noise is as above, ends it with 16 d = 4 shares + 2 * 0.46455 d. */
TEST_CASE(a_slow_fall_ends_a_plateau_only_above_twice_its_noise)
{
    double loss = 4, edge = 4 * 0.002 * loss / (16 - 2 * 0.46455);
    for (int ends = 0; ends < 2; ends++) {
        struct patient p = begin_plateau(32);
        take_losses(&p, 60, loss);
        /* 24 groups after its beginning the fall is all that both halves have seen for eight of them; its
         * older median is lower by then, and so is the share */
        double d = edge * (ends ? 1 : 0.96), low = take_fall(&p, 40, loss, d);
        take_losses(&p, 100, low);
        expect_events(&p, 1 + ends);
    }
}

/* ---- throughput ---- */

static struct patient begin_throughput(void)
{
    struct patient p = begin((struct config_health){.throughput_drop = 0.4});
    take_speeds(&p, 8, 100); /* they do not count */
    return p;
}

/* The median of the last 8 is low with the fifth slow step; 5 seconds later it is an incident. */
TEST_CASE(a_slow_machine_is_reported_after_five_seconds_with_the_step_it_began_at)
{
    struct patient p = begin_throughput();
    take_speeds(&p, 142, 1000);
    take_speeds(&p, 20, 500);
    expect_events(&p, 1);
    expect_report(&p, 0, 150, 158);
    expect_text(&p, 0, "fell by 50 % since step 150: 500 tokens/s, usually 1000");
}

/* The first 64 speeds that have left the window of the last 8: more than half of them are 1,000. */
TEST_CASE(after_eight_steps_the_next_sixty_four_are_what_is_usual)
{
    for (int most = 0; most < 2; most++) {
        struct patient p = begin_throughput();
        take_speeds(&p, 32 + most, 1000);
        take_speeds(&p, 400, 500);
        expect_events(&p, most);
        if (most) expect_report(&p, 0, 8 + 72 - 4, 8 + 72 + 4);
    }
}

TEST_CASE(a_drop_is_reported_above_the_share_and_left_alone_below)
{
    for (int low = 0; low < 2; low++) {
        struct patient p = begin_throughput();
        take_speeds(&p, 142, 1000);
        take_speeds(&p, 200, low ? 599 : 601);
        expect_events(&p, low);
    }
}

TEST_CASE(moments_below_the_limit_do_not_add_up)
{
    struct patient p = begin_throughput();
    take_speeds(&p, 142, 1000);
    for (int i = 0; i < 6; i++) {
        take_speeds(&p, 5, 500); /* the median is low for four steps */
        take_speeds(&p, 12, 1000);
    }
    expect_events(&p, 0);
}

/* Within half of the share: 800 of 1,000. Of the last 8 the most are fast from the fifth fast step on, and
 * slow again from the fourth slow one on. */
TEST_CASE(thirty_two_steps_within_half_of_the_share_end_an_incident)
{
    for (int calm = 0; calm < 3; calm++) {
        struct patient p = begin_throughput();
        take_speeds(&p, 142, 1000);
        take_speeds(&p, 20, 500);
        take_speeds(&p, calm == 0 ? 32 : 33, calm == 2 ? 799 : 801);
        take_speeds(&p, 20, 500);
        expect_events(&p, calm == 1 ? 2 : 1);
    }
}

/* An incident of n slow steps ends 31 steps after them at the earliest. One that is too long for that makes
 * what comes after it the usual speed, which 60 steps are too few to know. */
TEST_CASE(after_two_hundred_and_fifty_six_steps_a_speed_is_the_usual_one)
{
    for (int too_long = 0; too_long < 2; too_long++) {
        struct patient p = begin_throughput();
        take_speeds(&p, 142, 1000);
        take_speeds(&p, 256 - 31 + too_long, 500);
        take_speeds(&p, 40, 1000);
        take_speeds(&p, 20, 500);
        expect_events(&p, too_long ? 1 : 2);
    }
    struct patient p = begin_throughput();
    take_speeds(&p, 142, 1000);
    take_speeds(&p, 400, 500);
    take_speeds(&p, 20, 290);
    expect_events(&p, 2);
    expect_text(&p, 1, "usually 500");
}

TEST_CASE(what_is_usual_follows_a_machine_that_slows_down_little_by_little)
{
    struct patient p = begin_throughput();
    for (int i = 0; i < 1000; i++) take_speeds(&p, 1, 1000 * pow(0.998, i));
    expect_events(&p, 0);
    take_speeds(&p, 1, NAN); /* unknown */
    double now = 1000 * pow(0.998, 1000);
    take_speeds(&p, 60, now);
    take_speeds(&p, 20, now / 2);
    expect_events(&p, 1);
}

TEST_CASE(what_is_usual_stands_still_in_an_incident)
{
    struct patient p = begin_throughput();
    take_speeds(&p, 142, 1000);
    take_speeds(&p, 100, 500);
    take_speeds(&p, 40, 1000);
    take_speeds(&p, 20, 590); /* below 60 % of 1,000, not of 500 */
    expect_events(&p, 2);
    expect_text(&p, 1, "usually 1000");
}

/* ---- starvation ---- */

static struct patient begin_starvation(void)
{
    struct patient p = begin((struct config_health){.starvation = 0.25});
    take_waits(&p, 8, 1); /* they do not count */
    return p;
}

TEST_CASE(waiting_is_judged_over_thirty_two_steps_and_reported_after_five_seconds)
{
    struct patient p = begin_starvation();
    take_waits(&p, 31 + 5, 0.5);
    expect_events(&p, 1);
    expect_report(&p, 0, 8 + 31, 8 + 31 + 4);
    expect_text(&p, 0, "since step 39: 50 % of the time of the last 32 steps");
    p = begin_starvation();
    take_waits(&p, 31 + 4, 0.5);
    expect_events(&p, 0);
}

TEST_CASE(waiting_for_the_share_is_left_alone_and_for_more_is_reported)
{
    for (int more = 0; more < 2; more++) {
        struct patient p = begin_starvation();
        take_waits(&p, 100, more ? 0.2505 : 0.25);
        expect_events(&p, more);
    }
}

TEST_CASE(an_incident_of_waiting_ends_at_half_of_the_share)
{
    for (int calm = 0; calm < 2; calm++) {
        struct patient p = begin_starvation();
        take_waits(&p, 100, 0.5);
        take_waits(&p, 40, calm ? 0.125 : 0.126);
        take_waits(&p, 100, 0.5);
        expect_events(&p, 1 + calm);
        if (calm) assert_in_range(p.reports[1].event.step, 148, 162); /* the new one's own beginning */
    }
}

TEST_CASE(seconds_of_waiting_that_is_over_do_not_count_for_the_next)
{
    struct patient p = begin_starvation();
    take_waits(&p, 40, 0);
    for (int i = 0; i < 8;
         i++) { /* each time above the share for three steps, while all nine are in the window */
        take_waits(&p, 8, 0.9);
        take_waits(&p, 21, 0);
        take_waits(&p, 1, 0.9);
        take_waits(&p, 40, 0);
    }
    expect_events(&p, 0);
}

TEST_MAIN()
