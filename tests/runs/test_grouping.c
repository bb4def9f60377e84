/* Groups of runs that differ in certain keys alone, and how far runs had come at a step. */
#include <limits.h>
#include <math.h>

#include "runs/grouping.h"
#include "runs/pace.h"
#include "store_fixture.h"
#include "tests/cmocka.h"

/* Runs a to f: a and b differ in the seed, c in the seed and the batch size, d in the batch size alone; e and
 * f are forks of a and b at the same step, g one of a at another step, h has no configuration. */
static struct store *open_groups(const char *name, char *home, size_t size)
{
    store_fixture_home(name, home, size);
    struct store *store = store_fixture_open(home);
    store_fixture_sql(
        home,
        "insert into runs(id, name, status, created_at, device, precision, parent_id, parent_step) select"
        " 'id-' || n, n, 'finished', 1, 'cpu', 'fp32', p, s from (select 'a' n, null p, null s union select"
        " 'b', null, null union select 'c', null, null union select 'd', null, null union select 'e', 'id-a',"
        " 10 union select 'f', 'id-b', 10 union select 'g', 'id-a', 20 union select 'h', null, null);"
        "insert into params select id, 'train.seed', case when name in ('a', 'd', 'e', 'g') then '1' else "
        "'2' end"
        " from runs where name < 'h';"
        "insert into params select id, 'train.batch_size', case when name in ('c', 'd') then '8' else '4' end"
        " from runs where name < 'h'");
    return store;
}

/* The group of each run, in the order of names, as the name of its first run. */
static void expect_groups(struct store *store, const char *keys, const char *expected)
{
    struct arena arena = {0};
    struct run_info *runs;
    struct err err = {0};
    size_t count, *group;
    char found[64] = "";
    assert_int_equal(run_list(store, &arena, &runs, &count, &err), STATUS_OK);
    assert_int_equal(count, 8);
    struct run_info sorted[8];
    for (size_t i = 0; i < count; i++) sorted[runs[i].name[0] - 'a'] = runs[i];
    assert_int_equal(grouping_read(store, keys, true, sorted, count, &arena, &group, &err), STATUS_OK);
    for (size_t i = 0; i < count; i++) strcat(found, sorted[group[i]].name);
    assert_string_equal(found, expected);
    arena_release(&arena);
}

TEST_CASE(runs_that_differ_in_the_keys_alone_are_one_group)
{
    char home[PATH_MAX];
    struct store *store = open_groups("groups", home, sizeof home);
    expect_groups(store, "train.seed", "aacceegh");
    expect_groups(store, "train.seed, train.batch_size", "aaaaeegh");
    expect_groups(store, "train.batch_size", "abbaefgh");
    expect_groups(store, "", "abcdefgh");
    store_fixture_sql(home, "update runs set parent_id = 'gone' where name in ('e', 'f')");
    expect_groups(store, "train.seed", "aacceegh");
    store_fixture_sql(home, "update runs set parent_id = 'id-e' where name = 'e'"); /* its own parent */
    expect_groups(store, "train.seed", "aaccefgh");
    store_fixture_sql(home, "insert into tags select id, 'sweep:' || (id > 'id-f') from runs where name in"
                            " ('a', 'd', 'g', 'h')"); /* with and without a configuration */
    expect_groups(store, "train.seed", "abcaefgg");
    store_close(store);
}

