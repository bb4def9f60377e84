/* A writer whose store refuses records: which calls wait for it, and for how long. */
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "runs/recovery.h"
#include "store_fixture.h"
#include "tests/cmocka.h"

enum { HELD = 1000 /* steps */ };

struct complaints {
    char home[PATH_MAX], newest[1024];
    int pipe[2], answer[2];
    atomic_int count;
    int mend_at; /* the complaint after which the store takes everything again */
};

static void complain(void *context, const char *sentence)
{
    struct complaints *c = context;
    snprintf(c->newest, sizeof c->newest, "%s", sentence);
    if (++c->count == c->mend_at) store_fixture_sql(c->home, "drop trigger no");
}

/* A writer whose first step the database refuses. */
static struct writer *open_refused(const char *name, struct complaints *c)
{
    char id[RUN_ID_MAX];
    struct err err = {0};
    struct writer *writer = NULL;
    store_fixture_home(name, c->home, sizeof c->home);
    store_fixture_run(c->home, name, id);
    store_fixture_sql(c->home,
                      "create trigger no before insert on steps begin select raise(abort, 'no'); end");
    struct writer_options options = {c->home, id, complain, c};
    if (writer_open(&options, &writer, &err)) fail_msg("%s", err.text);
    struct step_record record = store_fixture_step(0, 1);
    writer_step(writer, &record);
    return writer;
}

TEST_CASE(a_checkpoint_goes_on_with_records_that_are_in_the_file)
{
    struct complaints c = {0};
    struct err err = {0};
    struct writer *writer = open_refused("no-wait", &c);
    double start = clock_monotonic();
    if (writer_flush_wait(writer, writer_flush_begin(writer), 300, &err)) fail_msg("%s", err.text);
    assert_true(clock_monotonic() - start < 150);
    assert_int_equal(c.count, 1);
    if (!strstr(c.newest, "anneal.db: SQLite failed: no; records are kept in ")) fail_msg("%s", c.newest);
    assert_true(store_fixture_number(c.home, "select count(*) from steps") == 0);
    store_fixture_sql(c.home, "drop trigger no");
    assert_int_equal(writer_close(writer, RUN_FINISHED, NULL, &err), STATUS_OK);
    assert_true(store_fixture_number(c.home, "select count(*) from steps") == 1);
}

TEST_CASE(a_database_that_cannot_be_opened_is_an_error)
{
    struct complaints c = {0};
    struct err err = {0};
    struct writer *writer;
    char path[PATH_MAX + 16];
    store_fixture_home("no-database", c.home, sizeof c.home);
    snprintf(path, sizeof path, "%s/anneal.db", c.home);
    assert_int_equal(file_write_atomic(path, "this is not a database", 22, &err), STATUS_OK);
    struct writer_options options = {c.home, "some-run", complain, &c};
    assert_int_equal(writer_open(&options, &writer, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.text, "anneal.db: is not a run database"));
    assert_int_equal(c.count, 0);
}

/* The process ends as soon as its records are safe, while another one holds the database. */
static int record_and_die(void *argument)
{
    struct complaints *c = argument;
    struct err err = {0};
    struct writer *writer;
    struct writer_options options = {c->home, c->newest, NULL, NULL};
    if (writer_open(&options, &writer, &err)) return 1;
    for (int64_t i = 0; i < HELD; i++) {
        struct step_record record = store_fixture_step(i, 1);
        if (i == HELD / 2 && (writer_flush(writer, 60, &err) || write(c->pipe[1], "h", 1) != 1)) return 2;
        if (i == HELD / 2 && read(c->answer[0], &err, 1) != 1) return 3;
        writer_step(writer, &record);
    }
    writer_eval(writer, &(struct eval_record){HELD, 4096, 1.7e9, 3.5, 33.1, 12});
    writer_sample(writer, &(struct sample_record){HELD, "In the", NULL});
    writer_event(writer, &(struct event_record){HELD, 1.7e9, "warning", "it is held", false});
    if (writer_flush(writer, 60, &err)) return 4;
    kill(getpid(), SIGKILL);
    return 5;
}

