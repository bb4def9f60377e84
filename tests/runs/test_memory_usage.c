/* The memory of a run as the workbench reads it: the newest record of every category, the last sample of the
 * device, and the other processes that hold some of it. */
#include <math.h>
#include <unistd.h>

#include "runs/memory_usage.h"
#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"

enum { MIB = 1 << 20 };

static const struct memory_record *category(const struct memory_usage *usage, const char *name)
{
    for (size_t i = 0; i < usage->category_count; i++)
        if (strcmp(usage->categories[i].category, name) == 0) return &usage->categories[i];
    return NULL;
}

static struct memory_usage read_usage(struct store *store, const char *id, struct arena *arena)
{
    struct memory_usage usage;
    struct err err = {0};
    if (memory_usage_read(store, id, arena, &usage, &err)) fail_msg("%s", err.text);
    return usage;
}

TEST_CASE(the_newest_record_of_the_newest_segment_counts)
{
    char home[1024], id[RUN_ID_MAX];
    struct err err = {0};
    struct arena arena = {0};
    store_fixture_home("segments", home, sizeof home);
    store_fixture_run(home, "resumed", id);
    struct writer *writer = store_fixture_writer(home, id);
    writer_memory(writer, &(struct memory_record){900, "weights", 10 * MIB, 10 * MIB, 10 * MIB});
    writer_memory(writer, &(struct memory_record){900, "activations", 40 * MIB, 40 * MIB, 40 * MIB});
    assert_int_equal(writer_close(writer, RUN_STOPPED, "", &err), STATUS_OK);
    writer = store_fixture_writer(home, id); /* resumed further back, with half the batch */
    writer_memory(writer, &(struct memory_record){500, "weights", 10 * MIB, 10 * MIB, 10 * MIB});
    writer_memory(writer, &(struct memory_record){500, "activations", 20 * MIB, 0, 0});
    writer_memory(writer, &(struct memory_record){600, "weights", 10 * MIB, 10 * MIB, 11 * MIB});
    writer_memory(writer, &(struct memory_record){600, "activations", 20 * MIB, 19 * MIB, 20 * MIB});
    assert_int_equal(writer_close(writer, RUN_STOPPED, "", &err), STATUS_OK);
    struct store *store = store_fixture_open(home);
    struct memory_usage usage = read_usage(store, id, &arena);
    assert_int_equal(usage.category_count, 2);
    assert_int_equal(category(&usage, "activations")->step, 600);
    assert_int_equal(category(&usage, "activations")->planned_bytes, 20 * MIB);
    assert_int_equal(category(&usage, "activations")->live_bytes, 19 * MIB);
    assert_int_equal(category(&usage, "weights")->peak_bytes, 11 * MIB);
    store_close(store);
    arena_release(&arena);
}

/* As an import of a CSV may leave them. */
TEST_CASE(bytes_that_a_record_lacks_count_as_none)
{
    char home[1024], id[RUN_ID_MAX];
    struct err err = {0};
    struct arena arena = {0};
    store_fixture_home("lacking", home, sizeof home);
    store_fixture_run(home, "imported", id);
    struct writer *writer = store_fixture_writer(home, id);
    writer_memory(writer, &(struct memory_record){9, "weights", MIB, MIB, MIB});
    assert_int_equal(writer_close(writer, RUN_STOPPED, "", &err), STATUS_OK);
    static const char *const columns[] = {"planned_bytes", "live_bytes", "peak_bytes"};
    for (int lacks = 0; lacks < 3; lacks++) {
        char sql[120];
        snprintf(sql, sizeof sql, "update memory set %s = null", columns[lacks]);
        store_fixture_sql(home, sql);
        struct store *store = store_fixture_open(home);
        struct memory_usage usage = read_usage(store, id, &arena);
        const struct memory_record *weights = category(&usage, "weights");
        assert_int_equal(weights->planned_bytes, 0);
        assert_int_equal(weights->live_bytes, lacks < 1 ? MIB : 0);
        assert_int_equal(weights->peak_bytes, lacks < 2 ? MIB : 0);
        store_close(store);
    }
    arena_release(&arena);
}

TEST_CASE(the_last_look_at_the_device_keeps_what_is_unknown_unknown)
{
    char home[1024], id[RUN_ID_MAX];
    struct err err = {0};
    struct arena arena = {0};
    store_fixture_home("samples", home, sizeof home);
    store_fixture_run(home, "sampled", id);
    struct store *store = store_fixture_open(home);
    struct memory_usage usage = read_usage(store, id, &arena);
    assert_false(usage.has_sample);
    assert_int_equal(usage.category_count, 0);
    assert_true(isnan(usage.reserve));
    struct gpu_record early = {1e9 + 2, 0, 50, 900, 1000, 70, 40, 1200, 300, "thermal", 2, NULL, -1};
    struct gpu_record late = {1e9 + 4, 0, 60, 950, 1000, NAN, 41, 1300, -1, "", NAN, NULL, -1};
    assert_int_equal(gpu_samples_add(store, id, &late, &err), STATUS_OK);
    assert_int_equal(gpu_samples_add(store, id, &early, &err), STATUS_OK);
    store_fixture_sql(home, "insert into params select id, 'memory.reserve', '0.1' from runs");
    usage = read_usage(store, id, &arena);
    assert_true(usage.has_sample);
    assert_int_equal(usage.sample.memory_used_bytes, 950);
    assert_int_equal(usage.sample.memory_total_bytes, 1000);
    assert_int_equal(usage.sample.process_bytes, -1);
    assert_true(isnan(usage.sample.power_w) && isnan(usage.sample.load_1m));
    assert_true(usage.sample.process_count < 0 && usage.other_count == 0);
    assert_true(usage.reserve == 0.1);
    store_fixture_sql(home, "update params set value = 'auto'");
    assert_true(read_usage(store, id, &arena).reserve == ledger_auto_reserve(false)); /* of a GPU */
    store_close(store);
    arena_release(&arena);
}

