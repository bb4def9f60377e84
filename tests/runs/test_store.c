/* The store as a file: opening it in every state a disk can offer, and runs as rows. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "core/base/file.h"
#include "runs/database.h"
#include "runs/memory_usage.h"
#include "store_fixture.h"
#include "tests/cmocka.h"

/* store_open must fail with `status` and a sentence that holds `words` and the path. */
static void refused(const char *home, enum status status, const char *words)
{
    struct err err = {0};
    struct store *store = NULL;
    assert_int_equal(store_open(home, STORE_WRITE, &store, &err), status);
    if (!strstr(err.text, words) || !strstr(err.text, home)) fail_msg("not \"%s\" in: %s", words, err.text);
    assert_null(store);
    assert_null(strchr(err.text, '\n'));
}

TEST_CASE(a_fresh_folder_becomes_a_store)
{
    char home[PATH_MAX], deep[PATH_MAX];
    store_fixture_home("fresh", home, sizeof home);
    snprintf(deep, sizeof deep, "%.4000s/a/b", home);
    struct store *store = store_fixture_open(deep);
    assert_string_equal(store_home(store), deep);
    store_close(store);
    store_close(store_fixture_open(deep));
    store_close(NULL);
    assert_true(store_fixture_number(deep, "pragma user_version") == STORE_VERSION);
    assert_true(store_fixture_number(deep, "pragma application_id") == STORE_APPLICATION_ID);
}

TEST_CASE(every_table_of_the_design_is_there)
{
    static const char *const tables[] = {"runs",     "params",         "tags",          "steps",
                                         "evals",    "early_stopping", "memory",        "gpu_samples",
                                         "samples",  "checkpoints",    "orders",        "events",
                                         "rollup",   "layer_profile",  "gpu_processes", "inference",
                                         "measures", "classes",        "confusion",     "ranks"};
    char home[PATH_MAX], sql[128];
    store_fixture_home("tables", home, sizeof home);
    store_close(store_fixture_open(home));
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        snprintf(sql, sizeof sql, "select count(*) from %s", tables[i]);
        assert_true(store_fixture_number(home, sql) == 0);
    }
}

/* As many commands do, one after the other. */
TEST_CASE(the_log_stays_short_where_each_handle_writes_a_little)
{
    enum { ROWS = 40, ROW_BYTES = 300000 };
    char home[PATH_MAX], path[PATH_MAX];
    struct stat log;
    struct err err = {0};
    store_fixture_home("long-log", home, sizeof home);
    store_close(store_fixture_open(home));
    for (int i = 0; i < ROWS; i++) {
        struct store *store = store_fixture_open(home);
        assert_int_equal(store_begin(store, &err), STATUS_OK);
        assert_int_equal(store_do(store, &err, "insert into params values ('r', ?1, zeroblob(?2))", "ii",
                                  (int64_t)i, (int64_t)ROW_BYTES),
                         STATUS_OK);
        assert_int_equal(store_commit(store, &err), STATUS_OK);
        store_close(store);
        snprintf(path, sizeof path, "%.4000s/anneal.db-wal", home);
        if (stat(path, &log) == 0) assert_true(log.st_size < 2 * 4096 * STORE_CHECKPOINT_PAGES);
    }
}

TEST_CASE(a_newer_version_is_refused_untouched)
{
    char home[PATH_MAX];
    store_fixture_home("newer", home, sizeof home);
    store_close(store_fixture_open(home));
    store_fixture_sql(home, "pragma user_version = 99");
    refused(home, STATUS_FAILED, "was written by a newer anneal");
    refused(home, STATUS_FAILED, "version is 99");
    assert_true(store_fixture_number(home, "pragma user_version") == 99);
}

TEST_CASE(a_migration_that_fails_changes_nothing)
{
    char home[PATH_MAX];
    store_fixture_home("half", home, sizeof home);
    store_close(store_fixture_open(home));
    /* of an earlier version, but a table is there already that only the newest one brings */
    store_fixture_sql(home, "alter table gpu_samples drop column load_1m; alter table gpu_samples drop column"
                            " processes_at; pragma user_version = 3");
    refused(home, STATUS_FAILED, "gpu_processes already exists");
    assert_true(store_fixture_number(home, "pragma user_version") == 3);
    assert_true(store_fixture_number(
                    home, "select count(*) from pragma_table_info('gpu_samples') where name = 'load_1m'") ==
                0);
}