TEST_CASE(what_was_recorded_under_a_lock_survives_a_kill)
{
    struct complaints c = {0};
    struct err err = {0};
    char word, sql[120], path[PATH_MAX + 64];
    size_t n;
    store_fixture_home("killed", c.home, sizeof c.home);
    store_fixture_run(c.home, "killed", c.newest);
    for (int kills = 1; kills <= 2; kills++) {
        assert_true(pipe(c.pipe) == 0 && pipe(c.answer) == 0);
        pid_t pid = store_fixture_fork(record_and_die, &c);
        assert_int_equal(read(c.pipe[0], &word, 1), 1);
        sqlite3 *db = store_fixture_lock(c.home);
        assert_int_equal(write(c.answer[1], "h", 1), 1);
        assert_int_equal(store_fixture_wait(pid), 128 + SIGKILL);
        store_fixture_unlock(db);
        snprintf(sql, sizeof sql, "select count(*) from steps where segment = %d", 3 * kills - 2);
        assert_true(store_fixture_number(c.home, sql) == HELD / 2);

        /* twice: what is stored is not stored again, also where the file could not be emptied */
        snprintf(path, sizeof path, "%s/runs/%s/records", c.home, c.newest);
        char *kept = store_fixture_slurp(path, &n);
        for (int life = 0; life < 2; life++) {
            if (life) assert_int_equal(file_write_atomic(path, kept, n, &err), STATUS_OK);
            struct writer *writer = store_fixture_writer(c.home, c.newest);
            assert_int_equal(writer_recovered(writer), life ? 0 : HELD / 2 + 3);
            assert_int_equal(writer_close(writer, RUN_STOPPED, NULL, &err), STATUS_OK);
            assert_true(store_fixture_number(c.home, sql) == HELD);
            assert_true(store_fixture_number(c.home, "select steps from runs") == HELD);
            assert_true(store_fixture_number(c.home, "select best_val_loss from runs") == 3.5);
            assert_true(store_fixture_number(c.home, "select count(*) from samples where text is ''") ==
                        kills);
            assert_true(store_fixture_number(
                            c.home, "select count(*) from events where text = 'it is held'") == kills);
            assert_true(store_fixture_number(c.home, "select sum(count) from rollup where metric = 'loss' and"
                                                     " level = 64") == HELD / 64 * 64);
        }
        free(kept);
    }
}

/* All that it records is in the file when it dies. */
static int continue_and_die(void *argument)
{
    struct complaints *c = argument;
    struct err err = {0};
    struct writer *writer;
    struct writer_options options = {c->home, c->newest, NULL, NULL};
    if (writer_open(&options, &writer, &err) || write(c->pipe[1], "h", 1) != 1) return 1;
    if (read(c->answer[0], &err, 1) != 1) return 2;
    for (int64_t i = 300; i < 800; i++) {
        struct step_record record = store_fixture_step(i, 2);
        writer_step(writer, &record);
    }
    if (writer_flush(writer, 60, &err)) return 3;
    kill(getpid(), SIGKILL);
    return 4;
}

/* A chart is drawn from them: buckets of a course that was left would be seen in it. */
TEST_CASE(summaries_agree_with_steps_that_come_from_the_file)
{
    struct complaints c = {0};
    struct err err = {0};
    char word;
    store_fixture_home("summed", c.home, sizeof c.home);
    store_fixture_run(c.home, "summed", c.newest);
    struct writer *writer = store_fixture_writer(c.home, c.newest);
    for (int64_t i = 0; i < HELD; i++) {
        struct step_record record = store_fixture_step(i, 1);
        writer_step(writer, &record);
    }
    assert_int_equal(writer_close(writer, RUN_STOPPED, NULL, &err), STATUS_OK);
    assert_true(pipe(c.pipe) == 0 && pipe(c.answer) == 0);
    pid_t pid = store_fixture_fork(continue_and_die, &c);
    assert_int_equal(read(c.pipe[0], &word, 1), 1);
    sqlite3 *db = store_fixture_lock(c.home);
    assert_int_equal(write(c.answer[1], "h", 1), 1);
    assert_int_equal(store_fixture_wait(pid), 128 + SIGKILL);
    store_fixture_unlock(db);
    writer = store_fixture_writer(c.home, c.newest);
    assert_int_equal(writer_recovered(writer), 500);
    assert_int_equal(writer_close(writer, RUN_STOPPED, NULL, &err), STATUS_OK);
    char *buckets = store_fixture_text(
        c.home,
        "select count(*), sum(abs(mean - (select avg(loss) from steps s where s.step / 64 = first_step / 64"
        " and segment = 1 + (s.step >= 300))) < 1e-9)"
        " from rollup where metric = 'loss' and level = 64");
    assert_string_equal(buckets, "12|12"); /* and none of the steps behind */
    free(buckets);
}

