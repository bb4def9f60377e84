/* A long import takes turns with other processes, and one that is killed is replaced by the next. */
#include <limits.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runs/database.h"
#include "runs/exchange/import.h"
#include "runs/rollup.h"
#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"

#define ID "20260101-000000-long"

enum { ROWS = 30000, MANY_ROWS = 600000 }; /* many: storing them takes several turns on any machine */

/* Steps with gaps, in two segments that overlap. */
static void write_steps(const char *home, char path[PATH_MAX], int rows)
{
    snprintf(path, PATH_MAX, "%s/steps.csv", home);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("run,segment,step,epoch,tokens,wall_time,step_ms,loss,lr,grad_norm,clip_scale,tokens_per_sec,mfu\n",
          file);
    for (int i = 0; i < rows; i++) {
        int segment = 1 + (i >= rows / 2),
            step = (segment == 1 ? i : i - 6000) * (i % 3 ? 1 : 3) / 3 * 3 + i % 3;
        fprintf(file, ID ",%d,%d,,,%d,,%s,0.001,%d.5,,,\n", segment, step, 1700000000 + i,
                i % 997 ? "2.5" : "nan", i % 13);
    }
    assert_int_equal(fclose(file), 0);
}

static int import_it(void *home)
{
    char path[PATH_MAX];
    const char *paths[] = {path};
    struct store *store = store_fixture_open(home);
    struct import_outcome outcome;
    struct err err = {0};
    snprintf(path, sizeof path, "%s/steps.csv", (const char *)home);
    enum status status = import_files(store, paths, 1, NULL, &outcome, &err);
    store_close(store);
    if (status) print_error("%s\n", err.text);
    return status ? 1 : 0;
}

/* Waits until some of the rows can be seen by others; false: the import has ended before. */
static bool wait_for_some(const char *home, pid_t pid)
{
    struct store *store = NULL;
    int64_t rows = 0;
    while (rows == 0 && waitpid(pid, NULL, WNOHANG) == 0) {
        if (!store) store = store_fixture_open(home);
        assert_int_equal(store_number(store, &rows, 0, NULL, "select count(*) from steps", ""), STATUS_OK);
    }
    store_close(store);
    return rows > 0 && rows < ROWS;
}

TEST_CASE(others_read_and_write_in_between)
{
    char home[PATH_MAX], path[PATH_MAX];
    struct err err = {0};
    int64_t rows, between = 0;
    store_fixture_home("turns", home, sizeof home);
    struct store *store = store_fixture_open(home);
    write_steps(home, path, MANY_ROWS);
    pid_t pid = store_fixture_fork(import_it, home);
    while (waitpid(pid, NULL, WNOHANG) == 0) { /* each write comes to its turn */
        assert_int_equal(store_begin(store, &err), STATUS_OK);
        assert_int_equal(store_number(store, &rows, 0, &err, "select count(*) from steps", ""), STATUS_OK);
        enum status status =
            store_do(store, &err, "insert or ignore into tags(run_id, tag) values('x', ?1)", "i", rows);
        assert_int_equal(store_end(store, status, &err), STATUS_OK);
        between += rows > 0 && rows < MANY_ROWS;
        usleep(20000); /* the import has its turns, too */
    }
    assert_true(between > 0);
    assert_true(store_fixture_number(home, "select count(*) from runs where status = 'finished'") == 1);
    store_close(store);
}

/* Before a transaction of the import begins, another process writes. */
static int write_before(unsigned kind, void *home, void *statement, void *text)
{
    (void)kind, (void)statement;
    if (strcmp(text, "begin immediate") == 0)
        store_fixture_sql(home, "insert or replace into tags(run_id, tag) values('x', 'y')");
    return 0;
}

TEST_CASE(what_others_write_before_a_turn_does_not_end_the_import)
{
    char home[PATH_MAX], path[PATH_MAX];
    const char *paths[] = {path};
    struct import_outcome outcome;
    struct err err = {0};
    store_fixture_home("between", home, sizeof home);
    struct store *store = store_fixture_open(home);
    write_steps(home, path, ROWS);
    sqlite3_trace_v2(store->db, SQLITE_TRACE_STMT, write_before, home);
    if (import_files(store, paths, 1, NULL, &outcome, &err)) fail_msg("%s", err.text);
    store_close(store);
    assert_true(store_fixture_number(home, "select count(*) from tags") == 1);
}

TEST_CASE(summaries_made_by_parts_are_those_made_at_once)
{
    static const char dump[] =
        "select group_concat(printf('%s %d %d %.17g %.17g %.17g %.17g %d %d %.17g %.17g',"
        " metric, level, first_step, min, max, mean, last, count, non_finite, ema_9,"
        " ema_999)) from rollup";
    char home[PATH_MAX], path[PATH_MAX];
    struct err err = {0};
    struct rollup rollup;
    store_fixture_home("parts", home, sizeof home);
    write_steps(home, path, ROWS);
    assert_int_equal(store_fixture_wait(store_fixture_fork(import_it, home)), 0);
    char *parts = store_fixture_text(home, dump);
    struct store *store = store_fixture_open(home);
    assert_int_equal(store_begin(store, &err), STATUS_OK);
    assert_int_equal(store_do(store, &err, "delete from rollup", ""), STATUS_OK);
    assert_int_equal(rollup_begin(&rollup, store, ID, INT64_MAX, &err), STATUS_OK);
    assert_int_equal(store_commit(store, &err), STATUS_OK);
    store_close(store);
    char *whole = store_fixture_text(home, dump);
    assert_true(strlen(whole) > 1000);
    assert_string_equal(parts, whole);
    free(parts);
    free(whole);
}

TEST_CASE(an_import_that_was_killed_is_marked_and_replaced)
{
    char home[PATH_MAX], path[PATH_MAX];
    struct err err = {0};
    struct run_info info;
    bool killed = false;
    for (int attempt = 0; !killed && attempt < 20; attempt++) { /* it may end before it is seen */
        store_fixture_home("killed", home, sizeof home);
        store_close(store_fixture_open(home));
        write_steps(home, path, ROWS);
        pid_t pid = store_fixture_fork(import_it, home);
        killed = wait_for_some(home, pid);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    assert_true(killed);
    struct store *store = store_fixture_open(home);
    assert_int_equal(run_get(store, ID, &info, &err), STATUS_OK);
    assert_int_equal(info.status, RUN_CRASHED);
    assert_non_null(strstr(info.message, "incomplete: imported from "));
    assert_true(store_fixture_number(home, "select count(*) from steps") < ROWS);
    store_fixture_sql(home,
                      "insert into runs(id, name, status, created_at, message)" /* it cannot be removed */
                      " select '.../...', name, status, created_at, message from runs");
    assert_int_equal(import_it(home), 0);
    store_fixture_sql(home, "delete from runs where id = '.../...'");
    assert_int_equal(run_get(store, ID, &info, &err), STATUS_OK);
    assert_int_equal(info.status, RUN_FINISHED);
    assert_true(store_fixture_number(home, "select count(*) from runs") == 1);
    assert_true(store_fixture_number(home, "select count(distinct run_id) from steps") == 1);
    store_close(store);
}

TEST_MAIN()