/* A database of the first release, with a run and its samples, opened by this version. */
TEST_CASE(a_database_of_the_first_version_opens_with_all_it_holds)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    store_fixture_home("first", home, sizeof home);
    store_close(store_fixture_open(home));
    store_fixture_sql(
        home,
        "drop table gpu_samples; create table gpu_samples(run_id text not null, wall_time real "
        "not null, gpu integer not null, utilization_pct real, memory_used_bytes integer, "
        "memory_total_bytes integer, power_w real, temperature_c real, sm_clock_mhz real, primary "
        "key(run_id, wall_time, gpu)) without rowid; alter table layer_profile drop column bytes; "
        "alter table layer_profile drop column flops; alter table runs drop column parent_id; "
        "alter table runs drop column parent_step; alter table runs drop column trained_parameters; "
        "alter table runs drop column frozen_parameters; drop table gpu_processes; alter table steps drop "
        "column "
        "perplexity; drop table inference; drop table measures; drop table classes; drop table confusion; "
        "drop table ranks; "
        "alter table early_stopping drop column metric; alter table runs drop column note; alter table runs "
        "drop column best_metric; alter table runs drop column best_value; "
        "alter table rollup drop column ema_9; alter table rollup drop column ema_99; alter table rollup "
        "drop column ema_999; alter table runs drop column recorded; "
        "pragma user_version = 1; "
        "insert into "
        "gpu_samples values('old', 1.5, 0, 98, 1, 2, 3, 4, 5)");
    store_close(store_fixture_open(home));
    assert_true(store_fixture_number(home, "pragma user_version") == STORE_VERSION);
    assert_true(
        store_fixture_number(
            home, "select count(*) from gpu_samples where process_bytes is null and sm_clock_mhz = 5") == 1);
    store_fixture_run(home, "new", id);
}

/* A version with the memory of the trainer's process, but without other processes. */
TEST_CASE(a_database_without_processes_gets_them_and_keeps_its_samples)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct err err = {0};
    struct gpu_process process = {17, "python3", 5};
    struct gpu_record record = {
        .wall_time = 2.5, .throttle = "thermal", .load_1m = 0.5, .processes = &process, .process_count = 1};
    store_fixture_home("third", home, sizeof home);
    store_fixture_run(home, "old", id);
    store_fixture_sql(
        home, "drop table gpu_processes; alter table gpu_samples drop column load_1m; alter "
              "table gpu_samples drop column processes_at; alter table steps drop column perplexity; drop "
              "table inference; drop table measures; drop table classes; drop table confusion; drop table "
              "ranks; alter table "
              "early_stopping drop column metric; alter table runs drop column trained_parameters; alter "
              "table runs drop column frozen_parameters; alter table runs drop column note; alter table runs "
              "drop column best_metric; alter table runs drop column best_value; alter table rollup drop "
              "column ema_9; alter table rollup drop column ema_99; alter table rollup drop column ema_999; "
              "alter table runs drop column recorded; pragma user_version = 3; insert into "
              "gpu_samples select id, 1.5, 0, 98, 1, 2, 3, 4, 5, 6, 'power cap' from runs");
    struct store *store = store_fixture_open(home);
    assert_true(store_fixture_number(home, "pragma user_version") == STORE_VERSION);
    assert_true(store_fixture_number(home,
                                     "select count(*) from gpu_samples where throttle = 'power cap' and"
                                     " process_bytes = 6 and load_1m is null and processes_at is null") == 1);
    assert_int_equal(gpu_samples_add(store, id, &record, &err), STATUS_OK);
    assert_true(store_fixture_number(home, "select count(*) from gpu_processes natural join gpu_samples where"
                                           " pid = 17 and load_1m = 0.5") == 1);
    store_close(store);
}

