/* A home on a file system that several hosts share: which journal the database has there, and what is
 * refused. The file system is what this file says: it has its own mount_of. */
#include <limits.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "core/base/file.h"
#include "core/base/mount.h"
#include "runs/database.h"
#include "store_fixture.h"
#include "tests/cmocka.h"

static struct mount here = {.locks = true};
static const struct mount nfs = {"nfs4", true, true}, sshfs = {"fuse.sshfs", true, false},
                          disk = {"ext4", false, true};

void mount_of(const char *path, struct mount *out)
{
    struct stat info;
    assert_int_equal(stat(path, &info), 0); /* it is asked for what is there */
    *out = here;
}

static char home[PATH_MAX];

static void open_home(const char *name, struct mount mount)
{
    here = mount;
    store_fixture_home(name, home, sizeof home);
}

static bool has(const char *file)
{
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", home, file);
    return access(path, F_OK) == 0;
}

static void expect_journal(const char *mode)
{
    char *text = store_fixture_text(home, "pragma journal_mode");
    assert_string_equal(text, mode);
    free(text);
}

static void expect_refusal(enum store_access access, const char *sentence)
{
    struct store *store = NULL;
    struct err err = {0};
    assert_int_not_equal(store_open(home, access, &store, &err), STATUS_OK);
    if (!strstr(err.text, sentence)) fail_msg("%s", err.text);
}

enum { STEPS = 300 };

static int read_along(void *argument)
{
    (void)argument;
    double before = 0, now = 0;
    while (now < STEPS) {
        now = store_fixture_number(home, "select count(*) from steps");
        if (now < before) return 1;
        before = now;
    }
    return 0;
}

static int write_run(void *argument)
{
    struct err err;
    struct writer *writer = store_fixture_writer(home, argument);
    for (int i = 0; i < STEPS / 2; i++) {
        struct step_record record = store_fixture_step(i, 0);
        writer_step(writer, &record);
        if (i % 10 == 0 && writer_flush(writer, 60, &err)) return 1;
    }
    return writer_close(writer, RUN_FINISHED, NULL, &err) != STATUS_OK;
}

TEST_CASE(writers_and_readers_do_without_a_log)
{
    char first[RUN_ID_MAX], second[RUN_ID_MAX];
    open_home("writers", nfs);
    store_fixture_run(home, "first", first);
    store_fixture_run(home, "second", second);
    assert_true(store_fixture_number(home, "pragma page_count") > 0);
    pid_t pids[] = {store_fixture_fork(write_run, first), store_fixture_fork(write_run, second),
                    store_fixture_fork(read_along, NULL)};
    for (int i = 0; i < 3; i++) assert_int_equal(store_fixture_wait(pids[i]), 0);
    expect_journal("delete"); /* what the file itself says: it has no log */
    assert_true(store_fixture_number(home, "select count(*) from steps") == STEPS);
    char *sound = store_fixture_text(home, "pragma integrity_check");
    assert_string_equal(sound, "ok");
    free(sound);
}

static int64_t setting(struct store *store, const char *pragma)
{
    int64_t value = -1;
    struct err err;
    if (store_number(store, &value, -1, &err, pragma, "")) fail_msg("%s", err.text);
    return value;
}

TEST_CASE(every_handle_waits_for_the_disk)
{
    open_home("handle", nfs);
    struct store *store = store_fixture_open(home);
    assert_string_equal(store_shared(store), "nfs4");
    assert_int_equal(setting(store, "pragma synchronous"), 2);
    store_close(store);
    here = disk;
    store = store_fixture_open(home);
    assert_null(store_shared(store));
    assert_int_equal(setting(store, "pragma synchronous"), 1);
    store_close(store);
}

TEST_CASE(a_home_that_moves_changes_its_journal_and_keeps_its_runs)
{
    char id[RUN_ID_MAX];
    open_home("moves", disk);
    store_fixture_run(home, "kept", id);
    expect_journal("wal");
    here = nfs;
    store_close(store_fixture_open(home));
    assert_int_equal(store_fixture_number(home, "select count(*) from runs"), 1);
    assert_false(has("anneal.db-wal") || has("anneal.db-shm"));
    here = disk;
    store_close(store_fixture_open(home));
    expect_journal("wal");
    assert_int_equal(store_fixture_number(home, "select count(*) from runs"), 1);
}

