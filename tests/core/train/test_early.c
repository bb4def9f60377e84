/* Early evaluations and samples: when they come, and what they leave as it is. */
#include <math.h>

#include "core/train/decide.h"
#include "core/train/early.h"
#include "tests/cmocka.h"
#include "tests/core/train/story.h"

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

TEST_CASE(early_ones_are_counted_as_they_come)
{
    static const int64_t evers[] = {0, 1, 19, 20, 39, 40, 99, 100, 200, 1000, 12345};
    for (size_t e = 0; e < sizeof evers / sizeof *evers; e++)
        for (int64_t total = 1; total < 600; total += 7) {
            struct config c;
            int64_t count = 0;
            config_init(&c);
            c.eval.every = evers[e];
            c.sample.every = c.checkpoint.every = 0;
            for (int64_t step = 0; step < total; step++)
                count += (decide_due(&c, step, false) & DUE_EARLY) != 0;
            assert_int_equal(early_count(true, evers[e], total), count);
            assert_int_equal(early_count(false, evers[e], total), 0);
        }
}

TEST_CASE(early_evaluations_and_samples_change_no_step_and_use_up_no_patience)
{
    static const int64_t evaluated[] = {0, 10, 20, 40, 45};
    struct session early, late;
    struct session *const sessions[] = {&early, &late};
    for (int i = 0; i < 2; i++) {
        session_open(sessions[i], i ? "late" : "soon", NULL,
                     WORDS("train.total_steps=45", "train.dropout=0.1", "eval.every=40", "sample.every=40",
                           "eval.early_stopping_patience=9", i ? "eval.early=false" : "eval.early=true",
                           i ? "sample.early=false" : "sample.early=true"),
                     900);
        session_start(sessions[i], false);
        assert_int_equal(session_run(sessions[i]), TRAIN_FINISHED);
    }
    assert_int_equal(early.story.step_count, 45);
    for (int i = 0; i < 45; i++) {
        assert_true(early.story.steps[i].loss == late.story.steps[i].loss);
        assert_true(early.story.steps[i].grad_norm == late.story.steps[i].grad_norm);
    }
    assert_int_equal(early.story.eval_count, 5);
    for (int i = 0; i < 5; i++) assert_int_equal(early.story.evals[i].step, evaluated[i]);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(early.story.stoppings[i].verdict, VERDICT_ORDERED);
        assert_int_equal(early.story.stoppings[i].patience_used, 0);
    }
    assert_int_equal(early.story.stoppings[3].verdict, VERDICT_IMPROVED);
    assert_true(early.story.evals[3].val_loss == late.story.evals[0].val_loss);
    assert_int_equal(early.story.checkpoints[0].step,
                     10);                          /* the weights before the first step are not kept */
    assert_int_equal(early.story.sample_count, 4); /* 0, 10, 20, 40 */
    assert_int_equal(late.story.sample_count, 1);
    assert_true(fabs(early.story.evals[0].val_loss - log(256)) < 0.1); /* it knows nothing yet */
    session_close(&early);
    session_close(&late);
}

/* The first evaluation that counts for the patience is an improvement, whatever early ones have measured. */
TEST_CASE(early_evaluations_use_up_no_patience_of_a_resumed_run)
{
    struct session s;
    session_open(&s, "resumed", NULL,
                 WORDS("train.total_steps=30", "train.learning_rate=0", "eval.every=20", "eval.early=true",
                       "eval.early_stopping_patience=1"),
                 900);
    s.story.leave_at = 12;
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_STOPPED);
    s.story.leave_at = 0;
    session_start(&s, true);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    assert_int_equal(s.story.done, 30);
    session_close(&s);
}

TEST_MAIN()
