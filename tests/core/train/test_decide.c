/* The decisions between two steps, for every combination of facts that matters. */
#include "core/train/decide.h"
#include "tests/cmocka.h"

/* Nothing to do but the next step. */
static const struct facts plain = {.step = 5, .total = 10, .asked = true, .evaluated = true};

static void expect(struct facts facts, enum action action)
{
    assert_int_equal(decide(&facts).action, action);
}

static void expect_end(struct facts facts, enum train_outcome outcome)
{
    struct decision decision = decide(&facts);
    assert_int_equal(decision.action, ACTION_END);
    assert_int_equal(decision.outcome, outcome);
}

TEST_CASE(with_nothing_due_the_next_step_follows_once_the_observer_was_asked)
{
    struct facts f = plain;
    expect(f, ACTION_STEP);
    f.in_flight = 1; /* steps follow each other unsettled */
    expect(f, ACTION_STEP);
    f.asked = false;
    expect(f, ACTION_ASK);
    f.saved = f.doubtful = true;
    expect(f, ACTION_ASK);
}

TEST_CASE(due_and_ordered_things_wait_for_the_steps_under_way)
{
    struct facts f = plain;
    f.in_flight = 1;
    for (unsigned due = 1; due < 16; due++) {
        f.due = due;
        expect(f, ACTION_SETTLE);
    }
    f.due = 0;
    f.ordered = true;
    expect(f, ACTION_SETTLE);
    f.ordered = false;
    f.leave = true;
    expect(f, ACTION_SETTLE);
    f.leave = false;
    f.step = f.total;
    expect(f, ACTION_SETTLE);
}

TEST_CASE(trouble_comes_before_all_but_a_failure)
{
    struct facts f = plain;
    f.trouble = f.leave = f.ordered = true;
    f.in_flight = 1;
    f.due = DUE_EVALUATION | DUE_CHECKPOINT;
    f.step = f.total;
    expect(f, ACTION_ROLL_BACK);
    f.failure = STATUS_FAILED;
    expect_end(f, TRAIN_FAILED);
}

TEST_CASE(what_is_held_out_is_evaluated_before_the_run_is_finished)
{
    struct facts f = plain;
    f.evaluated = false;
    expect(f, ACTION_STEP);
    f.step = f.total;
    expect(f, ACTION_EVALUATE);
    f.evaluated = true;
    expect_end(f, TRAIN_FINISHED);
}

TEST_CASE(the_last_checkpoint_is_of_weights_without_doubt_or_that_an_evaluation_clears)
{
    struct facts f = plain;
    f.leave = true;
    assert_true(decide(&f).save);
    f.doubtful = true;
    assert_false(decide(&f).save);
    f.cleared = true;
    assert_true(decide(&f).save);
    f.not_finite = true;
    expect_end(f, TRAIN_NOT_FINITE);
    assert_false(decide(&f).save);
}

TEST_CASE(things_due_come_in_their_order_and_before_orders)
{
    struct facts f = plain;
    f.ordered = true;
    f.leave = true;
    f.due = DUE_EVALUATION | DUE_BEST | DUE_SAMPLE | DUE_CHECKPOINT;
    expect(f, ACTION_EVALUATE);
    f.due &= ~(unsigned)DUE_EVALUATION;
    expect(f, ACTION_SAMPLE); /* before a checkpoint: a resumed run does not repeat it */
    f.due &= ~(unsigned)DUE_SAMPLE;
    expect(f, ACTION_KEEP);
    f.due &= ~(unsigned)DUE_BEST;
    expect(f, ACTION_SAVE);
    f.due = 0;
    expect(f, ACTION_OBEY);
    f.ordered = false;
    expect_end(f, TRAIN_STOPPED);
}

TEST_CASE(doubtful_weights_are_not_saved_and_a_checkpoint_not_twice)
{
    struct facts f = plain;
    f.due = DUE_BEST | DUE_CHECKPOINT;
    f.doubtful = true;
    expect(f, ACTION_STEP);
    f.doubtful = false;
    f.saved = true;
    expect(f, ACTION_KEEP); /* as the best it is another */
    f.due = DUE_CHECKPOINT;
    expect(f, ACTION_STEP);
}