/* As a trainer of an older version would hold it. */
TEST_CASE(a_log_in_use_is_not_taken_away)
{
    char id[RUN_ID_MAX];
    open_home("in-use", disk);
    store_fixture_run(home, "kept", id);
    struct store *old = store_fixture_open(home);
    here = nfs;
    expect_refusal(STORE_WRITE, "has a write-ahead log, which is not safe on nfs4");
    store_close(old);
    store_close(store_fixture_open(home));
}

TEST_CASE(without_locks_between_hosts_nothing_is_opened_or_made)
{
    struct store *store = NULL;
    struct err err;
    open_home("no-locks", sshfs);
    expect_refusal(STORE_WRITE, "ANNEAL_STORE");
    assert_false(has("anneal.db") || has("anneal.db.lock"));
    here = disk;
    store_close(store_fixture_open(home));
    here = sshfs;
    expect_refusal(STORE_WRITE, "fuse.sshfs");
    expect_refusal(STORE_FOREIGN, "name the copy"); /* for which ANNEAL_STORE means nothing */
    assert_int_equal(store_open(home, STORE_READ, &store, &err), STATUS_IO);
}

/* Where other hosts do not see a lock, its file names the host that trains. A run of this host has ended if
 * it is not locked here; a run of another host may go on. */
TEST_CASE(only_a_run_of_another_host_may_train_without_a_lock_here)
{
    char id[RUN_ID_MAX], path[PATH_MAX];
    struct run_lock lock;
    struct err err;
    open_home("hosts", disk);
    store_fixture_run(home, "run", id);
    struct store *store = store_fixture_open(home);
    assert_int_equal(run_lock_acquire(store, id, &lock, &err), STATUS_OK);
    assert_true(run_may_train(store, id));
    run_lock_release(&lock);
    here = sshfs;
    assert_false(run_may_train(store, id));
    assert_int_equal(run_path(store, id, "lock", path, &err), STATUS_OK);
    assert_int_equal(file_write_atomic(path, "17 another-host\n", 16, &err), STATUS_OK);
    assert_true(run_may_train(store, id));
    here = disk;
    assert_false(run_may_train(store, id));
    store_close(store);
}

/* Mounting is not allowed everywhere. */
TEST_CASE(who_may_only_read_sees_what_others_commit)
{
    char id[RUN_ID_MAX], view[PATH_MAX];
    struct store *reader = NULL;
    struct err err;
    open_home("read", nfs);
    store_fixture_home("read-view", view, sizeof view);
    store_fixture_run(home, "first", id);
    if (mount(home, view, NULL, MS_BIND, NULL) != 0) skip();
    bool shut = mount(NULL, view, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) == 0;
    enum status status = shut ? store_open(view, STORE_READ, &reader, &err) : STATUS_OK;
    int64_t before = 0, after = 0, version = 0;
    if (reader) {
        version = store_version(reader);
        before = setting(reader, "select count(*) from runs");
        store_fixture_run(home, "second", id);
        version = store_version(reader) - version;
        after = setting(reader, "select count(*) from runs");
        store_close(reader);
    }
    umount2(view, MNT_DETACH);
    if (!shut) skip();
    if (status) fail_msg("%s", err.text);
    assert_true(before == 1 && after == 2 && version == 1);
}

TEST_CASE(the_database_can_be_kept_apart)
{
    char apart[PATH_MAX + 16], path[PATH_MAX], folder[PATH_MAX], id[RUN_ID_MAX];
    struct err err;
    open_home("apart", disk);
    snprintf(apart, sizeof apart, "%s/local/disk", home);
    setenv("ANNEAL_STORE", apart, 1);
    struct store *store = store_fixture_open(home);
    const struct run_new run = {.name = "one", .config = ""};
    if (run_create(store, &run, id, &err)) fail_msg("%s", err.text);
    run_folder(store, id, folder, sizeof folder);
    assert_int_equal(strncmp(folder, home, strlen(home)), 0);
    assert_null(strstr(folder, "local/disk"));
    store_close(store);
    assert_true(has("local/disk/anneal.db") && !has("anneal.db"));
    setenv("ANNEAL_STORE", "local", 1);
    assert_int_equal(store_path(home, path, &err), STATUS_USAGE);
    unsetenv("ANNEAL_STORE");
    assert_int_equal(store_path(home, path, &err), STATUS_OK);
    assert_non_null(strstr(path, "/anneal.db"));
}

TEST_MAIN()
