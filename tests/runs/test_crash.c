/* Processes that die at any moment, and processes that work at the same time. */
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <sqlite3.h>

#include "core/base/philox.h"
#include "runs/series.h"
#include "store_fixture.h"
#include "tests/cmocka.h"
#include "tests/long.h"

/* A page shared by a trainer process and the test; it outlives the trainer. */
struct stage {
    const char *home, *id;
    int salt;
    int64_t end;            /* steps to write; 0: for ever */
    _Atomic int64_t stored; /* steps that writer_flush has promised */
    _Atomic int64_t began;
};

static struct stage *new_stage(void)
{
    struct stage *stage =
        mmap(NULL, sizeof *stage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(stage != MAP_FAILED);
    return stage;
}

/* A trainer that does nothing but record, as fast as it can. */
static int train(void *argument)
{
    struct stage *stage = argument;
    struct err err = {0};
    struct store *store = NULL;
    struct writer *writer = NULL;
    struct run_lock lock;
    struct writer_options options = {.home = stage->home, .run_id = stage->id};
    if (store_open(stage->home, STORE_WRITE, &store, &err) ||
        run_lock_acquire(store, stage->id, &lock, &err) || writer_open(&options, &writer, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    stage->began = 1;
    for (int64_t s = stage->stored; stage->end == 0 || s < stage->end; s++) {
        struct step_record record = store_fixture_step(s, stage->salt);
        writer_step(writer, &record);
        if (s % 300 == 299) {
            writer_sample(writer, &(struct sample_record){s + 1, "In the beginning", "was the word"});
            if (writer_flush(writer, 60, &err)) return 2;
            stage->stored = s + 1;
        }
    }
    enum status status = writer_close(writer, RUN_FINISHED, NULL, &err);
    run_lock_release(&lock);
    store_close(store);
    if (status) fprintf(stderr, "%s\n", err.text);
    return status ? 3 : 0;
}

static void spin(double seconds)
{
    struct timespec pause = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&pause, NULL);
}

/* One run, resumed after each kill from the last stored step. */
TEST_CASE(a_trainer_killed_at_any_moment_loses_nothing_committed)
{
    int deaths = long_or(50, 15);
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct err err = {0};
    struct stage *stage = new_stage();
    store_fixture_home("killed", home, sizeof home);
    store_fixture_run(home, "killed", id);
    stage->home = home;
    stage->id = id;
    stage->salt = 1;
    int64_t seen = 0;
    for (int death = 0; death < deaths; death++) {
        stage->began = 0;
        pid_t pid = store_fixture_fork(train, stage);
        /* from before the segment exists to well into the writing */
        double moment = philox_uniform(philox4x32_10((uint32_t)death, 1, 2, 3, 4, 5).word[0]) * 0.06;
        if (death % 5)
            while (!stage->began) spin(0.001);
        spin(moment);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(store_fixture_wait(pid), 128 + SIGKILL);

        assert_true(store_fixture_number(
                        home, "select count(*) from pragma_integrity_check where integrity_check <> 'ok'") ==
                    0);
        struct store *store = store_fixture_open(home);
        struct run_info info;
        assert_int_equal(run_find(store, id, &info, &err), STATUS_OK);
        assert_int_equal(info.status, info.segment ? RUN_CRASHED : RUN_CREATED);
        assert_true(info.steps >= stage->stored && info.steps >= seen);
        seen = info.steps;
        struct series series = {0};
        assert_int_equal(series_read(store, id, METRIC_LOSS, 0, -1, 1 << 20, &series, &err), STATUS_OK);
        assert_int_equal(series.count, info.steps); /* all of them, and the row agrees with the rows */
        for (size_t i = 0; i < series.count; i++)
            assert_true(series.points[i].last == store_fixture_step((int64_t)i, 1).loss);
        /* the rollups agree, too */
        struct series coarse = {0};
        assert_int_equal(series_read(store, id, METRIC_LOSS, 0, -1, 1, &coarse, &err), STATUS_OK);
        int64_t total = 0;
        for (size_t i = 0; i < coarse.count; i++) total += coarse.points[i].count;
        assert_int_equal(total, info.steps);
        series_release(&series);
        series_release(&coarse);
        store_close(store);
        stage->stored = seen;
    }
    assert_true(seen > 1000);
    stage->end = seen + 100;
    assert_int_equal(store_fixture_wait(store_fixture_fork(train, stage)), 0);
    struct store *store = store_fixture_open(home);
    struct run_info info;
    assert_int_equal(run_find(store, id, &info, &err), STATUS_OK);
    assert_true(info.status == RUN_FINISHED && info.steps == seen + 100);
    store_close(store);
    munmap(stage, sizeof *stage);
}

/* Reads until the run is over; what it sees only grows, and is never torn. */
static int watch(void *argument)
{
    struct stage *stage = argument;
    struct err err = {0};
    struct store *store = NULL;
    struct series series = {0};
    int64_t before = 0;
    if (store_open(stage->home, STORE_WRITE, &store, &err) ||
        series_read(store, stage->id, METRIC_LR, 0, -1, 500, &series, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    for (bool over = false; !over;) {
        struct run_info info;
        if (run_find(store, stage->id, &info, &err)) return 2;
        over = info.status == RUN_FINISHED;
        if (series_update(store, stage->id, &series, &err)) {
            fprintf(stderr, "%s\n", err.text);
            return 3;
        }
        int64_t total = 0;
        for (size_t i = 0; i < series.count; i++) total += series.points[i].count;
        if (total < before || total < info.steps) return 4;
        before = total;
        spin(0.002);
    }
    series_release(&series);
    store_close(store);
    return before == stage->end ? 0 : 5;
}

TEST_CASE(two_trainers_and_several_readers_share_one_database)
{
    enum { TRAINERS = 2, READERS = 2, STEPS = 30000 };
    char home[PATH_MAX], ids[TRAINERS][RUN_ID_MAX], sql[400];
    struct stage *stages[TRAINERS];
    pid_t trainers[TRAINERS], readers[TRAINERS][READERS];
    store_fixture_home("shared", home, sizeof home);
    for (int t = 0; t < TRAINERS; t++) {
        store_fixture_run(home, t ? "second" : "first", ids[t]);
        stages[t] = new_stage();
        stages[t]->home = home;
        stages[t]->id = ids[t];
        stages[t]->salt = 10 + t;
        stages[t]->end = STEPS;
    }
    for (int t = 0; t < TRAINERS; t++) {
        trainers[t] = store_fixture_fork(train, stages[t]);
        for (int r = 0; r < READERS; r++) readers[t][r] = store_fixture_fork(watch, stages[t]);
    }
    for (int t = 0; t < TRAINERS; t++) {
        assert_int_equal(store_fixture_wait(trainers[t]), 0);
        for (int r = 0; r < READERS; r++) assert_int_equal(store_fixture_wait(readers[t][r]), 0);
    }
    for (int t = 0; t < TRAINERS; t++) {
        snprintf(sql, sizeof sql, "select count(*) from steps where run_id = '%s'", ids[t]);
        assert_true(store_fixture_number(home, sql) == STEPS);
        struct step_record want = store_fixture_step(12345, 10 + t);
        snprintf(sql, sizeof sql, "select loss from steps where run_id = '%s' and step = 12345", ids[t]);
        assert_true(store_fixture_number(home, sql) == want.loss);
        munmap(stages[t], sizeof *stages[t]);
    }
    assert_true(store_fixture_number(
                    home, "select count(*) from pragma_integrity_check where integrity_check <> 'ok'") == 0);
}

static int open_at_once(void *argument)
{
    struct stage *stage = argument;
    struct err err = {0};
    struct store *store = NULL;
    char id[RUN_ID_MAX];
    while (!stage->began) spin(0.0001);
    if (store_open(stage->home, STORE_WRITE, &store, &err) ||
        run_create(store, &(struct run_new){.name = "same"}, id, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    store_close(store);
    return 0;
}

TEST_CASE(many_processes_may_create_one_database_at_once)
{
    enum { PROCESSES = 8, ROUNDS = 5 };
    char home[PATH_MAX];
    for (int round = 0; round < ROUNDS; round++) {
        struct stage *stage = new_stage();
        pid_t pids[PROCESSES];
        store_fixture_home("at-once", home, sizeof home);
        stage->home = home;
        for (int i = 0; i < PROCESSES; i++) pids[i] = store_fixture_fork(open_at_once, stage);
        stage->began = 1;
        for (int i = 0; i < PROCESSES; i++) assert_int_equal(store_fixture_wait(pids[i]), 0);
        assert_true(store_fixture_number(home, "select count(*) from runs") == PROCESSES);
        munmap(stage, sizeof *stage);
    }
}

TEST_MAIN()