/* Moves a file of the home. */
static void move(const char *home, const char *from, const char *to)
{
    char a[PATH_MAX + 160], b[PATH_MAX + 160];
    snprintf(a, sizeof a, "%s/%s", home, from);
    snprintf(b, sizeof b, "%s/%s", home, to);
    assert_int_equal(rename(a, b), 0);
}

static void move_database(const char *home, const char *to)
{
    char log[40], index[40];
    snprintf(log, sizeof log, "%s-wal", to);
    snprintf(index, sizeof index, "%s-shm", to);
    move(home, "anneal.db", to);
    move(home, "anneal.db-wal", log);
    move(home, "anneal.db-shm", index);
}

/* Reads the files of all runs; one run lacked something, or (made < 0) none did. */
static void repair(const struct complaints *c, int made)
{
    struct err err = {0};
    struct arena arena = {0};
    struct repair *repairs;
    size_t count;
    struct store *store = store_fixture_open(c->home);
    assert_int_equal(recovery_repair_all(store, &arena, &repairs, &count, &err), STATUS_OK);
    assert_int_equal(count, made >= 0);
    if (count && repairs[0].err.status) fail_msg("%s", repairs[0].err.text);
    if (count) assert_true(repairs[0].made == made && repairs[0].stored > 0);
    store_close(store);
    arena_release(&arena);
}

static void expect_whole(const struct complaints *c)
{
    assert_true(store_fixture_number(c->home, "select count(*) from steps") == HELD);
    assert_true(store_fixture_number(c->home, "select count(*) from events where text = 'halfway'") == 1);
    assert_true(store_fixture_number(c->home, "select sum(count) from rollup where metric = 'loss' and"
                                              " level = 64") == HELD / 64 * 64);
    char *row = store_fixture_text(c->home, "select name, status, message, steps, segment from runs");
    assert_string_equal(row, "removed|finished|done|1000|1");
    free(row);
}

TEST_CASE(a_run_whose_database_is_removed_is_made_again_from_its_folder)
{
    struct complaints c = {0};
    struct err err = {0};
    char id[RUN_ID_MAX], records[RUN_ID_MAX + 16], copy[RUN_ID_MAX + 16], from[PATH_MAX + 160],
        to[PATH_MAX + 160];
    struct writer *writer;
    store_fixture_home("removed", c.home, sizeof c.home);
    store_fixture_run(c.home, "removed", id);
    struct writer_options options = {c.home, id, complain, &c};
    if (writer_open(&options, &writer, &err)) fail_msg("%s", err.text);
    for (int64_t i = 0; i < HELD; i++) {
        struct step_record record = store_fixture_step(i, 1);
        if (i == HELD / 2) {
            writer_event(writer, &(struct event_record){i, 1.7e9, "info", "halfway", false});
            assert_int_equal(writer_flush(writer, 60, &err), STATUS_OK);
            store_fixture_sql(c.home, "pragma wal_checkpoint(truncate)");
            move_database(c.home, "away");
        }
        writer_step(writer, &record);
    }
    assert_int_not_equal(writer_close(writer, RUN_FINISHED, "done", &err), STATUS_OK);
    assert_non_null(strstr(err.text, "doctor --repair` stores them"));
    assert_int_equal(c.count, 1);
    assert_non_null(strstr(c.newest, "anneal.db: the database was removed while it was in use; records are"));

    snprintf(records, sizeof records, "runs/%s/records", id);
    snprintf(copy, sizeof copy, "runs/%s/copy", id);
    snprintf(from, sizeof from, "%s/%s", c.home, records);
    snprintf(to, sizeof to, "%s/%s", c.home, copy);
    assert_int_equal(file_copy(from, to, &err), STATUS_OK);
    repair(&c, true);
    expect_whole(&c);
    repair(&c, -1); /* once is enough */
    /* into the first half, where the database is moved back */
    move(c.home, copy, records);
    move_database(c.home, "new");
    move(c.home, "away", "anneal.db");
    repair(&c, false);
    expect_whole(&c);
}

