/* A read-only store: a read-only mount of another store's folder. The tests are skipped where mounting is not
 * allowed. */
#include <limits.h>
#include <sys/mount.h>
#include <unistd.h>

#include "core/base/file.h"
#include "runs/database.h"
#include "store_fixture.h"
#include "tests/cmocka.h"

/* Two names of one folder. */
static char home[PATH_MAX], view[PATH_MAX];

/* Both empty, and the view mounted only by `shut`. */
static void open_place(const char *name)
{
    char viewed[64];
    snprintf(viewed, sizeof viewed, "%s, as it is 100%% seen?", name); /* an URI's letters in the path */
    store_fixture_home(name, home, sizeof home);
    store_fixture_home(viewed, view, sizeof view);
}

static void shut(void)
{
    if (mount(home, view, NULL, MS_BIND, NULL) != 0) skip();
    if (mount(NULL, view, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) != 0) {
        umount2(view, MNT_DETACH);
        skip();
    }
}

static int unmount(void **state)
{
    (void)state;
    umount2(view, MNT_DETACH);
    return 0;
}

static void remove_companion(const char *suffix)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/anneal.db%s", home, suffix);
    unlink(path);
    assert_false(file_exists(path));
}

static struct store *look(void)
{
    struct err err = {0};
    struct store *store = NULL;
    if (store_open(view, STORE_READ, &store, &err)) fail_msg("%s", err.text);
    return store;
}

static void refused(enum status status, const char *words)
{
    struct err err = {0};
    struct store *store = NULL;
    assert_int_equal(store_open(view, STORE_READ, &store, &err), status);
    if (!strstr(err.text, words) || !strstr(err.text, view)) fail_msg("not \"%s\" in: %s", words, err.text);
    assert_null(store);
}

static void expect_run(struct store *store, const char *id)
{
    struct run_info run;
    struct err err = {0};
    if (run_find(store, id, &run, &err)) fail_msg("%s", err.text);
    assert_string_equal(run.id, id);
}

TEST_CASE_WITH(who_looks_at_a_live_store_sees_what_its_trainers_commit, NULL, unmount)
{
    char first[RUN_ID_MAX], second[RUN_ID_MAX];
    struct err err = {0};
    struct run_lock lock;
    open_place("live");
    store_fixture_run(home, "first", first);
    struct store *owner = store_fixture_open(home);
    shut();
    struct store *store = look();
    expect_run(store, first);
    int64_t version = store_version(store);
    assert_int_equal(run_create(owner, &(struct run_new){.name = "second"}, second, &err), STATUS_OK);
    assert_true(store_version(store) > version);
    expect_run(store, second);
    assert_false(run_is_alive(store, first));
    assert_int_equal(run_lock_acquire(owner, first, &lock, &err), STATUS_OK);
    assert_true(run_is_alive(store, first));
    run_lock_release(&lock);
    store_close(store);
    store_close(owner);
}

TEST_CASE_WITH(nothing_is_written_into_a_store_that_is_only_read, NULL, unmount)
{
    char id[RUN_ID_MAX], other[RUN_ID_MAX];
    struct err err = {0};
    open_place("kept");
    store_fixture_run(home, "kept", id);
    shut();
    struct store *store = look();
    assert_int_equal(run_create(store, &(struct run_new){.name = "more"}, other, &err), STATUS_IO);
    assert_non_null(strstr(err.text, "the file or its folder is read-only (set ANNEAL_HOME"));
    assert_int_equal(run_delete(store, id, &err), STATUS_IO);
    assert_non_null(strstr(err.text, "/lock: cannot open: Read-only file system (set ANNEAL_HOME"));
    expect_run(store, id);
    store_close(store);
    assert_int_equal(store_open(view, STORE_WRITE, &store, &err),
                     STATUS_IO); /* opening it for writing fails at once */
    assert_non_null(strstr(err.text, "cannot be written: Read-only file system"));
}

/* The log was not moved into the database, and the index file that SQLite keeps with it is missing. */
TEST_CASE_WITH(a_log_without_its_index_is_read, NULL, unmount)
{
    char id[RUN_ID_MAX], late[RUN_ID_MAX];
    struct err err = {0};
    open_place("log");
    store_fixture_run(home, "moved", id);
    store_fixture_sql(home, "pragma wal_checkpoint(truncate)");
    struct store *owner = store_fixture_open(home); /* the log stays as long as it is open */
    assert_int_equal(run_create(owner, &(struct run_new){.name = "late"}, late, &err), STATUS_OK);
    remove_companion("-shm");
    shut();
    struct store *store = look();
    expect_run(store, id);
    expect_run(store, late);
    store_close(store);
    store_close(owner);
}

TEST_CASE_WITH(a_database_without_a_log_is_read, NULL, unmount)
{
    char id[RUN_ID_MAX];
    open_place("bare");
    store_fixture_run(home, "bare", id);
    store_fixture_sql(home, "pragma wal_checkpoint(truncate)");
    remove_companion("-wal");
    remove_companion("-shm");
    shut();
    struct store *store = look();
    expect_run(store, id);
    store_close(store);
}

TEST_CASE_WITH(an_older_version_is_refused_where_it_cannot_be_migrated, NULL, unmount)
{
    open_place("older");
    store_close(store_fixture_open(home));
    store_fixture_sql(home, "pragma user_version = 1");
    shut();
    refused(STATUS_FAILED, "was written by an older anneal and must be updated");
    struct err err = {0};
    struct store *store = NULL;
    assert_int_equal(store_open(home, STORE_UNTOUCHED, &store, &err), STATUS_FAILED); /* though it could */
    assert_non_null(strstr(err.text, " runs` updates it)"));
    assert_true(store_fixture_number(home, "pragma user_version") == 1);
}

static void expect_no_runs(const char *place, enum store_access access)
{
    struct err err = {0};
    struct store *store = NULL;
    struct run_info run;
    if (store_open(place, access, &store, &err)) fail_msg("%s", err.text);
    assert_int_equal(run_find(store, "latest", &run, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.text, "there are no runs yet"));
    store_close(store);
}

TEST_CASE_WITH(a_place_without_a_database_has_no_runs_and_gets_none, NULL, unmount)
{
    struct store *store = NULL;
    struct err err = {0};
    char place[PATH_MAX + 8];
    open_place("empty");
    snprintf(place, sizeof place, "%s/mistyped", home);
    expect_no_runs(place, STORE_READ);
    expect_no_runs(place, STORE_CHANGE);
    assert_false(file_exists(place));
    shut();
    expect_no_runs(view, STORE_READ);
    assert_int_equal(store_open(view, STORE_VIEW, &store, &err), STATUS_NOT_FOUND);
    assert_non_null(
        strstr(err.text, "there is no run database, and the folder is read-only (set ANNEAL_HOME"));
}

TEST_CASE(where_it_can_be_written_a_store_to_view_is_made_like_any)
{
    struct err err = {0};
    struct store *store = NULL;
    open_place("fresh");
    assert_int_equal(store_open(home, STORE_VIEW, &store, &err), STATUS_OK);
    store_close(store);
    assert_true(store_fixture_number(home, "pragma user_version") == STORE_VERSION);
}

TEST_MAIN()
