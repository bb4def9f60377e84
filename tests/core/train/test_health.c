/* Health: a problem is reported once, with its first step and numbers; a good run has no reports. */
#include <math.h>

#include "tests/cmocka.h"
#include "tests/core/network/rig.h"
#include "tests/core/train/judged.h"
#include "tests/core/train/story.h"

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* ---- the judge alone ---- */

static const struct config_health usual = {.loss_spike = 6,
                                           .plateau_steps = 1000,
                                           .plateau_delta = 0.002,
                                           .throughput_drop = 0.4,
                                           .starvation = 0.2};

/* A run in a test: steps of a second at 1,000 tokens/s, and the reports on them. */
struct patient {
    struct health health;
    struct loss_level level;
    struct health_event reported[16];
    int count;
    int64_t step, told_at[16];
};

static void begin(struct patient *p, struct config_health limits)
{
    memset(p, 0, sizeof *p);
    p->health.limits = limits;
}

static void take(struct patient *p, struct health_step s)
{
    struct health_event events[HEALTH_EVENTS_MAX];
    s.step = p->step++;
    p->health.level = &p->level;
    int count = judge(&p->health, &s, events);
    for (int i = 0; i < count; i++) {
        assert_in_range(p->count, 0, 15);
        p->told_at[p->count] = s.step;
        p->reported[p->count++] = events[i];
    }
}

static struct health_step step_of(double loss)
{
    return (struct health_step){.loss = loss, .grad_norm = 1, .seconds = 1, .tokens_per_sec = 1000};
}

/* A Gaussian value with deviation 1, a pure function of the index. */
static double noise(uint64_t index)
{
    return sqrt(-2 * log(rig_uniform(7, 2 * index))) * cos(2 * M_PI * rig_uniform(7, 2 * index + 1));
}

/* A loss as language models have it: a fast fall during warm-up, then a power law, and 3 % of noise. */
static double good_loss(int64_t step)
{
    return (2 + 5.6 * pow(1 + (double)step / 20, -0.35)) * (1 + 0.03 * noise((uint64_t)step));
}

static void expect_one(const struct patient *p, int64_t step, const char *what)
{
    assert_int_equal(p->count, 1);
    assert_int_equal(p->reported[0].step, step);
    assert_string_equal(p->reported[0].level, "warning");
    assert_non_null(strstr(p->reported[0].text, what));
}

TEST_CASE(a_run_that_goes_well_is_left_alone)
{
    struct patient p;
    begin(&p, usual);
    for (int i = 0; i < 3000; i++) {
        struct health_step s = step_of(good_loss(i));
        s.tokens_per_sec = (i < 6 ? 300 : 1000) * (1 + 0.05 * noise(100000 + (uint64_t)i));
        s.seconds = i < 8 ? 3 : 1; /* memory and files are touched for the first time */
        s.waited = i < 8 ? 2.9 : 0.02;
        take(&p, s);
    }
    assert_int_equal(p.count, 0);
}

TEST_CASE(one_step_of_high_loss_is_a_spike_and_reported_once)
{
    struct patient p;
    begin(&p, usual);
    for (int i = 0; i < 400; i++) take(&p, step_of(good_loss(i) * (i == 200 ? 1.5 : 1)));
    expect_one(&p, 200, "step 200: the loss rose to ");
    assert_non_null(strstr(p.reported[0].text, "the median of the 64 steps before"));
}

TEST_CASE(a_spike_that_takes_twenty_steps_is_one_incident_and_the_next_another)
{
    struct patient p;
    begin(&p, usual);
    for (int i = 0; i < 500; i++)
        take(&p, step_of(good_loss(i) * ((i >= 200 && i < 220) || i == 300 ? 2 : 1)));
    assert_int_equal(p.count, 2);
    assert_true(p.reported[0].step == 200 && p.reported[1].step == 300);
}

TEST_CASE(a_loss_that_stays_up_is_reported_once_and_becomes_what_is_usual)
{
    struct patient p;
    begin(&p, usual);
    for (int i = 0; i < 800; i++) {
        double up = i < 200 ? 0 : 6;
        take(&p, step_of(good_loss(i) + up + (i == 700 ? 6 : 0)));
    }
    assert_int_equal(p.count, 2);
    assert_true(p.reported[0].step == 200 && p.reported[1].step == 700);
}

TEST_CASE(a_loss_that_stands_still_is_a_plateau_from_where_it_stood)
{
    struct patient p;
    begin(&p, usual);
    for (int i = 0; i < 5000; i++)
        take(&p, step_of(i < 1500 ? good_loss(i) : 3.2 * (1 + 0.03 * noise((uint64_t)i))));
    assert_int_equal(p.count, 1);
    assert_non_null(strstr(p.reported[0].text, "the loss has not fallen since step "));
    assert_in_range(p.reported[0].step, 1200, 2400); /* where it really stood, give or take the older half */
    assert_in_range(p.told_at[0], 2000, 3500);
}