/* As soon as it is asked to: a command that writes, and whose commits are then in the database. */
static int create_another(void *argument)
{
    struct complaints *c = argument;
    struct err err = {0};
    struct store *store;
    struct run_new run = {.name = "another", .config = "{}"};
    char word, id[RUN_ID_MAX];
    if (read(c->answer[0], &word, 1) != 1) return 1;
    if (store_open(c->home, STORE_WRITE, &store, &err) || run_create(store, &run, id, &err)) return 2;
    store_close(store);
    return 0;
}

/* A run that trains beside one that has ended; `from` of `to` steps. */
static void record(struct writer *writer, int64_t from, int64_t to)
{
    struct err err = {0};
    for (int64_t i = from; i < to; i++) {
        struct step_record step = store_fixture_step(i, 1);
        writer_step(writer, &step);
    }
    if (writer_flush(writer, 60, &err)) fail_msg("%s", err.text);
}

/* Removes helper files under a writer, and has another process write before the writer can notice it (early),
 * or after. */
static void lose_helpers(const char *name, bool log, bool index, bool early, const char *sentence)
{
    struct complaints c = {0};
    struct err err = {0};
    char word = 'h', id[RUN_ID_MAX], old[RUN_ID_MAX], path[PATH_MAX + 16];
    struct writer *writer;
    store_fixture_home(name, c.home, sizeof c.home);
    store_fixture_run(c.home, "old", old);
    writer = store_fixture_writer(c.home, old);
    record(writer, 0, HELD);
    if (writer_close(writer, RUN_FINISHED, "done", &err)) fail_msg("%s", err.text);
    store_fixture_run(c.home, "removed", id);
    assert_true(pipe(c.answer) == 0);
    pid_t pid = store_fixture_fork(create_another, &c);
    struct writer_options options = {c.home, id, complain, &c};
    if (writer_open(&options, &writer, &err)) fail_msg("%s", err.text);
    record(writer, 0, HELD / 2);
    snprintf(path, sizeof path, "%s/anneal.db-wal", c.home);
    if (log) assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof path, "%s/anneal.db-shm", c.home);
    if (index) assert_int_equal(unlink(path), 0);
    if (!early) record(writer, HELD / 2, HELD / 2 + 1);
    assert_int_equal(write(c.answer[1], &word, 1), 1);
    assert_int_equal(store_fixture_wait(pid), 0);
    record(writer, HELD / 2 + !early, HELD);
    assert_int_not_equal(writer_close(writer, RUN_FINISHED, "done", &err), STATUS_OK);
    assert_non_null(strstr(err.text, "doctor --repair` stores them"));
    assert_int_equal(c.count, 1);
    if (!strstr(c.newest, sentence)) fail_msg("%s", c.newest);

    struct store *store = store_fixture_open(c.home);
    if (store_check(store, &err)) fail_msg("%s", err.text);
    struct repair repair;
    if (recovery_repair(store, id, &repair, &err)) fail_msg("%s", err.text);
    if (store_check(store, &err)) fail_msg("%s", err.text);
    store_close(store);
    char *rows = store_fixture_text(
        c.home,
        "select name, status, steps, (select count(*) from steps where run_id = id) from runs order by name");
    assert_string_equal(rows, "another|created|0|0\nold|finished|1000|1000\nremoved|finished|1000|1000");
    free(rows);
}

TEST_CASE(a_log_and_its_index_that_are_removed_damage_nothing)
{
    lose_helpers("helpers", true, true, true,
                 "anneal.db-wal: the log of the database was replaced while it was in use");
}

/* Others find an index then that belongs to no log, until the writer notices. */
TEST_CASE(a_log_that_is_removed_damages_nothing)
{
    lose_helpers("log", true, false, false,
                 "anneal.db-wal: the log of the database was removed while it was in use");
}