TEST_CASE(what_is_not_a_store_is_refused_untouched)
{
    char home[PATH_MAX], path[PATH_MAX + 16];
    struct err err = {0};
    store_fixture_home("foreign", home, sizeof home);
    snprintf(path, sizeof path, "%s/anneal.db", home);
    char garbage[8192];
    memset(garbage, 'x', sizeof garbage);
    assert_int_equal(file_write_atomic(path, garbage, sizeof garbage, &err), STATUS_OK);
    refused(home, STATUS_CORRUPT, "is not a run database");
    size_t n;
    char *now = store_fixture_slurp(path, &n);
    assert_int_equal(n, sizeof garbage);
    assert_memory_equal(now, garbage, n);
    free(now);

    assert_int_equal(unlink(path), 0);
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "create table recipes(x)", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    refused(home, STATUS_CORRUPT, "database of another program");

    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0777), 0);
    refused(home, STATUS_IO, "cannot open: Is a directory");
}

TEST_CASE(a_damaged_database_is_called_so)
{
    char home[PATH_MAX], path[PATH_MAX + 16];
    struct err err = {0};
    store_fixture_home("damaged", home, sizeof home);
    store_close(store_fixture_open(home));
    store_fixture_sql(home, "pragma wal_checkpoint(truncate)");
    snprintf(path, sizeof path, "%s/anneal.db", home);
    size_t n;
    char *bytes = store_fixture_slurp(path, &n);
    assert_true(n > 8192);
    memset(bytes + 100, 0xA5, n - 100); /* the header stays, every page is nonsense */
    assert_int_equal(file_write_atomic(path, bytes, n, &err), STATUS_OK);
    free(bytes);
    refused(home, STATUS_CORRUPT, "the database is damaged");
}

TEST_CASE(a_place_that_cannot_be_written_is_named)
{
    char home[PATH_MAX], path[PATH_MAX + 16];
    struct err err = {0};
    store_fixture_home("unwritable", home, sizeof home);
    snprintf(path, sizeof path, "%s/file", home);
    assert_int_equal(file_write_atomic(path, "", 0, &err), STATUS_OK);
    refused(path, STATUS_IO, "ANNEAL_HOME");
    refused("/proc/anneal", STATUS_NOT_FOUND, "ANNEAL_HOME");
}

/* A file system of one megabyte, or, where mounting is not allowed, false. */
static bool mount_small(const char *path)
{
    return mount("tmpfs", path, "tmpfs", 0, "size=1m") == 0;
}

TEST_CASE(a_read_only_disk_is_named)
{
    char home[PATH_MAX];
    store_fixture_home("readonly", home, sizeof home);
    if (!mount_small(home)) skip();
    store_close(store_fixture_open(home));
    bool remounted = mount("tmpfs", home, "tmpfs", MS_REMOUNT | MS_RDONLY, "size=1m") == 0;
    struct err err = {0};
    struct store *store = NULL;
    enum status status = remounted ? store_open(home, STORE_WRITE, &store, &err) : STATUS_OK;
    umount2(home, MNT_DETACH);
    assert_true(remounted);
    assert_int_equal(status, STATUS_IO);
    assert_non_null(strstr(err.text, home));
    assert_true(strstr(err.text, "read-only") || strstr(err.text, "Read-only"));
}

static void fill_store(const char *home, enum status *status, struct err *err)
{
    struct store *store = store_fixture_open(home);
    char config[4096], id[RUN_ID_MAX];
    memset(config, '#', sizeof config - 1);
    config[sizeof config - 1] = '\0';
    struct run_new run = {.name = "fill", .config = config};
    *status = STATUS_OK;
    for (int i = 0; i < 2000 && !*status; i++) *status = run_create(store, &run, id, err);
    store_close(store);
}

TEST_CASE(a_full_disk_is_named_and_nothing_stored_is_lost)
{
    char home[PATH_MAX];
    struct err err = {0};
    enum status status;
    store_fixture_home("full", home, sizeof home);
    if (!mount_small(home)) skip();
    fill_store(home, &status, &err);
    double runs = store_fixture_number(home, "select count(*) from runs");
    double bad = store_fixture_number(
        home, "select count(*) from pragma_integrity_check where integrity_check <> 'ok'");
    umount2(home, MNT_DETACH);
    assert_int_equal(status, STATUS_IO);
    assert_non_null(strstr(err.text, home));
    if (!strstr(err.text, "the disk is full") && !strstr(err.text, "No space left")) fail_msg("%s", err.text);
    assert_true(runs > 10 && bad == 0);
}