TEST_CASE(the_run_ends_for_the_first_reason_there_is)
{
    struct facts f = plain;
    f.patience_used_up = true;
    expect_end(f, TRAIN_EARLY_STOPPED);
    f.pause = true; /* it may be continued with more patience, or stopped */
    expect(f, ACTION_REST);
    f.leave = true;
    expect_end(f, TRAIN_STOPPED);
    f.step = f.total;
    expect_end(f, TRAIN_FINISHED);
    f.due = DUE_EVALUATION;
    expect(f, ACTION_EVALUATE);
    f.not_finite = true;
    expect_end(f, TRAIN_NOT_FINITE);
    f.skipped_in_a_row = SKIPS_IN_A_ROW_MAX - 1;
    expect_end(f, TRAIN_NOT_FINITE);
    f.skipped_in_a_row = SKIPS_IN_A_ROW_MAX;
    expect_end(f, TRAIN_DIVERGED);
    f.failure = STATUS_DEVICE;
    expect_end(f, TRAIN_FAILED);
}

TEST_CASE(only_a_failing_device_is_replaced_and_only_where_there_is_another)
{
    static const enum status failures[] = {STATUS_DEVICE, STATUS_NO_MEMORY, STATUS_FAILED, STATUS_IO};
    for (int i = 0; i < 4; i++) {
        struct facts f = plain;
        f.failure = failures[i];
        expect_end(f, TRAIN_FAILED);
        f.another_device = true;
        expect_end(f, i < 2 ? TRAIN_FALLS_BACK : TRAIN_FAILED);
    }
}

TEST_CASE(what_is_due_follows_from_the_configuration_and_the_step)
{
    struct config c;
    config_init(&c);
    c.train.total_steps = 60;
    c.eval.every = 4;
    c.sample.every = 5;
    c.checkpoint.every = 6;
    c.eval.at_epoch_end = false;
    assert_int_equal(decide_due(&c, 1, true), 0);
    assert_int_equal(decide_due(&c, 8, false), DUE_EVALUATION);
    assert_int_equal(decide_due(&c, 15, false), DUE_SAMPLE);
    assert_int_equal(decide_due(&c, 18, false), DUE_CHECKPOINT);
    assert_int_equal(decide_due(&c, 60, false), DUE_EVALUATION | DUE_SAMPLE); /* the last one is the end's */
    c.eval.at_epoch_end = true;
    assert_int_equal(decide_due(&c, 1, true), DUE_EVALUATION);
    c.eval.every = c.sample.every = c.checkpoint.every = 0;
    assert_int_equal(decide_due(&c, 12, false), 0);
}

/* The steps up to `last` after which `due` is set, as a list in `out`. */
static void list_due(const struct config *c, unsigned due, int64_t last, char *out, size_t size)
{
    size_t used = 0;
    for (int64_t step = 0; step <= last; step++)
        if (decide_due(c, step, false) & due)
            used += (size_t)snprintf(out + used, size - used, "%s%d", used ? " " : "", (int)step);
}

TEST_CASE(early_ones_come_often_at_first_and_up_to_half_of_every)
{
    struct config c;
    char steps[200];
    config_init(&c);
    c.eval.every = 100;
    c.sample.every = 1000;
    list_due(&c, DUE_EVALUATION, 200, steps, sizeof steps);
    assert_string_equal(steps, "0 10 20 50 100 200");
    list_due(&c, DUE_EARLY, 200, steps, sizeof steps);
    assert_string_equal(steps, "0 10 20 50");
    list_due(&c, DUE_SAMPLE, 2000, steps, sizeof steps);
    assert_string_equal(steps, "0 10 20 50 100 200 500 1000 2000");
    c.eval.early = c.sample.early = false;
    list_due(&c, DUE_EVALUATION | DUE_EARLY, 200, steps, sizeof steps);
    assert_string_equal(steps, "100 200");
    c.eval.early = true;
    c.eval.every = c.sample.every = c.checkpoint.every = 0; /* none at all */
    assert_int_equal(decide_due(&c, 0, false), 0);
    assert_int_equal(decide_due(&c, 10, false), 0);
}

TEST_CASE(a_sample_is_the_first_thing_to_be_seen)
{
    struct facts f = plain;
    f.step = 0;
    f.due = DUE_EVALUATION | DUE_EARLY | DUE_SAMPLE;
    expect(f, ACTION_SAMPLE);
    f.due &= ~(unsigned)DUE_SAMPLE;
    expect(f, ACTION_EVALUATE);
}

TEST_CASE(an_early_evaluation_does_not_hold_up_a_run_that_is_to_stop)
{
    struct facts f = plain;
    f.due = DUE_EVALUATION | DUE_EARLY | DUE_SAMPLE;
    f.asked = false;
    expect(f, ACTION_ASK);
    f.asked = true;
    expect(f, ACTION_EVALUATE);
    f.far_enough = true; /* nobody waits */
    expect(f, ACTION_EVALUATE);
    f.leave = true;
    expect_end(f, TRAIN_STOPPED);
    f.due &= ~(unsigned)DUE_EARLY; /* a regular one is part of the run's history */
    expect(f, ACTION_EVALUATE);
}

TEST_MAIN()
