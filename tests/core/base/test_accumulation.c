/* Plans of growing batches: sizes, sums and their inverse, and what is refused. */
#include "core/base/accumulation.h"

#include "tests/cmocka.h"

static const char plan[] = "0: 1, 1000: 2,4000 :4";

TEST_CASE(a_step_has_the_micro_batches_of_the_last_entry_up_to_it)
{
    static const int64_t expected[][2] = {{0, 1},    {1, 1},    {999, 1},  {1000, 2},
                                          {3999, 2}, {4000, 4}, {9999, 4}, {INT64_MAX - 1, 4}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        assert_int_equal(accumulation_at(plan, expected[i][0]), expected[i][1]);
        assert_int_equal(accumulation_at("", expected[i][0]), 1);
    }
    assert_int_equal(accumulation_most(plan), 4);
    assert_int_equal(accumulation_most("0:8,5:3"), 8);
    assert_int_equal(accumulation_most(""), 1);
}

TEST_CASE(sums_are_those_of_the_steps_one_by_one)
{
    static const char small[] = "0:3,2:1,7:5,8:2";
    double sum = 0;
    for (int64_t steps = 0; steps < 20; steps++) {
        assert_true(accumulation_sum(small, steps) == sum);
        assert_true(accumulation_sum("", steps) == (double)steps);
        assert_true(accumulation_steps(small, sum) == (double)steps);
        sum += (double)accumulation_at(small, steps);
    }
    assert_true(accumulation_steps(small, 6.5) == 3); /* two steps of 3, and part of one of 1 */
    assert_true(accumulation_steps(plan, 7001) == 4001);
    assert_true(accumulation_steps("", 2.5) == 3);
}

TEST_CASE(what_is_no_plan_is_refused)
{
    static const char *const wrong[] = {
        "2",          "1000: 2", "0: 1, 1000",       "0: 0",    "0: 1, 5: 2, 5: 3",
        "0: 65537",   "0: -1",   "0: 1, 7: 2, 3: 1", "0:1 5:2", "0: 1; 5: 2",
        "0: 1000000", "zero: 1", "0: 1, -5: 2",      "0:1:2",   " "};
    struct err err;
    assert_int_equal(accumulation_check("", NULL), STATUS_OK);
    assert_int_equal(accumulation_check(plan, NULL), STATUS_OK);
    assert_int_equal(accumulation_check(" 0 : 65536 ", NULL), STATUS_OK);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        if (accumulation_check(wrong[i], &err) != STATUS_USAGE) fail_msg("\"%s\" is accepted", wrong[i]);
        assert_non_null(strstr(err.text, "such as 0: 1, 1000: 2, 4000: 4"));
    }
}

TEST_MAIN()