static int write_beyond_the_limit(void *argument)
{
    struct rlimit limit = {400000, 400000};
    struct err err = {0};
    enum status status;
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 99;
    fill_store(argument, &status, &err);
    return status == STATUS_IO && strstr(err.text, "anneal.db") && !strchr(err.text, '\n') ? 0 : 1;
}

TEST_CASE(a_file_that_may_not_grow_is_named_and_nothing_stored_is_lost)
{
    char home[PATH_MAX];
    store_fixture_home("limited", home, sizeof home);
    assert_int_equal(store_fixture_wait(store_fixture_fork(write_beyond_the_limit, home)), 0);
    assert_true(store_fixture_number(home, "select count(*) from runs") > 10);
    assert_true(store_fixture_number(
                    home, "select count(*) from pragma_integrity_check where integrity_check <> 'ok'") == 0);
}

TEST_CASE(a_locked_database_is_waited_for_then_named)
{
    char home[PATH_MAX], path[PATH_MAX + 16], id[RUN_ID_MAX];
    struct err err = {0};
    struct store *store = NULL;
    store_fixture_home("locked", home, sizeof home);
    assert_int_equal(store_open(home, STORE_WRITE, &store, &err), STATUS_OK);
    store->busy_ms = 100;
    sqlite3_busy_timeout(store->db, 100);
    sqlite3 *db;
    snprintf(path, sizeof path, "%s/anneal.db", home);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "begin immediate", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(run_create(store, &(struct run_new){.name = "late"}, id, &err), STATUS_BUSY);
    assert_non_null(strstr(err.text, "locked by another process"));
    assert_int_equal(sqlite3_exec(db, "rollback", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(run_create(store, &(struct run_new){.name = "late"}, id, &err), STATUS_OK);
    sqlite3_close(db);
    store_close(store);
    /* a lock that shuts readers out, too */
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "pragma locking_mode = exclusive; begin exclusive; create table x(y)",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    refused(home, STATUS_BUSY, "locked by another process");
    sqlite3_close(db);
}

TEST_CASE(version_grows_when_another_connection_commits)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    store_fixture_home("version", home, sizeof home);
    struct store *store = store_fixture_open(home);
    int64_t before = store_version(store);
    assert_int_equal(store_version(store), before);
    store_fixture_run(home, "other", id);
    int64_t after = store_version(store);
    assert_true(after > before);
    assert_int_equal(store_version(store), after);
    store_close(store);
}

/* ---- runs ---- */

/* A trainer that died between the run's row and its lock: on a full disk, say. */
TEST_CASE(a_run_that_never_began_shows_as_crashed)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct run_info run;
    struct err err = {0};
    store_fixture_home("stillborn", home, sizeof home);
    store_fixture_run(home, "stillborn", id);
    struct store *store = store_fixture_open(home);
    assert_int_equal(run_find(store, "latest", &run, &err), STATUS_OK);
    assert_int_equal(run.status, RUN_CREATED); /* it may be about to begin */
    store_fixture_sql(home, "update runs set created_at = created_at - 60");
    assert_int_equal(run_find(store, "latest", &run, &err), STATUS_OK);
    assert_int_equal(run.status, RUN_CRASHED);
    struct run_lock lock;
    assert_int_equal(run_lock_acquire(store, id, &lock, &err), STATUS_OK);
    assert_int_equal(run_find(store, "latest", &run, &err), STATUS_OK);
    assert_int_equal(run.status, RUN_CREATED);
    run_lock_release(&lock);
    store_close(store);
}

/* As after a damaged database was moved away. */
TEST_CASE(a_database_that_has_lost_its_runs_is_not_called_new)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct err err = {0};
    struct run_info info;
    struct run_lock lock;
    store_fixture_home("lost", home, sizeof home);
    store_fixture_run(home, "psalms", id);
    struct store *store = store_fixture_open(home);
    assert_int_equal(run_lock_acquire(store, id, &lock, &err), STATUS_OK);
    run_lock_release(&lock);
    store_fixture_sql(home, "delete from runs");
    assert_int_equal(run_find(store, "latest", &info, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.text, "has folders of runs, but its database has no run (`"));
    assert_non_null(strstr(err.text, " doctor --repair` makes the runs again)"));
    store_close(store);
}