TEST_CASE(an_index_that_is_removed_damages_nothing)
{
    lose_helpers("index", false, true, true,
                 "anneal.db-shm: the index of its log was replaced while it was in use");
}

/* Nothing was recorded since, so only its status is missing. */
TEST_CASE(the_end_of_a_run_whose_database_is_removed_waits_in_its_folder)
{
    struct complaints c = {0};
    struct err err = {0};
    char id[RUN_ID_MAX];
    store_fixture_home("ends", c.home, sizeof c.home);
    store_fixture_run(c.home, "ends", id);
    struct writer *writer = store_fixture_writer(c.home, id);
    for (int64_t i = 0; i < 10; i++) {
        struct step_record record = store_fixture_step(i, 1);
        writer_step(writer, &record);
    }
    assert_int_equal(writer_flush(writer, 60, &err), STATUS_OK);
    store_fixture_sql(c.home, "pragma wal_checkpoint(truncate)");
    move_database(c.home, "away");
    assert_int_not_equal(writer_close(writer, RUN_FINISHED, "done", &err), STATUS_OK);
    assert_non_null(strstr(err.text, "doctor --repair` stores them"));
    repair(&c, true);
    char *row = store_fixture_text(c.home, "select name, status, message, steps from runs");
    assert_string_equal(row, "ends|finished|done|10");
    free(row);
}

/* As where a power cut took its steps, but not what they led to. */
TEST_CASE(a_run_that_is_made_again_without_steps_has_those_of_its_checkpoints)
{
    static const char *const folders[] = {"step-8", "step-40", "step-200.suspect"};
    struct complaints c = {0};
    struct err err = {0};
    char id[RUN_ID_MAX], path[2 * PATH_MAX];
    store_fixture_home("stepless", c.home, sizeof c.home);
    store_fixture_run(c.home, "stepless", id);
    struct writer *writer = store_fixture_writer(c.home, id);
    move_database(c.home, "away");
    writer_event(writer, &(struct event_record){40, 1.7e9, "info", "said", false});
    assert_int_not_equal(writer_close(writer, RUN_STOPPED, "", &err), STATUS_OK);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/runs/%s/checkpoints/%s", c.home, id, folders[i]);
        assert_int_equal(file_make_folders(path, &err), STATUS_OK);
    }
    repair(&c, true);
    char *rows = store_fixture_text(c.home, "select status, steps, (select group_concat(path, ' ') from"
                                            " (select path from checkpoints order by step)) from runs");
    assert_string_equal(rows, "stopped|40|checkpoints/step-8 checkpoints/step-40");
    free(rows);
}

TEST_CASE(records_that_nothing_keeps_are_counted_and_the_cause_is_said)
{
    struct complaints c = {0};
    struct err err = {0};
    char id[RUN_ID_MAX], sentence[RUN_ID_MAX + 100];
    struct rlimit before, none;
    store_fixture_home("nowhere", c.home, sizeof c.home);
    store_fixture_run(c.home, "nowhere", id);
    struct writer *writer = store_fixture_writer(c.home, id);
    assert_int_equal(writer_flush(writer, 60, &err), STATUS_OK);
    move_database(c.home, "away");
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    for (int64_t i = 0; i < 3; i++) {
        struct step_record record = store_fixture_step(i, 1);
        writer_step(writer, &record);
    }
    enum status status = writer_close(writer, RUN_FINISHED, "done", &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_not_equal(status, STATUS_OK);
    snprintf(sentence, sizeof sentence, "run %s: 3 of its records were lost: they could not be stored: ", id);
    if (strncmp(err.text, sentence, strlen(sentence)) != 0 || !strstr(err.text, "the database was removed"))
        fail_msg("%s", err.text);
}

/* Bytes of a write-ahead log that the disk has: SQLite calls this function of ours. */
static off_t synced;

int fdatasync(int fd)
{
    char link[40], path[PATH_MAX] = "";
    struct stat info;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n > 4 && strcmp(path + n - 4, "-wal") == 0 && fstat(fd, &info) == 0) synced = info.st_size;
    return 0;
}

