/* The allocator on the CUDA table: the same strategies with device memory, which the host never accesses. */
#include "core/base/philox.h"
#include "core/memory/allocator.h"
#include "kernels/device/cuda_plugin.h"
#include "tests/cmocka.h"
#include "tests/cuda_sim/simulator.h"

extern const struct cuda_plugin cuda_plugin;

enum { MIB = 1 << 20, OPERATIONS = 3000, PIECES = 40 };

struct fixture {
    const struct backend *backend;
    struct device *device;
    struct stream *streams[2];
    struct allocator *allocator;
    uint64_t bytes_before;
};

static void fixture_open(struct fixture *f, enum allocator_kind kind)
{
    struct err err = {0};
    sim_set_machine(SIM_MACHINE_GOOD);
    f->backend = cuda_plugin.table;
    assert_int_equal(f->backend->device_open(DEVICE_FIRST, 0, &f->device, &err), STATUS_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(f->backend->stream_open(f->device, PRECISION_FP32, &f->streams[i], &err), STATUS_OK);
    f->bytes_before = sim_device_bytes();
    struct allocator_options options = {
        .kind = kind, .backend = f->backend, .device = f->device, .arena_bytes = 64 * MIB};
    assert_int_equal(allocator_open(&options, &f->allocator, &err), STATUS_OK);
}

static void fixture_close(struct fixture *f)
{
    assert_int_equal(allocator_close(f->allocator), 0);
    assert_int_equal(sim_device_bytes(), f->bytes_before);
    for (int i = 0; i < 2; i++) f->backend->stream_close(f->streams[i]);
    f->backend->device_close(f->device);
}

TEST_CASE(a_device_says_what_is_free_now)
{
    struct fixture f;
    struct err err = {0};
    struct device_info before, with;
    void *memory;
    fixture_open(&f, ALLOCATOR_BASIC);
    f.backend->device_describe(f.device, &before);
    assert_int_equal(
        allocator_alloc(allocator_root(f.allocator), "weights", 100 * MIB, f.streams[0], &memory, &err),
        STATUS_OK);
    f.backend->device_describe(f.device, &with);
    assert_int_equal(with.total_bytes, before.total_bytes);
    assert_int_equal(before.available_bytes - with.available_bytes, 100 * MIB);
    allocator_scope_end(allocator_root(f.allocator));
    fixture_close(&f);
}

/* Writes the first and the last float of each piece through the stream and reads them when it is freed. */
TEST_CASE(every_strategy_hands_out_device_memory)
{
    for (int kind = 0; kind < ALLOCATOR_KINDS; kind++) {
        struct fixture f;
        struct err err = {0};
        struct {
            struct allocator_scope scope;
            unsigned char *memory;
            size_t bytes;
            float mark;
        } pieces[PIECES];
        fixture_open(&f, (enum allocator_kind)kind);
        memset(pieces, 0, sizeof pieces);
        for (int i = 0; i < OPERATIONS; i++) {
            struct philox_block r = philox4x32_10((uint32_t)i, (uint32_t)kind, 0, 0, 0, 0);
            int at = (int)(r.word[0] % PIECES);
            struct stream *stream = f.streams[at % 2];
            float ends[2];
            if (pieces[at].memory) {
                f.backend->mem_download(&ends[0], pieces[at].memory, 4, stream);
                f.backend->mem_download(&ends[1], pieces[at].memory + pieces[at].bytes - 4, 4, stream);
                assert_true(ends[0] == pieces[at].mark && ends[1] == pieces[at].mark);
                allocator_scope_end(&pieces[at].scope);
                pieces[at].memory = NULL;
                continue;
            }
            void *memory = NULL;
            pieces[at].bytes = 4 + ((size_t)1 << r.word[1] % 20) / 4 * 4;
            allocator_scope_begin(&pieces[at].scope, f.allocator);
            enum status status =
                allocator_alloc(&pieces[at].scope, "piece", pieces[at].bytes, stream, &memory, &err);
            if (status == STATUS_NO_MEMORY && kind == ALLOCATOR_ARENA) continue; /* the arena is full */
            assert_int_equal(status, STATUS_OK);
            assert_int_equal((uintptr_t)memory % 256, 0);
            pieces[at].memory = memory;
            pieces[at].mark = ends[0] = (float)i;
            f.backend->mem_upload(pieces[at].memory, ends, 4, stream);
            f.backend->mem_upload(pieces[at].memory + pieces[at].bytes - 4, ends, 4, stream);
        }
        for (int i = 0; i < PIECES; i++) allocator_scope_end(&pieces[i].scope);
        fixture_close(&f);
    }
}

TEST_CASE(page_locked_memory_is_the_hosts)
{
    struct fixture f;
    struct err err = {0};
    void *host;
    fixture_open(&f, ALLOCATOR_CACHING);
    assert_int_equal(allocator_alloc_host(allocator_root(f.allocator), "batch", 10000, &host, &err),
                     STATUS_OK);
    memset(host, 7, 10000);
    assert_int_equal(sim_device_bytes(), f.bytes_before);
    allocator_scope_end(allocator_root(f.allocator));
    fixture_close(&f);
}

TEST_CASE(a_full_gpu_is_reported_with_the_tag)
{
    static const enum allocator_kind kinds[] = {ALLOCATOR_BASIC, ALLOCATOR_POOL, ALLOCATOR_CACHING};
    for (int i = 0; i < 3; i++) {
        struct fixture f;
        struct err err = {0};
        void *memory;
        fixture_open(&f, kinds[i]);
        assert_int_equal(allocator_alloc(allocator_root(f.allocator), "logits", (size_t)2 << 30, f.streams[0],
                                         &memory, &err),
                         STATUS_NO_MEMORY);
        assert_non_null(strstr(err.text, "logits: no room for 2.0 GiB"));
        fixture_close(&f);
    }
}

/* The simulator's pool grows by 2 MiB. */
TEST_CASE(how_the_pool_grows_is_seen_and_bounds_what_it_takes)
{
    static const size_t sizes[] = {1, 256, 3 * MIB, 2 * MIB, 20 * MIB + 1, 100000};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    struct fixture f;
    struct allocator_usage sum;
    void *memory;
    size_t bound;
    fixture_open(&f, ALLOCATOR_POOL);
    size_t unit = f.backend->pool_unit(f.device);
    assert_int_equal(unit, 2 * MIB);
    assert_int_equal(f.backend->pool_reserved(f.device), 0);
    assert_int_equal(sim_device_bytes(), f.bytes_before);
    assert_int_equal(allocator_rehearse(ALLOCATOR_POOL, unit, sizes, COUNT, &bound, NULL), STATUS_OK);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(allocator_alloc(allocator_root(f.allocator), "piece", sizes[i], NULL, &memory, NULL),
                         STATUS_OK);
    allocator_sum(f.allocator, &sum);
    assert_true((size_t)sum.reserved <= bound);
    assert_true(bound < (size_t)sum.live + COUNT * unit);
    allocator_scope_end(allocator_root(f.allocator));
    fixture_close(&f);
}

TEST_CASE(a_pool_that_cannot_be_watched_is_taken_to_grow_by_much)
{
    struct fixture f;
    for (int nth = 1; nth <= 2; nth++) {
        char fault[16];
        fixture_open(&f, ALLOCATOR_POOL);
        snprintf(fault, sizeof fault, "oom_at:%d", nth);
        sim_set_fault(fault);
        assert_int_equal(f.backend->pool_unit(f.device), 32 * MIB);
        assert_int_equal(f.backend->pool_reserved(f.device), 0);
        fixture_close(&f);
    }
}

TEST_MAIN()
