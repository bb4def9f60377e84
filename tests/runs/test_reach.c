/* How far a run had come at a step, and when it reached a value. */
#include <math.h>

#include "runs/pace.h"
#include "runs/reach.h"
#include "store_fixture.h"
#include "tests/cmocka.h"

static struct store *store;
static struct arena arena;

/* "way": 3000 steps of 100 tokens, each of which takes 10 ms and begins 20 ms after the one before it, with a
 * loss that falls by 1/1024 a step, but for one low step; an evaluation every 100 steps. "fork": 1000 steps
 * of its own after 1000 of "way", a year later. */
static int make_store(void **state)
{
    char home[1024], id[RUN_ID_MAX];
    (void)state;
    store_fixture_home("reach", home, sizeof home);
    store_fixture_run(home, "first", id);
    store_fixture_sql(
        home, "delete from runs;"
              "insert into runs(id, name, status, created_at, parent_id, parent_step) values"
              " ('way', 'way', 'finished', 1e9, null, null), ('fork', 'fork', 'finished', 2e9, 'way', 1000);"
              "insert into segments(run_id, segment, first_step, started_at) values('way', 1, 0, 1e9),"
              " ('fork', 1, 1000, 2e9);"
              "with recursive n(i) as (select 0 union all select i + 1 from n where i < 2999)"
              " insert into steps(run_id, segment, step, tokens, wall_time, step_ms, loss, tokens_per_sec)"
              " select 'way', 1, i, (i + 1) * 100, 1e9 + i * 0.02, 10, case i when 700 then 1 else"
              " 9 - i / 1024.0 end, i from n;"
              "insert into steps(run_id, segment, step, tokens, wall_time, step_ms, loss) select 'fork', 1,"
              " step, tokens, wall_time + 31536000, step_ms, 8 - (step - 1000) / 512.0 from steps"
              " where step between 1000 and 1999;"
              "insert into evals(run_id, segment, step, val_loss) select 'way', 1, step, 9 - step / 1024.0"
              " from steps where run_id = 'way' and step % 100 = 0;"
              "insert into runs(id, name, status, created_at) values('import', 'import', 'finished', 1e9);"
              "insert into segments(run_id, segment, first_step, started_at) values('import', 1, 0, 1e9);"
              "insert into steps(run_id, segment, step, tokens, wall_time, loss) select 'import', 1, step,"
              " tokens, wall_time, loss from steps where run_id = 'way' and step < 1000");
    store = store_fixture_open(home);
    return 0;
}

static int close_store(void **state)
{
    (void)state;
    arena_release(&arena);
    store_close(store);
    return 0;
}

static struct pace pace_of(const char *id)
{
    struct pace pace;
    struct err err = {0};
    if (pace_read(store, id, &arena, &pace, &err)) fail_msg("%s", err.text);
    return pace;
}

static void expect_at(const double at[PACE_UNITS], double tokens, double wall, double active)
{
    if (fabs(at[PACE_TOKENS] - tokens) > 1e-3 || fabs(at[PACE_WALL] - wall) > 1e-3 ||
        fabs(at[PACE_ACTIVE] - active) > 1e-6)
        fail_msg("%.9g tokens, %.9g s, %.9g s active, not %g, %g, %g", at[PACE_TOKENS], at[PACE_WALL],
                 at[PACE_ACTIVE], tokens, wall, active);
}

