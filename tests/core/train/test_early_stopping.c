/* Early stopping: what improves, what counts against the patience, and the row that each evaluation leaves.
 */
#include <math.h>

#include "core/train/early_stopping.h"
#include "tests/cmocka.h"

TEST_CASE(the_first_evaluation_is_the_best_so_far)
{
    struct early_stopping stopping;
    early_stopping_init(&stopping, 3, 0.5, false);
    struct stopping_record row = early_stopping_judge(&stopping, 100, 7.25, false);
    assert_true(row.improved);
    assert_int_equal(row.verdict, VERDICT_IMPROVED);
    assert_int_equal(row.step, 100);
    assert_int_equal(row.best_step, 100);
    assert_true(row.val_loss == 7.25 && row.best_val_loss == 7.25 && row.min_delta == 0.5);
    assert_int_equal(row.patience_used, 0);
    assert_int_equal(row.patience, 3);
}

TEST_CASE(stops_when_the_patience_is_used_up_and_not_before)
{
    struct early_stopping stopping;
    early_stopping_init(&stopping, 2, 0, false);
    early_stopping_judge(&stopping, 10, 2, false);
    struct stopping_record row = early_stopping_judge(&stopping, 20, 3, false);
    assert_int_equal(row.verdict, VERDICT_WAITING);
    assert_int_equal(row.patience_used, 1);
    row = early_stopping_judge(&stopping, 30, 4, false);
    assert_int_equal(row.verdict, VERDICT_STOP);
    assert_int_equal(row.patience_used, 2);
    assert_int_equal(row.best_step, 10);
    assert_true(row.best_val_loss == 2 && row.val_loss == 4);
}

TEST_CASE(an_improvement_gives_the_patience_back)
{
    struct early_stopping stopping;
    early_stopping_init(&stopping, 2, 0, false);
    early_stopping_judge(&stopping, 10, 2, false);
    early_stopping_judge(&stopping, 20, 3, false);
    assert_int_equal(early_stopping_judge(&stopping, 30, 1.5, false).patience_used, 0);
    assert_int_equal(early_stopping_judge(&stopping, 40, 1.6, false).verdict, VERDICT_WAITING);
    assert_int_equal(early_stopping_judge(&stopping, 50, 1.6, false).verdict, VERDICT_STOP);
}

TEST_CASE(min_delta_counts_for_patience_and_drift_does_not_creep)
{
    struct early_stopping stopping;
    early_stopping_init(&stopping, 3, 0.25, false);
    early_stopping_judge(&stopping, 1, 2, false);
    struct stopping_record row = early_stopping_judge(&stopping, 2, 1.75, false); /* exactly min_delta */
    assert_int_equal(row.verdict, VERDICT_WAITING);
    assert_true(row.improved && row.best_val_loss == 1.75 && row.best_step == 2); /* the lowest is the best */
    row = early_stopping_judge(&stopping, 3, 1.76, false);
    assert_false(row.improved);
    assert_int_equal(row.patience_used, 2);
    row = early_stopping_judge(&stopping, 4, 1.74, false); /* measured from 2, not from the best */
    assert_int_equal(row.verdict, VERDICT_IMPROVED);
    assert_int_equal(row.patience_used, 0);
}

TEST_CASE(an_ordered_evaluation_may_be_the_best_and_leaves_the_patience)
{
    struct early_stopping stopping;
    early_stopping_init(&stopping, 2, 0, false);
    early_stopping_judge(&stopping, 1, 2, false);
    early_stopping_judge(&stopping, 2, 3, false);
    struct stopping_record row = early_stopping_judge(&stopping, 3, 4, true);
    assert_int_equal(row.verdict, VERDICT_ORDERED);
    assert_int_equal(row.patience_used, 1);
    assert_false(row.improved);
    row = early_stopping_judge(&stopping, 4, 1, true);
    assert_true(row.improved && row.best_val_loss == 1 && row.best_step == 4);
    assert_int_equal(row.patience_used, 1);
    assert_int_equal(early_stopping_judge(&stopping, 5, 1.5, false).patience_used, 0); /* less than 2 */
}

TEST_CASE(equal_is_not_better)
{
    struct early_stopping stopping;
    early_stopping_init(&stopping, 1, 0, false);
    early_stopping_judge(&stopping, 1, 2, false);
    assert_int_equal(early_stopping_judge(&stopping, 2, 2, false).verdict, VERDICT_STOP);
}

TEST_CASE(nan_and_infinity_never_improve)
{
    struct early_stopping stopping;
    early_stopping_init(&stopping, 3, 0, false);
    struct stopping_record row = early_stopping_judge(&stopping, 1, NAN, false);
    assert_false(row.improved);
    assert_true(isnan(row.val_loss) && isinf(row.best_val_loss));
    assert_int_equal(row.best_step, -1);
    assert_false(early_stopping_judge(&stopping, 2, INFINITY, false).improved);
    assert_true(early_stopping_judge(&stopping, 3, 9, false).improved);
    assert_false(early_stopping_judge(&stopping, 4, NAN, false).improved);
    assert_true(stopping.best == 9);
}

TEST_CASE(patience_zero_keeps_the_history_and_never_stops)
{
    struct early_stopping stopping;
    early_stopping_init(&stopping, 0, 0, false);
    early_stopping_judge(&stopping, 0, 1, false);
    for (int64_t step = 1; step <= 1000; step++) {
        struct stopping_record row = early_stopping_judge(&stopping, step, 2, false);
        assert_int_equal(row.verdict, VERDICT_WAITING);
        assert_int_equal(row.patience_used, step);
        assert_int_equal(row.patience, 0);
    }
}

TEST_MAIN()