TEST_CASE(a_run_is_found_by_id_prefix_name_and_latest)
{
    char home[PATH_MAX], a[RUN_ID_MAX], b[RUN_ID_MAX], c[RUN_ID_MAX];
    struct err err = {0};
    struct run_info info;
    store_fixture_home("find", home, sizeof home);
    struct store *store = store_fixture_open(home);
    assert_int_equal(run_find(store, "latest", &info, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.text, "there are no runs yet"));
    store_fixture_run(home, "psalms", a);
    store_fixture_run(home, "psalms", b);
    store_fixture_run(home, "Übung / eins..", c);
    assert_string_not_equal(a, b);
    assert_int_equal(run_find(store, a, &info, &err), STATUS_OK);
    assert_string_equal(info.id, a);
    assert_string_equal(info.name, "psalms");
    assert_true(info.status == RUN_CREATED && info.parameters == 10815744 && info.total_steps == 2000);
    assert_true(isnan(info.final_loss) && isnan(info.best_val_loss) && info.best_step == -1 &&
                isnan(info.ended_at));
    assert_int_equal(run_find(store, "psalms", &info, &err), STATUS_OK);
    assert_string_equal(info.id, b);
    assert_int_equal(run_find(store, "latest", &info, &err), STATUS_OK);
    assert_string_equal(info.id, c);
    assert_string_equal(info.name, "Übung-eins");
    assert_int_equal(run_find(store, b, &info, &err), STATUS_OK);
    c[strlen(c) - 1] = '\0';
    assert_int_equal(run_find(store, c, &info, &err), STATUS_OK);
    assert_int_equal(run_find(store, "2", &info, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "3 runs match"));
    assert_non_null(strstr(err.text, a));
    assert_int_equal(run_find(store, "psalm5", &info, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.text, "did you mean \"psalms\""));
    assert_int_equal(run_find(store, "", &info, &err), STATUS_USAGE);
    char *config;
    assert_int_equal(run_config(store, a, &config, &err), STATUS_OK);
    assert_non_null(strstr(config, "batch_size = 16"));
    free(config);
    assert_true(
        store_fixture_number(home, "select count(*) from params where name = 'train.batch_size' and value = "
                                   "'16'") == 3);
    char first[RUN_ID_MAX], second[RUN_ID_MAX];
    store_fixture_run(home, "twin", first);
    do store_fixture_run(home, "twin", second); /* in the same second: its id ends with twin-2 */
    while (strcmp(second + 16, "twin-2") != 0);
    assert_int_equal(run_find(store, "twin-2", &info, &err), STATUS_OK);
    assert_string_equal(info.id, second);
    assert_int_equal(run_find(store, "twin", &info, &err), STATUS_OK);
    assert_string_equal(info.id, second);
    store_close(store);
}

TEST_CASE(a_run_name_cannot_leave_the_folder)
{
    static const char *const names[] = {"../../etc", "..", ".hidden", "a/b", "", "\n", "-rf"};
    char home[PATH_MAX], id[RUN_ID_MAX];
    store_fixture_home("names", home, sizeof home);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        store_fixture_run(home, names[i], id);
        assert_null(strchr(id, '/'));
        assert_null(strstr(id, ".."));
        assert_true(id[0] >= '0' && id[0] <= '9' && id[16] != '.' && id[16] != '-' && id[16] != '\0');
    }
    store_fixture_run(home, NULL, id);
    char longest[300];
    memset(longest, 'n', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    store_fixture_run(home, longest, id);
    assert_true(strlen(id) < RUN_ID_MAX);
}

TEST_CASE(runs_are_listed_newest_first)
{
    char home[PATH_MAX], ids[20][RUN_ID_MAX];
    struct err err = {0};
    struct arena arena = {0};
    struct run_info *runs;
    size_t count;
    store_fixture_home("list", home, sizeof home);
    for (int i = 0; i < 20; i++) store_fixture_run(home, "r", ids[i]);
    struct store *store = store_fixture_open(home);
    assert_int_equal(run_list(store, &arena, &runs, &count, &err), STATUS_OK);
    assert_int_equal(count, 20);
    for (int i = 0; i < 20; i++) assert_string_equal(runs[i].id, ids[19 - i]);
    store_close(store);
    arena_release(&arena);
}