/* The pauses between two runs are not of either. */
TEST_CASE(a_step_has_its_tokens_and_times_also_between_two_points)
{
    static const char *const ids[] = {"way", "fork"};
    for (int i = 0; i < 2; i++) {
        struct pace pace = pace_of(ids[i]);
        const double last = i ? 1999 : 2999;
        assert_in_range(pace.count, 30, 200);
        for (double step = 0; step <= last; step += 0.5) {
            double at[PACE_UNITS];
            if (i && fabs(step - 1000) < 64) continue; /* within the point in which it was forked */
            for (int u = 0; u < PACE_UNITS; u++) at[u] = pace_at(&pace, (enum pace_unit)u, step);
            expect_at(at, (step + 1) * 100, step * 0.02 + (i && step > 1000 ? 0 : 0.01), (step + 1) * 0.01);
        }
        assert_true(pace_at(&pace, PACE_TOKENS, -5) == pace.points[0].at[PACE_TOKENS]);
        assert_true(pace_at(&pace, PACE_TOKENS, 1e6) == (last + 1) * 100);
        int64_t before = pace_step(&pace, PACE_TOKENS, 50050, false),
                after = pace_step(&pace, PACE_TOKENS, 50050, true);
        assert_true(before >= 500 - 64 && before < 500 && after >= 500 && after < 500 + 64);
        assert_int_equal(pace_step(&pace, PACE_TOKENS, (double)(after + 1) * 100, true), after);
        assert_int_equal(pace_step(&pace, PACE_TOKENS, 1, false), 0);
        assert_true(pace_step(&pace, PACE_TOKENS, 1e9, true) == (int64_t)last);
    }
}

TEST_CASE(an_import_without_times_of_steps_has_the_pace_of_its_tokens_and_its_clock)
{
    struct pace pace = pace_of("import");
    for (double step = 0; step < 1000; step++) {
        assert_true(fabs(pace_at(&pace, PACE_TOKENS, step) - (step + 1) * 100) < 1e-3);
        assert_true(fabs(pace_at(&pace, PACE_WALL, step) - step * 0.02) < 1e-3);
        assert_true(isnan(pace_at(&pace, PACE_ACTIVE, step)));
    }
}

TEST_CASE(a_run_without_steps_has_no_pace)
{
    struct pace pace = pace_of("nobody");
    assert_int_equal(pace.count, 0);
    assert_true(isnan(pace_at(&pace, PACE_WALL, 0)));
    assert_int_equal(pace_step(&pace, PACE_WALL, 1, true), 0);
}

TEST_CASE(the_first_step_that_is_good_enough_counts)
{
    static const struct {
        const char *id;
        enum metric metric;
        double target;
        int64_t step;    /* -1: never */
        int64_t trained; /* steps that had been trained by then */
    } cases[] = {
        {"way", METRIC_LOSS, 9.5, 0, 1},
        {"way", METRIC_LOSS, 9, 0, 1},
        {"way", METRIC_LOSS, 9 - 1 / 1024.0, 1, 2},
        {"way", METRIC_LOSS, 9 - 699 / 1024.0, 699, 700},
        {"way", METRIC_LOSS, 8.25, 700, 701}, /* the low one, in the midst of others */
        {"way", METRIC_LOSS, 0.5, -1, 0},
        {"way", METRIC_LOSS, NAN, -1, 0},
        {"way", METRIC_TOKENS_PER_SEC, 0, 0, 1},
        {"way", METRIC_TOKENS_PER_SEC, 1777, 1777, 1778},
        {"way", METRIC_TOKENS_PER_SEC, 2999.5, -1, 0},
        {"way", METRIC_VAL_LOSS, 9, 0, 0},
        {"way", METRIC_VAL_LOSS, 9 - 1500 / 1024.0, 1500, 1500},
        {"way", METRIC_VAL_LOSS, 9 - 1501 / 1024.0, 1600, 1600},
        {"fork", METRIC_LOSS, 8.75, 256, 257}, /* its parent's */
        {"fork", METRIC_LOSS, 0.75, -1, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pace pace = pace_of(cases[i].id);
        struct reach reach;
        struct err err = {0};
        struct reach_request request = {.metric = cases[i].metric,
                                        .target = cases[i].target,
                                        .from_below = cases[i].metric == METRIC_TOKENS_PER_SEC};
        assert_int_equal(reach_read(store, cases[i].id, &request, &pace, &reach, &err), STATUS_OK);
        if (reach.step != cases[i].step) fail_msg("case %zu: step %lld", i, (long long)reach.step);
        double n = (double)cases[i].trained;
        if (reach.step < 0)
            assert_true(isnan(reach.at[PACE_TOKENS]) && isnan(reach.at[PACE_WALL]));
        else
            expect_at(reach.at, n * 100, n ? n * 0.02 - 0.01 : 0, n * 0.01);
    }
}

int main(void)
{
    return TEST_RUN(make_store, close_store);
}
