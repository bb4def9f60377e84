/* Forks: what a series inherits from the runs that a fork continues. */
#include <limits.h>

#include "runs/series.h"
#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"

/* A run called `name` with this many steps. */
static void add_run(const char *home, const char *name, int64_t steps, char id[RUN_ID_MAX])
{
    struct err err = {0};
    store_fixture_run(home, name, id);
    struct writer *writer = store_fixture_writer(home, id);
    for (int64_t s = 0; s < steps; s++) {
        struct step_record step = store_fixture_step(s, 1);
        writer_step(writer, &step);
    }
    assert_int_equal(writer_close(writer, RUN_STOPPED, NULL, &err), STATUS_OK);
}

/* A run called `name`, without steps of its own, forked from `parent`. */
static void add_fork(const char *home, const char *name, const char *parent, int step, char id[RUN_ID_MAX])
{
    char sql[300];
    store_fixture_run(home, name, id);
    snprintf(sql, sizeof sql, "update runs set parent_id = '%s', parent_step = %d where id = '%s'", parent,
             step, id);
    store_fixture_sql(home, sql);
}

/* An evaluation has the number of steps done: that at 50 comes before step 50. */
TEST_CASE(a_fork_inherits_the_measures_up_to_its_first_step)
{
    char home[PATH_MAX], parent[RUN_ID_MAX], fork[RUN_ID_MAX], sql[600];
    struct series series = {.inherits = true, .name = "accuracy"};
    struct err err = {0};
    store_fixture_home("measures", home, sizeof home);
    add_run(home, "parent", 100, parent);
    add_fork(home, "fork", parent, 50, fork);
    snprintf(sql, sizeof sql,
             "insert into measures(run_id, segment, step, name, value) values('%s', 1, 25, 'accuracy', 0.25),"
             " ('%s', 1, 50, 'accuracy', 0.5), ('%s', 1, 51, 'accuracy', 0.75)",
             parent, parent, parent);
    store_fixture_sql(home, sql);
    struct store *store = store_fixture_open(home);
    assert_int_equal(series_read(store, fork, METRIC_MEASURE, 0, -1, 100, &series, &err), STATUS_OK);
    assert_int_equal(series.count, 2);
    assert_int_equal(series.points[1].last_step, 50);
    assert_true(series.points[1].mean == 0.5);
    series_release(&series);
    store_close(store);
}

TEST_CASE(a_fork_inherits_from_64_parents)
{
    char home[PATH_MAX], id[RUN_ID_MAX], parent[RUN_ID_MAX];
    struct series series = {.inherits = true};
    struct err err = {0};
    store_fixture_home("chain", home, sizeof home);
    add_run(home, "first", 10, id);
    for (int i = 0; i < 65; i++) {
        char name[32];
        snprintf(name, sizeof name, "fork-%d", i);
        memcpy(parent, id, sizeof parent);
        add_fork(home, name, parent, 5, id);
    }
    struct store *store = store_fixture_open(home);
    assert_int_equal(series_read(store, parent, METRIC_LOSS, 0, -1, 100, &series, &err), STATUS_OK);
    assert_int_equal(series.count, 5);
    series_release(&series);
    assert_int_equal(series_read(store, id, METRIC_LOSS, 0, -1, 100, &series, &err), STATUS_OK);
    assert_int_equal(series.count, 0); /* that of 65 is too far */
    series_release(&series);
    store_close(store);
}

TEST_MAIN()