TEST_CASE(a_plateau_that_ends_may_be_followed_by_another)
{
    struct patient p;
    struct config_health limits = usual;
    limits.plateau_steps = 64;
    limits.loss_spike = 0;
    begin(&p, limits);
    for (int i = 0; i < 300; i++) take(&p, step_of(i < 100 ? 4 : i < 200 ? 4 - 0.02 * (i - 100) : 2));
    assert_int_equal(p.count, 2);
    assert_int_equal(p.reported[0].step, 0);
    assert_in_range(p.reported[1].step, 150, 230);
}

/* A small model near its end: every 1,000 steps take less off the loss than its noise hides. */
TEST_CASE(a_slow_noisy_fall_is_reported_once_and_in_four_digits)
{
    struct patient p;
    begin(&p, usual);
    for (int i = 0; i < 10000; i++) take(&p, step_of((4.8 - 0.00003 * i) * (1 + 0.05 * noise((uint64_t)i))));
    assert_int_equal(p.count, 1);
    const char *then = strstr(p.reported[0].text, ": "), *now = strstr(p.reported[0].text, " then, ");
    assert_non_null(then);
    assert_non_null(now);
    assert_int_equal(strspn(then + 2, "0123456789."), 6); /* 4.8000 and 4.8100, not 4.8 and 4.81 */
    assert_int_equal(strspn(now + 7, "0123456789."), 6);
    assert_non_null(strstr(now, "raise health.plateau_steps"));
}

TEST_CASE(a_machine_that_becomes_slow_is_reported_from_when)
{
    struct patient p;
    begin(&p, usual);
    for (int i = 0; i < 400; i++) {
        struct health_step s = step_of(good_loss(i));
        bool slow = i >= 150 && i < 250;
        s.tokens_per_sec = slow ? 45000 : 100000;
        s.seconds = slow ? 2 : 1;
        take(&p, s);
    }
    assert_int_equal(p.count, 1);
    assert_in_range(p.reported[0].step, 149, 151);
    assert_non_null(
        strstr(p.reported[0].text, "throughput fell by 55 % since step 150: 45000 tokens/s, usually 100000"));
    assert_true(p.told_at[0] < 160);
}

/* Builds come and go on the machine: for a few steps it is almost as before, then slow again. */
TEST_CASE(a_machine_that_is_slow_with_breaks_is_one_incident)
{
    struct patient p;
    begin(&p, usual);
    for (int i = 0; i < 400; i++) {
        struct health_step s = step_of(good_loss(i));
        bool slow = i >= 150 && i < 250 && i % 20 < 10;
        s.tokens_per_sec = slow ? 400 : 950;
        take(&p, s);
    }
    assert_int_equal(p.count, 1);
}

TEST_CASE(a_machine_that_is_less_slow_than_the_limit_is_left_alone)
{
    struct patient p;
    begin(&p, usual);
    for (int i = 0; i < 400; i++) { /* a dip of a few steps below it, and then 30 % */
        struct health_step s = step_of(good_loss(i));
        s.tokens_per_sec = i < 150 ? 1000 : i < 155 ? 500 : 700;
        take(&p, s);
    }
    assert_int_equal(p.count, 0);
}

TEST_CASE(short_steps_that_are_slow_for_a_moment_are_no_incident)
{
    struct patient p;
    begin(&p, usual);
    for (int i = 0; i < 1000; i++) { /* a hundred steps of 20 ms */
        struct health_step s = step_of(good_loss(i));
        s.seconds = i >= 300 && i < 400 ? 0.02 : 0.01;
        s.tokens_per_sec = 10 / s.seconds;
        s.waited = i >= 300 && i < 400 ? 0.01 : 0;
        take(&p, s);
    }
    assert_int_equal(p.count, 0);
}

TEST_CASE(waiting_for_batches_is_reported_from_when_and_how_much)
{
    struct patient p;
    begin(&p, usual);
    for (int i = 0; i < 400; i++) {
        struct health_step s = step_of(good_loss(i));
        s.waited = i >= 100 && i < 300 ? 0.5 : 0.01;
        take(&p, s);
    }
    assert_int_equal(p.count, 1);
    assert_in_range(p.reported[0].step, 100, 116);
    assert_non_null(strstr(p.reported[0].text, "training has been waiting for its data since step "));
    assert_non_null(strstr(p.reported[0].text, "% of the time of the last 32 steps"));
}

TEST_CASE(a_row_of_non_finite_steps_is_one_incident)
{
    struct patient p;
    begin(&p, usual);
    for (int i = 0; i < 200; i++) {
        struct health_step s = step_of(good_loss(i));
        if ((i >= 50 && i < 60 && i != 55) || i == 150) {
            s.grad_norm = NAN;
            s.skipped = true;
        }
        if (i == 100) s.loss = INFINITY;
        take(&p, s);
    }
    assert_int_equal(p.count, 3);
    assert_true(p.reported[0].step == 50 && p.reported[1].step == 100 && p.reported[2].step == 150);
    assert_non_null(
        strstr(p.reported[0].text, "step 50: the gradient norm is not finite, the update was skipped"));
    assert_non_null(strstr(p.reported[1].text, "step 100: the loss is not finite"));
}