TEST_CASE(others_are_all_but_the_runs_own_process_the_largest_first)
{
    char home[1024], id[RUN_ID_MAX];
    struct err err = {0};
    struct arena arena = {0};
    struct gpu_process processes[] = {
        {11, "unknown", -1}, {12, "small", MIB}, {4711, "anneal", 9 * MIB}, {5000, "large", 7 * MIB}};
    struct gpu_record record = {.wall_time = 1e9, .processes = processes, .process_count = 4};
    store_fixture_home("others", home, sizeof home);
    store_fixture_run(home, "beside", id);
    store_fixture_sql(home, "update runs set pid = 4711");
    struct store *store = store_fixture_open(home);
    assert_int_equal(gpu_samples_add(store, id, &record, &err), STATUS_OK);
    struct memory_usage usage = read_usage(store, id, &arena);
    assert_int_equal(usage.other_count, 3);
    assert_string_equal(usage.others[0].name, "large");
    assert_string_equal(usage.others[1].name, "small");
    assert_string_equal(usage.others[2].name, "unknown");
    store_close(store);
    arena_release(&arena);
}

TEST_CASE(holders_are_those_of_the_same_device_by_their_runs_names)
{
    static const struct ledger_room gpu = {"GPU-1", "cuda:0", 1000 * MIB, 0, 0.05, 0, false},
                                    cpu = {"cpu", "cpu", 1000 * MIB, 0, 0.05, 0, false};
    char home[1024], mine[RUN_ID_MAX], other[RUN_ID_MAX], third[RUN_ID_MAX];
    struct err err = {0};
    struct arena arena = {0};
    struct ledger *ledger, *elsewhere;
    struct memory_holder *holders;
    size_t count;
    int64_t reservation, word;
    store_fixture_home("holders", home, sizeof home);
    store_fixture_run(home, "mine", mine);
    store_fixture_run(home, "other", other);
    store_fixture_run(home, "on-the-cpu", third);
    struct store *store = store_fixture_open(home);
    assert_int_equal(ledger_open(home, LEDGER_BUSY_MS, &ledger, &err), STATUS_OK);
    assert_int_equal(ledger_reserve(ledger, &gpu, other, 300 * MIB, &reservation, &err), STATUS_OK);
    assert_int_equal(ledger_use(ledger, reservation, other, 200 * MIB, &err), STATUS_OK);
    assert_int_equal(ledger_reserve(ledger, &cpu, third, 100 * MIB, &word, &err), STATUS_OK);
    /* before it holds anything nobody knows which device it is about */
    assert_int_equal(memory_usage_holders(store, ledger, mine, &arena, &holders, &count, &err), STATUS_OK);
    assert_int_equal(count, 0);
    char tuned[LEDGER_TEXT];
    snprintf(tuned, sizeof tuned, "%s (qlora)", mine);
    assert_int_equal(ledger_reserve(ledger, &gpu, tuned, 400 * MIB, &word, &err), STATUS_OK);
    assert_int_equal(ledger_reserve(ledger, &gpu, "starting", 50 * MIB, &word, &err), STATUS_OK);
    assert_int_equal(memory_usage_holders(store, ledger, mine, &arena, &holders, &count, &err), STATUS_OK);
    assert_int_equal(count, 3);
    assert_string_equal(holders[0].name, "other");
    assert_int_equal(holders[0].bytes, 300 * MIB);
    assert_int_equal(holders[0].used, 200 * MIB);
    assert_int_equal(holders[0].pid, getpid());
    assert_false(holders[0].own);
    assert_string_equal(holders[1].name, "mine (qlora)");
    assert_true(holders[1].own);
    assert_string_equal(holders[2].name, "starting"); /* of no run of this store: the ledger's own word */
    setenv("ANNEAL_LEDGER", home, 1);                 /* elsewhere another run has the same id by chance */
    assert_int_equal(ledger_open_own("/elsewhere", false, &elsewhere, &err), STATUS_OK);
    assert_int_equal(ledger_reserve(elsewhere, &gpu, mine, 10 * MIB, &word, &err), STATUS_OK);
    assert_int_equal(memory_usage_holders(store, ledger, mine, &arena, &holders, &count, &err), STATUS_OK);
    assert_true(holders[count - 2].bytes != 10 * MIB && holders[count - 1].bytes == 10 * MIB);
    assert_false(holders[count - 1].own);
    assert_string_equal(holders[count - 1].name, mine);
    ledger_close(elsewhere);
    ledger_close(ledger);
    store_close(store);
    arena_release(&arena);
}

TEST_MAIN()
