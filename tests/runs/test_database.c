/* The basis of every table: transactions that end, texts cut at characters, locks that distinguish a trainer
 * from observers. */
#include <fcntl.h>
#include <limits.h>
#include <math.h>
/* cmocka wants the headers above first */
#include <sys/file.h>
#include <unistd.h>

#include "core/base/text.h"
#include "runs/comparison.h"
#include "runs/database.h"
#include "runs/series.h"
#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"

static const char add_tag[] = "insert into tags values('run', 'a')";

/* Fails unless `store` has no transaction open, others may write, and it may write again. */
static void expect_open_for_all(struct store *store, const char *home)
{
    struct err err = {0};
    struct store *other;
    assert_true(sqlite3_get_autocommit(store->db));
    assert_false(store->writing);
    assert_int_equal(store_open(home, STORE_WRITE, &other, &err), STATUS_OK);
    if (store_begin(other, &err)) fail_msg("%s", err.text);
    store_rollback(other);
    store_close(other);
    if (store_begin(store, &err)) fail_msg("%s", err.text);
    store_rollback(store);
}

TEST_CASE(what_is_rolled_back_was_never_there)
{
    char home[PATH_MAX];
    struct err err = {0};
    store_fixture_home("rollback", home, sizeof home);
    struct store *store = store_fixture_open(home);
    assert_int_equal(store_begin(store, &err), STATUS_OK);
    assert_int_equal(store_exec(store, add_tag, &err), STATUS_OK);
    store_rollback(store);
    store_rollback(store); /* harmless outside */
    expect_open_for_all(store, home);
    assert_true(store_fixture_number(home, "select count(*) from tags") == 0);
    store_close(store);
    store = store_fixture_open(home); /* nor is it when a handle is closed in the midst of it */
    assert_int_equal(store_begin(store, &err), STATUS_OK);
    assert_int_equal(store_exec(store, add_tag, &err), STATUS_OK);
    store_close(store);
    assert_true(store_fixture_number(home, "select count(*) from tags") == 0);
}

static int refuse(void *context)
{
    (void)context;
    return 1;
}

TEST_CASE(a_commit_that_fails_has_stored_nothing_and_holds_nobody_up)
{
    char home[PATH_MAX];
    struct err err = {0};
    store_fixture_home("refused", home, sizeof home);
    struct store *store = store_fixture_open(home);
    assert_int_equal(store_begin(store, &err), STATUS_OK);
    assert_int_equal(store_exec(store, add_tag, &err), STATUS_OK);
    sqlite3_commit_hook(store->db, refuse, NULL);
    assert_int_not_equal(store_commit(store, &err), STATUS_OK);
    sqlite3_commit_hook(store->db, NULL, NULL);
    expect_open_for_all(store, home);
    assert_true(store_fixture_number(home, "select count(*) from tags") == 0);
    store_close(store);
}

/* Else a workbench would hang at its start whenever a trainer on a slow disk is at work. */
TEST_CASE(a_store_opens_while_another_process_writes)
{
    char home[PATH_MAX];
    struct err err = {0};
    struct store *other;
    store_fixture_home("opens", home, sizeof home);
    struct store *store = store_fixture_open(home);
    assert_int_equal(store_lock(store, 1000, &err), STATUS_OK);
    sqlite3 *db = store_fixture_lock(home);
    if (store_open(home, STORE_WRITE, &other, &err)) fail_msg("%s", err.text);
    store_fixture_unlock(db);
    store_unlock(store);
    store_close(other);
    store_close(store);
}

TEST_CASE(a_text_is_read_up_to_a_whole_character)
{
    char home[PATH_MAX], buf[16];
    struct err err = {0};
    sqlite3_stmt *select;
    enum status status = STATUS_OK;
    store_fixture_home("text", home, sizeof home);
    struct store *store = store_fixture_open(home);
    assert_int_equal(store_prepare(store, "select ?1", &select, &err), STATUS_OK);
    store_bind_text(select, 1, "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"); /* 1 + 2 + 3 + 4 bytes */
    assert_true(store_next(store, select, &status, &err));
    static const size_t kept[] = {0, 0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 10};
    for (size_t size = 1; size < sizeof kept / sizeof *kept; size++) {
        memset(buf, 'X', sizeof buf);
        store_column_text(select, 0, buf, size);
        assert_int_equal(strlen(buf), kept[size]);
        assert_int_equal(utf8_valid_bytes(buf, strlen(buf)), strlen(buf));
        assert_true(buf[size] == 'X');
    }
    sqlite3_reset(select);
    store_close(store);
}