TEST_CASE(a_validation_loss_that_is_not_finite_is_reported_once_and_not_together_with_its_cause)
{
    struct health health;
    struct loss_level level = {0};
    struct health_event event;
    health = (struct health){.limits = usual, .level = &level};
    assert_int_equal(judge_evaluation(&health, 10, 2.5, &event), 0);
    assert_int_equal(judge_evaluation(&health, 20, NAN, &event), 1);
    assert_int_equal(event.step, 20);
    assert_string_equal(event.level, "warning");
    assert_non_null(strstr(event.text, "the validation loss after 20 steps is not finite (lower "));
    assert_int_equal(judge_evaluation(&health, 30, INFINITY, &event), 0);
    assert_int_equal(judge_evaluation(&health, 40, 2.5, &event), 0);
    assert_int_equal(judge_evaluation(&health, 50, NAN, &event), 1);
    struct health_event events[HEALTH_EVENTS_MAX];
    struct health_step broken = step_of(NAN);
    health = (struct health){.limits = usual, .level = &level};
    assert_int_equal(judge(&health, &broken, events), 1);
    assert_int_equal(judge_evaluation(&health, 1, NAN, &event), 0); /* the step has said so */
}

TEST_CASE(what_is_switched_off_says_nothing)
{
    struct patient p;
    begin(&p, (struct config_health){0});
    for (int i = 0; i < 3000; i++) {
        struct health_step s = step_of(i == 500 ? 100 : 3);
        s.tokens_per_sec = i < 1000 ? 1000 : 10;
        s.waited = i < 2000 ? 0 : 1;
        take(&p, s);
    }
    assert_int_equal(p.count, 0);
}

/* ---- in the trainer ---- */

/* A text of a vocabulary of 32 in which each token has a few likely successors: there is something to learn,
 * and it is never learnt to the end. */
static void fill_with_prose(struct session *s, uint64_t count)
{
    uint32_t token = 0;
    for (uint64_t i = 0; i < count; i++) {
        double u = rig_uniform(11, i);
        token = (uint32_t)(u < 0.8 ? (token * 7 + 3 + (uint32_t)(u * 5)) % 32 : u * 1e6) % 32;
        s->tokens[i] = token;
    }
}

TEST_CASE(training_that_goes_well_reports_no_event)
{
    struct session s;
    session_open(&s, "well", NULL,
                 WORDS("train.total_steps=500", "train.warmup_steps=50", "train.batch_size=4"), 60000);
    fill_with_prose(&s, 60000);
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    assert_true(s.story.steps[499].loss < 0.9 * s.story.steps[0].loss); /* it did learn */
    assert_int_equal(s.story.event_count, 0);
    session_close(&s);
}

/* From step 300 on the learning rate is a thousand times too high. */
TEST_CASE(a_learning_rate_that_breaks_training_is_reported)
{
    struct session s;
    struct story_order script[] = {{.at = 300, .order = {.id = 1, .verb = ORDER_LR_FACTOR, .argument = 1000}},
                                   {0}};
    session_open(&s, "broken", NULL,
                 WORDS("train.total_steps=320", "train.warmup_steps=50", "train.batch_size=4",
                       "train.learning_rate=0.003", "train.schedule=constant"),
                 60000);
    fill_with_prose(&s, 60000);
    s.story.orders = script;
    session_start(&s, false);
    session_run(&s);
    assert_int_equal(s.story.event_count, 1);
    assert_int_equal(s.story.last_event_step, 301); /* the first loss with the ruined weights */
    assert_non_null(strstr(s.story.last_event, "step 301: the loss rose to "));
    session_close(&s);
}

static void lost_sum(double *out, const float *x, size_t n, bool add, void *scratch, struct stream *stream)
{
    cpu_backend()->sum(out, x, n, add, scratch, stream);
    if (!add) *out = NAN; /* an evaluation's: steps add up theirs */
}

TEST_CASE(an_evaluation_that_is_not_finite_is_an_event_and_may_end_the_run)
{
    for (int stop = 0; stop < 2; stop++) {
        struct session s;
        struct backend lost = *cpu_backend();
        lost.sum = lost_sum;
        session_open(&s, "lost", &lost, WORDS("eval.every=4", stop ? "health.on_nan=stop" : "eval.batches=0"),
                     900);
        session_start(&s, false);
        assert_int_equal(session_run(&s), stop ? TRAIN_NOT_FINITE : TRAIN_FINISHED);
        assert_int_equal(s.story.event_count, 1);
        assert_int_equal(s.story.last_event_step, 4);
        assert_int_equal(s.story.step_count, stop ? 4 : 12);
        assert_string_equal(s.story.last_level, stop ? "error" : "warning");
        assert_non_null(strstr(s.story.last_event, "the validation loss after 4 steps is not finite"));
        session_close(&s);
    }
}

TEST_MAIN()