TEST_CASE(a_stem_is_what_names_share_up_to_a_separator)
{
    static const char *const cases[][3] = {
        {"base-s1", "base-s2", "base"},  {"base", "base-s2", "base"},    {"base", "base2", "base"},
        {"a_b.1", "a_b.2", "a_b"},       {"日本-s1", "日本-s2", "日本"}, {"-1", "-2", "-1"},
        {"one", "two", "one"},           {"same", "same", "same"},       {"base-s1", "base", "base"},
        {"base-s1", "base-s10", "base"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char stem[RUN_NAME_MAX];
        snprintf(stem, sizeof stem, "%s", cases[i][0]);
        grouping_cut_stem(stem, cases[i][1]);
        assert_string_equal(stem, cases[i][2]);
    }
}

/* ---- pace ---- */

/* Steps of 2 seconds with 100 tokens each, 3 seconds apart, from a wall time on. */
static void record(const char *home, const char *id, int64_t first, int64_t end, double wall)
{
    struct err err = {0};
    struct writer *writer = store_fixture_writer(home, id);
    for (int64_t s = first; s < end; s++) {
        struct step_record step = store_fixture_step(s, 1);
        step.tokens = (s + 1) * 100;
        step.step_ms = 2000;
        step.wall_time = wall + (double)(s - first) * 3;
        writer_step(writer, &step);
        if (s % 8192 == 8191) assert_int_equal(writer_flush(writer, 60, &err), STATUS_OK);
    }
    assert_int_equal(writer_close(writer, RUN_STOPPED, NULL, &err), STATUS_OK);
}

static void expect_pace(const struct pace *pace, double step, double tokens, double wall, double active)
{
    assert_float_equal(pace_at(pace, PACE_TOKENS, step), tokens, 1e-6);
    assert_float_equal(pace_at(pace, PACE_WALL, step), wall, 1e-6);
    assert_float_equal(pace_at(pace, PACE_ACTIVE, step), active, 1e-6);
}

TEST_CASE(pace_is_what_the_steps_say_and_goes_on_in_forks)
{
    char home[PATH_MAX], parent[RUN_ID_MAX], fork[RUN_ID_MAX], sql[300];
    struct arena arena = {0};
    struct err err = {0};
    struct pace pace;
    store_fixture_home("pace", home, sizeof home);
    store_fixture_run(home, "parent", parent);
    store_fixture_run(home, "fork", fork);
    record(home, parent, 0, 10000, 5000);
    record(home, parent, 9000, 12000, 90000); /* resumed long after, from an earlier step */
    struct store *store = store_fixture_open(home);
    assert_int_equal(pace_read(store, parent, &arena, &pace, &err), STATUS_OK);
    assert_in_range(pace.count, 60, 200);
    expect_pace(&pace, 0, 100, 2, 2);
    expect_pace(&pace, 4000, 400100, 12002, 8002);
    expect_pace(&pace, 11999, 1200000, 90000 - 5000 + 2999 * 3 + 2, 24000);
    expect_pace(&pace, 20000, 1200000, 90000 - 5000 + 2999 * 3 + 2, 24000); /* it ended before */
    assert_true(pace_step(&pace, PACE_TOKENS, 400100, false) <= 4000);
    assert_true(pace_step(&pace, PACE_TOKENS, 400100, true) >= 4000);
    /* a fork, begun in another week, goes on where its parent was */
    snprintf(sql, sizeof sql, "update runs set parent_id = '%s', parent_step = 6000 where id = '%s'", parent,
             fork);
    store_fixture_sql(home, sql);
    record(home, fork, 6000, 7000, 700000);
    assert_int_equal(pace_read(store, fork, &arena, &pace, &err), STATUS_OK);
    expect_pace(&pace, 4000, 400100, 12002, 8002);
    expect_pace(&pace, 6999, 700000, 5999 * 3 + 2 + 999 * 3 + 2, 14000);
    /* what is not recorded is not known */
    store_fixture_sql(home, "update steps set wall_time = null, tokens = null");
    assert_int_equal(pace_read(store, fork, &arena, &pace, &err), STATUS_OK);
    assert_true(isnan(pace_at(&pace, PACE_WALL, 6999)));
    assert_int_equal(pace_read(store, "none", &arena, &pace, &err), STATUS_OK);
    assert_true(isnan(pace_at(&pace, PACE_TOKENS, 5)));
    arena_release(&arena);
    store_close(store);
}

TEST_MAIN()
