/* Which rank the others wait for, from what each rank counted. */
#include "core/train/pace.h"
#include "tests/cmocka.h"

enum { RANKS = 4, STEPS = 10 };

struct world_of_paces {
    struct paces paces;
    struct pace now[RANKS];
    struct rank_record records[RANKS];
    int ranks;
    double times;
};

static void begin(struct world_of_paces *w, int ranks)
{
    struct err err;
    *w = (struct world_of_paces){.ranks = ranks};
    assert_int_equal(paces_open(&w->paces, ranks, &err), STATUS_OK);
}

/* Another report, in which each rank computed for so many ms a step. Returns the rank that is named. */
static int report(struct world_of_paces *w, const double *ms)
{
    for (int r = 0; r < w->ranks; r++) {
        w->now[r].steps += STEPS;
        w->now[r].computing += ms[r] * 1e-3 * STEPS;
        w->now[r].waiting += 1e-3 * STEPS;
        w->now[r].sent += 100 * STEPS;
        w->records[r] = paces_report(&w->paces, r, &w->now[r]);
    }
    return paces_judge(&w->paces, &w->times);
}

TEST_CASE(a_record_has_the_means_since_the_last_one)
{
    struct world_of_paces w;
    begin(&w, 2);
    report(&w, (const double[]){5, 7});
    report(&w, (const double[]){1, 2});
    assert_int_equal(w.records[1].rank, 1);
    assert_float_equal(w.records[0].step_ms, 1, 1e-9);
    assert_float_equal(w.records[1].step_ms, 2, 1e-9);
    assert_float_equal(w.records[1].wait_ms, 1, 1e-9);
    assert_int_equal(w.records[1].sent_bytes, 100);
    paces_close(&w.paces);
}

TEST_CASE(a_slow_rank_is_named_once_when_it_lasts)
{
    struct world_of_paces w;
    const double slow[] = {10, 11, 20, 9}, even[] = {10, 11, 12, 9};
    begin(&w, RANKS);
    for (int again = 0; again < 2; again++) {
        for (int i = 1; i < PACE_LASTING; i++) assert_int_equal(report(&w, slow), -1);
        assert_int_equal(report(&w, slow), 2);
        assert_float_equal(w.times, 2, 1e-9);
        for (int i = 0; i < 50; i++) assert_int_equal(report(&w, slow), -1);
        for (int i = 0; i < PACE_LASTING; i++) assert_int_equal(report(&w, even), -1);
    }
    paces_close(&w.paces);
}

TEST_CASE(one_slow_report_is_no_news)
{
    struct world_of_paces w;
    begin(&w, RANKS);
    for (int i = 0; i < 100; i++) {
        double ms[] = {10, 10, 10, i % PACE_LASTING ? 30 : 10};
        assert_int_equal(report(&w, ms), -1);
    }
    paces_close(&w.paces);
}

TEST_CASE(of_two_ranks_the_slower_one_is_named)
{
    struct world_of_paces w;
    begin(&w, 2);
    int named = -1;
    for (int i = 0; i < PACE_LASTING; i++) named = report(&w, (const double[]){16, 10});
    assert_int_equal(named, 0);
    assert_float_equal(w.times, 1.6, 1e-9);
    paces_close(&w.paces);
}

TEST_CASE(all_slow_ranks_are_named_one_after_the_other)
{
    struct world_of_paces w;
    const double ms[] = {30, 10, 10, 20};
    begin(&w, RANKS);
    for (int i = 1; i < PACE_LASTING; i++) assert_int_equal(report(&w, ms), -1);
    assert_int_equal(report(&w, ms), 0);
    assert_int_equal(report(&w, ms), 3);
    assert_int_equal(report(&w, ms), -1);
    paces_close(&w.paces);
}

TEST_MAIN()