TEST_CASE(the_disk_has_what_a_checkpoint_has_waited_for)
{
    char home[PATH_MAX], id[RUN_ID_MAX], path[PATH_MAX + 16];
    struct err err = {0};
    struct stat info;
    store_fixture_home("synced", home, sizeof home);
    store_fixture_run(home, "synced", id);
    snprintf(path, sizeof path, "%s/anneal.db-wal", home);
    struct writer *writer = store_fixture_writer(home, id);
    for (int64_t i = 0; i < 5; i++) {
        struct step_record record = store_fixture_step(i, 1);
        writer_step(writer, &record);
        double deadline = clock_monotonic() + 60;
        while (i % 2 && store_fixture_number(home, "select count(*) from steps") <= (double)i &&
               clock_monotonic() < deadline) /* stored, but nobody has asked for the disk */
            usleep(1000);
        synced = 0;
        assert_int_equal(writer_flush(writer, 60, &err), STATUS_OK);
        assert_int_equal(stat(path, &info), 0);
        assert_int_equal(synced, info.st_size);
    }
    assert_int_equal(writer_close(writer, RUN_FINISHED, NULL, &err), STATUS_OK);
}

/* They leave the file when they are in the database: a power cut in between would take both. */
TEST_CASE(the_disk_has_what_leaves_the_file)
{
    struct complaints c = {0};
    struct err err = {0};
    struct stat info;
    char path[PATH_MAX + 16];
    struct writer *writer = open_refused("leaves", &c);
    assert_int_equal(writer_flush(writer, 60, &err), STATUS_OK); /* to the file */
    assert_true(store_fixture_number(c.home, "select count(*) from steps") == 0);
    store_fixture_sql(c.home, "drop trigger no");
    double deadline = clock_monotonic() + 60;
    while (store_fixture_number(c.home, "select count(*) from steps") == 0 && clock_monotonic() < deadline)
        usleep(1000);
    snprintf(path, sizeof path, "%s/anneal.db-wal", c.home);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(synced, info.st_size);
    assert_int_equal(writer_close(writer, RUN_FINISHED, NULL, &err), STATUS_OK);
}

/* A lock, a hung disk: the first checkpoint finds out, later ones go on. */
TEST_CASE(a_checkpoint_waits_once_for_a_store_that_stalls)
{
    struct err err = {0};
    struct complaints c = {0};
    char id[RUN_ID_MAX];
    struct writer *writer;
    store_fixture_home("stalls", c.home, sizeof c.home);
    store_fixture_run(c.home, "stalls", id);
    struct writer_options options = {c.home, id, complain, &c};
    if (writer_open(&options, &writer, &err)) fail_msg("%s", err.text);
    sqlite3 *db = store_fixture_lock(c.home);
    struct step_record record = store_fixture_step(0, 1);
    writer_step(writer, &record);
    assert_int_equal(writer_flush_wait(writer, writer_flush_begin(writer), 0.1, &err), STATUS_BUSY);
    for (int i = 0; i < 10; i++)
        assert_int_equal(writer_flush_wait(writer, writer_flush_begin(writer), 300, &err), STATUS_BUSY);
    assert_int_equal(c.count, 0); /* nobody has waited until it counts as failing, 5 s */
    store_fixture_unlock(db);
    assert_int_equal(writer_flush(writer, 60, &err), STATUS_OK);
    record = store_fixture_step(1, 1);
    writer_step(writer, &record); /* it is waited for again */
    assert_int_equal(writer_flush_wait(writer, writer_flush_begin(writer), 60, &err), STATUS_OK);
    assert_int_equal(writer_close(writer, RUN_FINISHED, NULL, &err), STATUS_OK);
}

TEST_CASE(who_leaves_a_failing_store_says_that_it_waits)
{
    struct complaints c = {.mend_at = 2};
    struct err err = {0};
    struct writer *writer = open_refused("leaves", &c);
    writer_flush_wait(writer, writer_flush_begin(writer), 300, NULL); /* it has failed */
    assert_int_equal(writer_close(writer, RUN_FINISHED, NULL, &err), STATUS_OK);
    assert_int_equal(c.count, 2);
    assert_string_equal(c.newest, "trying for up to 10 s to store the last records");
    assert_true(store_fixture_number(c.home, "select count(*) from steps") == 1);
}

TEST_MAIN()
