/* Device metrics in the run store: every number of a sample, and the processes that held memory, written when
 * they change. */
#include <math.h>

#include "runs/memory_usage.h"
#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"

#define COUNT(array) ((int64_t)(sizeof(array) / sizeof *(array)))

static struct gpu_record sample_at(double time, struct gpu_process *processes, int64_t count)
{
    return (struct gpu_record){.wall_time = time,
                               .gpu = 1,
                               .utilization_pct = 97,
                               .memory_used_bytes = 900,
                               .memory_total_bytes = 1000,
                               .power_w = 312.5,
                               .temperature_c = 64,
                               .sm_clock_mhz = 1980,
                               .process_bytes = 300,
                               .throttle = "thermal (hardware), power cap",
                               .load_1m = 3.25,
                               .processes = processes,
                               .process_count = count};
}

static void add(struct store *store, const char *id, struct gpu_record record)
{
    struct err err = {0};
    if (gpu_samples_add(store, id, &record, &err)) fail_msg("%s", err.text);
}

static struct gpu_record last(struct store *store, const char *id, struct arena *arena)
{
    struct gpu_record record;
    struct err err = {0};
    bool found = false;
    if (gpu_samples_last(store, id, arena, &record, &found, &err)) fail_msg("%s", err.text);
    assert_true(found);
    return record;
}

static double rows(const char *home)
{
    return store_fixture_number(home, "select count(*) from gpu_processes");
}

TEST_CASE(a_sample_comes_back_as_it_was_taken)
{
    char home[1024], id[RUN_ID_MAX];
    struct arena arena = {0};
    struct err err = {0};
    struct gpu_record r;
    bool found = true;
    struct gpu_process processes[40];
    for (int i = 0; i < 40; i++) processes[i] = (struct gpu_process){100 + i, "worker", 10 * i};
    processes[3] = (struct gpu_process){103, "", -1};
    store_fixture_home("whole", home, sizeof home);
    store_fixture_run(home, "whole", id);
    struct store *store = store_fixture_open(home);
    assert_int_equal(gpu_samples_last(store, id, &arena, &r, &found, &err), STATUS_OK);
    assert_false(found);
    add(store, id, sample_at(10, processes, 40));
    r = last(store, id, &arena);
    assert_true(r.wall_time == 10 && r.gpu == 1 && r.utilization_pct == 97 && r.power_w == 312.5 &&
                r.temperature_c == 64 && r.sm_clock_mhz == 1980 && r.load_1m == 3.25);
    assert_true(r.memory_used_bytes == 900 && r.memory_total_bytes == 1000 && r.process_bytes == 300);
    assert_string_equal(r.throttle, "thermal (hardware), power cap");
    assert_int_equal(r.process_count, 40);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(r.processes[i].pid, processes[i].pid);
        assert_int_equal(r.processes[i].bytes, processes[i].bytes);
        assert_string_equal(r.processes[i].name, processes[i].name);
    }
    assert_true(store_fixture_number(
                    home, "select count(*) from gpu_processes where bytes is null and pid = 103") == 1);
    store_close(store);
    arena_release(&arena);
}

TEST_CASE(processes_are_written_when_they_or_their_bytes_change)
{
    char home[1024], id[RUN_ID_MAX];
    struct arena arena = {0};
    struct gpu_process two[] = {{11, "Xorg", 100}, {12, "python3", 200}}, *one = two + 1;
    store_fixture_home("changes", home, sizeof home);
    store_fixture_run(home, "changes", id);
    struct store *store = store_fixture_open(home);
    add(store, id, sample_at(10, two, COUNT(two)));
    assert_true(rows(home) == 2);
    add(store, id, sample_at(12, two, COUNT(two)));
    assert_true(rows(home) == 2); /* the same */
    assert_int_equal(last(store, id, &arena).process_count, 2);
    two[1].bytes = 201;
    add(store, id, sample_at(14, two, COUNT(two)));
    assert_true(rows(home) == 4);
    assert_int_equal(last(store, id, &arena).processes[1].bytes, 201);
    add(store, id, sample_at(16, one, 1));
    assert_true(rows(home) == 5);
    assert_int_equal(last(store, id, &arena).processes[0].pid, 12);
    snprintf(one->name, sizeof one->name, "other"); /* the number belongs to another one now */
    add(store, id, sample_at(18, one, 1));
    assert_true(rows(home) == 6);
    store_close(store);
    arena_release(&arena);
}

/* A sample without a row of processes is not one with those of before. */
TEST_CASE(nobody_and_nobody_knows_are_kept_apart)
{
    char home[1024], id[RUN_ID_MAX];
    struct arena arena = {0};
    struct gpu_process process = {11, "Xorg", 100};
    store_fixture_home("nobody", home, sizeof home);
    store_fixture_run(home, "nobody", id);
    struct store *store = store_fixture_open(home);
    add(store, id, sample_at(10, &process, 1));
    add(store, id, sample_at(12, NULL, 0));
    assert_int_equal(last(store, id, &arena).process_count, 0);
    add(store, id, sample_at(14, NULL, -1));
    assert_int_equal(last(store, id, &arena).process_count, -1);
    add(store, id, sample_at(16, &process, 1)); /* known again */
    assert_int_equal(last(store, id, &arena).process_count, 1);
    assert_true(rows(home) == 2);
    store_close(store);
    arena_release(&arena);
}

TEST_CASE(the_processes_of_two_devices_and_two_runs_stay_apart)
{
    char home[1024], first[RUN_ID_MAX], second[RUN_ID_MAX];
    struct arena arena = {0};
    struct gpu_process a = {11, "Xorg", 100}, b = {12, "python3", 200};
    store_fixture_home("apart", home, sizeof home);
    store_fixture_run(home, "first", first);
    store_fixture_run(home, "second", second);
    struct store *store = store_fixture_open(home);
    struct gpu_record other = sample_at(12, &a, 1);
    other.gpu = 2;
    add(store, first, sample_at(10, &a, 1));
    add(store, first, other);
    assert_true(rows(home) == 2);
    add(store, second, sample_at(14, &b, 1));
    assert_int_equal(last(store, first, &arena).processes[0].pid, 11);
    assert_int_equal(last(store, second, &arena).processes[0].pid, 12);
    store_close(store);
    arena_release(&arena);
}

TEST_MAIN()