TEST_CASE(a_second_trainer_on_a_run_is_refused_with_the_pid)
{
    char home[PATH_MAX], id[RUN_ID_MAX], pid[32];
    struct err err = {0};
    struct run_lock first, second;
    store_fixture_home("second", home, sizeof home);
    store_fixture_run(home, "second", id);
    struct store *store = store_fixture_open(home);
    assert_false(run_is_alive(store, id));
    assert_int_equal(run_lock_acquire(store, id, &first, &err), STATUS_OK);
    assert_true(run_is_alive(store, id));
    assert_int_equal(run_lock_acquire(store, id, &second, &err), STATUS_BUSY);
    snprintf(pid, sizeof pid, "process %ld", (long)getpid());
    assert_non_null(strstr(err.text, pid));
    assert_int_equal(run_delete(store, id, &err), STATUS_BUSY);
    run_lock_release(&first);
    assert_false(run_is_alive(store, id));
    assert_int_equal(run_lock_acquire(store, id, &first, &err), STATUS_OK);
    run_lock_release(&first);
    store_close(store);
}

struct looker {
    struct store *store;
    const char *id;
    atomic_bool enough;
};

static void *look(void *argument)
{
    struct looker *looker = argument;
    while (!looker->enough) run_is_alive(looker->store, looker->id);
    return NULL;
}

TEST_CASE(who_looks_whether_a_run_lives_does_not_keep_a_trainer_away)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct err err = {0};
    struct run_lock lock;
    pthread_t thread;
    store_fixture_home("looked at", home, sizeof home);
    store_fixture_run(home, "looked-at", id);
    struct store *store = store_fixture_open(home);
    struct looker looker = {store, id, false}; /* it uses the path alone */
    assert_int_equal(pthread_create(&thread, NULL, look, &looker), 0);
    for (int i = 0; i < 300; i++) {
        if (run_lock_acquire(store, id, &lock, &err)) fail_msg("%s", err.text);
        run_lock_release(&lock);
    }
    looker.enough = true;
    pthread_join(thread, NULL);
    store_close(store);
}

TEST_CASE(a_deleted_run_leaves_nothing)
{
    char home[PATH_MAX], id[RUN_ID_MAX], kept[RUN_ID_MAX], folder[PATH_MAX];
    struct err err = {0};
    store_fixture_home("delete", home, sizeof home);
    store_fixture_run(home, "gone", id);
    store_fixture_run(home, "kept", kept);
    for (int i = 0; i < 2; i++) {
        struct writer *writer = store_fixture_writer(home, i ? kept : id);
        for (int64_t s = 0; s < 200; s++) {
            struct step_record step = store_fixture_step(s, 1);
            writer_step(writer, &step);
        }
        assert_int_equal(writer_close(writer, RUN_FINISHED, NULL, &err), STATUS_OK);
    }
    struct store *store = store_fixture_open(home);
    struct gpu_process process = {17, "python3", 5};
    struct gpu_record record = {.wall_time = 2.5, .processes = &process, .process_count = 1};
    assert_int_equal(gpu_samples_add(store, id, &record, &err), STATUS_OK);
    assert_int_equal(gpu_samples_add(store, kept, &record, &err), STATUS_OK);
    run_folder(store, id, folder, sizeof folder);
    assert_true(file_is_folder(folder));
    assert_int_equal(run_delete(store, id, &err), STATUS_OK);
    assert_false(file_exists(folder));
    assert_int_equal(run_delete(store, id, &err), STATUS_NOT_FOUND);
    assert_int_equal(run_delete(store, "..", &err), STATUS_NOT_FOUND);
    store_close(store);
    static const char *const tables[] = {"steps",  "rollup",      "segments",
                                         "params", "gpu_samples", "gpu_processes"};
    char sql[160];
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        snprintf(sql, sizeof sql, "select count(distinct run_id) from %s", tables[i]);
        assert_true(store_fixture_number(home, sql) == 1);
    }
}

TEST_MAIN()