/* The lock file of a run, as an observer opens it. */
static int open_lock_of(const char *home, const char *id)
{
    char path[PATH_MAX + 128];
    snprintf(path, sizeof path, "%s/runs/%s/lock", home, id);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

TEST_CASE(two_observers_do_not_take_each_other_for_a_trainer)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct err err = {0};
    struct run_lock lock;
    store_fixture_home("observers", home, sizeof home);
    store_fixture_run(home, "observers", id);
    struct store *store = store_fixture_open(home);
    assert_int_equal(run_lock_acquire(store, id, &lock, &err), STATUS_OK);
    assert_true(run_is_alive(store, id));
    run_lock_release(&lock);
    int other = open_lock_of(home, id);
    assert_int_equal(flock(other, LOCK_SH | LOCK_NB), 0); /* as far as run_is_alive of another process gets */
    assert_false(run_is_alive(store, id));
    close(other);
    store_close(store);
}

/* Looks at the run again and again until the pipe is closed. */
static int observe(void *argument)
{
    const int *stop = argument;
    char home[PATH_MAX];
    struct run_info info;
    struct store *store;
    close(stop[1]);
    snprintf(home, sizeof home, "%s/busy-observers", getenv("ANNEAL_TEST_DIR"));
    if (store_open(home, STORE_READ, &store, NULL)) return 1;
    fcntl(stop[0], F_SETFL, O_NONBLOCK);
    while (read(stop[0], &(char){0}, 1) != 0)
        if (run_find(store, "latest", &info, NULL)) return 2;
    store_close(store);
    return 0;
}

TEST_CASE(a_trainer_begins_while_others_look_at_its_run)
{
    enum { OBSERVERS = 3, TIMES = 50 };
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct err err = {0};
    pid_t observers[OBSERVERS];
    int stop[2];
    store_fixture_home("busy-observers", home, sizeof home);
    store_fixture_run(home, "seen", id);
    store_fixture_sql(home, "update runs set status = 'running'"); /* so that each look asks for the lock */
    struct store *store = store_fixture_open(home);
    struct run_lock lock;
    assert_int_equal(pipe(stop), 0);
    for (int i = 0; i < OBSERVERS; i++) observers[i] = store_fixture_fork(observe, stop);
    close(stop[0]);
    for (int i = 0; i < TIMES; i++) {
        if (run_lock_acquire(store, id, &lock, &err)) fail_msg("%s", err.text);
        run_lock_release(&lock);
    }
    close(stop[1]);
    for (int i = 0; i < OBSERVERS; i++) assert_int_equal(store_fixture_wait(observers[i]), 0);
    store_close(store);
}

TEST_CASE(a_comparison_can_be_read_for_ever)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct err err = {0};
    struct run_info run;
    struct comparison comparison;
    store_fixture_home("compared", home, sizeof home);
    store_fixture_run(home, "improving", id);
    store_fixture_sql(home, "update runs set best_step = 7; insert into measures(run_id, segment, step, name,"
                            " value) select id, 1, 7, 'accuracy', 0.5 from runs");
    struct store *store = store_fixture_open(home);
    assert_int_equal(run_get(store, id, &run, &err), STATUS_OK);
    for (int i = 0; i <= STORE_STATEMENTS_MAX; i++) {
        run.best_step = i;
        if (comparison_read(store, &(struct comparison_request){.runs = &run, .count = 1}, &comparison, &err))
            fail_msg("after %d evaluations: %s", i, err.text);
        bool measured = false;
        for (size_t k = 0; k < comparison.row_count; k++)
            measured |= comparison.rows[k].measure && comparison.rows[k].values[0] == 0.5;
        assert_true(measured);
        comparison_release(&comparison);
    }
    store_close(store);
}

TEST_MAIN()
