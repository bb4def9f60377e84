/* Memory that is reused while work on it is still queued, on streams that run as late as allowed: the new
 * user must not write before the last one has read. Each strategy of the allocator is tested, and once with
 * its rule broken on purpose: a wrong value or a finding of the simulator shows that late streams detect the
 * error. */
#include <unistd.h>

#include "core/memory/allocator.h"
#include "kernels/device/cuda_plugin.h"
#include "tests/cmocka.h"
#include "tests/cuda_sim/child.h"
#include "tests/cuda_sim/simulator.h"

extern const struct cuda_plugin cuda_plugin;

#define MIB ((size_t)1 << 20)

enum { N = 64, LARGE_MIB = 700 }; /* of a device of 1 GiB two large ones are too many */

/* How a run in a process of its own ends. */
enum outcome { RIGHT = 0, WRONG = 3, REFUSED = 4, FOUND = SIM_FAILURE_STATUS };

enum plant {
    NOTHING,
    STREAMS_MIXED,   /* it is allocated for one stream and used on another */
    NOT_WAITED,      /* it is freed while another stream (for an arena, its own) still uses it */
    FREE_IN_A_HURRY, /* the device takes memory back at once */
    TRIM_IN_A_HURRY, /* likewise, and a trim does not wait for the stream */
    TRIM_MISSING,    /* a full pool is not trimmed */
};

struct lab {
    struct backend backend;
    struct device *device;
    struct stream *streams[3];
    struct event *written;
    struct allocator *allocator;
    float *ones, *twos, *seen; /* (N) page-locked */
    enum plant plant;
};

static enum status no_stream_wait(struct stream *stream, struct err *err)
{
    (void)stream;
    (void)err;
    return STATUS_OK;
}

static void no_pool_trim(struct device *device)
{
    (void)device;
}

static const struct backend *real(void)
{
    return cuda_plugin.table;
}

static float *numbers(struct lab *lab, float value)
{
    void *memory = NULL;
    if (allocator_alloc_host(allocator_root(lab->allocator), "numbers", N * sizeof(float), &memory, NULL))
        _exit(1);
    for (int i = 0; i < N; i++) ((float *)memory)[i] = value;
    return memory;
}

static void lab_open(struct lab *lab, enum allocator_kind kind, enum plant plant, bool late)
{
    *lab = (struct lab){.backend = *real(), .plant = plant};
    sim_set_machine(SIM_MACHINE_GOOD);
    sim_set_late(late);
    sim_set_free_waits(plant != FREE_IN_A_HURRY && plant != TRIM_IN_A_HURRY);
    if (plant == TRIM_IN_A_HURRY) lab->backend.stream_wait = no_stream_wait;
    if (plant == TRIM_MISSING) lab->backend.pool_trim = no_pool_trim;
    struct allocator_options options = {
        .kind = kind, .backend = &lab->backend, .arena_bytes = LARGE_MIB * MIB};
    if (real()->device_open(DEVICE_FIRST, 0, &lab->device, NULL)) _exit(1);
    for (int i = 0; i < 3; i++)
        if (real()->stream_open(lab->device, PRECISION_FP32, &lab->streams[i], NULL)) _exit(1);
    options.device = lab->device;
    if (real()->event_open(lab->device, &lab->written, NULL) ||
        allocator_open(&options, &lab->allocator, NULL))
        _exit(1);
    lab->ones = numbers(lab, 1);
    lab->twos = numbers(lab, 2);
    lab->seen = numbers(lab, 0);
}

/* Allocates memory of stream 0, writes it there and reads it last on stream `reader`; frees it with all of
 * that still queued, but ordered after another stream's read. */
static void *use_and_free(struct lab *lab, size_t bytes, int reader)
{
    void *memory = NULL;
    struct allocator_scope scope;
    allocator_scope_begin(&scope, lab->allocator);
    if (allocator_alloc(&scope, "first", bytes, lab->streams[0], &memory, NULL)) _exit(1);
    real()->mem_upload(memory, lab->ones, N * sizeof(float), lab->streams[0]);
    real()->event_record(lab->written, lab->streams[0]);
    real()->stream_after(lab->streams[reader], lab->written);
    real()->mem_download_async(lab->seen, memory, N * sizeof(float), lab->streams[reader]);
    if (reader && lab->plant != NOT_WAITED) {
        real()->event_record(lab->written, lab->streams[reader]);
        real()->stream_after(lab->streams[0], lab->written);
    }
    allocator_scope_end(&scope);
    return memory;
}

/* Allocates again, for stream `taker`, and writes, before anything waits for the reader. */
static void *take_and_write(struct lab *lab, size_t bytes, int taker)
{
    void *memory = NULL;
    struct stream *given = lab->streams[lab->plant == STREAMS_MIXED ? 0 : taker];
    if (allocator_alloc(allocator_root(lab->allocator), "second", bytes, given, &memory, NULL))
        _exit(REFUSED);
    real()->mem_upload(memory, lab->twos, N * sizeof(float), lab->streams[taker]);
    real()->stream_wait(lab->streams[taker], NULL);
    return memory;
}

/* The reader must have read the values written for it, and the next user's values must be intact. */
static void judge(struct lab *lab, const void *second)
{
    float left[N];
    for (int i = 0; i < 3; i++)
        if (real()->stream_wait(lab->streams[i], NULL)) _exit(1);
    for (int i = 0; i < N; i++)
        if (lab->seen[i] != 1) _exit(WRONG);
    if (second) real()->mem_download(left, second, sizeof left, lab->streams[0]);
    for (int i = 0; second && i < N; i++)
        if (left[i] != 2) _exit(WRONG);
    _exit(RIGHT);
}

/* ---- the runs ---- */

struct run {
    enum allocator_kind kind;
    enum plant plant;
    int reader, taker; /* streams */
    enum outcome outcome;
    bool again; /* of an arena and caching: the taker has the same memory */
};

static bool late;

static void run_reuse(const struct run *run, size_t bytes)
{
    struct lab lab;
    lab_open(&lab, run->kind, run->plant, late);
    if (run->kind == ALLOCATOR_ARENA && run->plant != NOT_WAITED) {
        /* its users wait before they free: the same work, but nothing is queued */
        void *memory = NULL;
        struct allocator_scope scope;
        allocator_scope_begin(&scope, lab.allocator);
        if (allocator_alloc(&scope, "first", bytes, lab.streams[0], &memory, NULL)) _exit(1);
        real()->mem_upload(memory, lab.ones, N * sizeof(float), lab.streams[0]);
        real()->mem_download_async(lab.seen, memory, N * sizeof(float), lab.streams[0]);
        real()->stream_wait(lab.streams[0], NULL);
        allocator_scope_end(&scope);
        if (take_and_write(&lab, bytes, run->taker) != memory) _exit(1);
        judge(&lab, memory);
    }
    void *first = use_and_free(&lab, bytes, run->reader);
    void *second = take_and_write(&lab, bytes, run->taker);
    bool ours = run->kind == ALLOCATOR_ARENA || run->kind == ALLOCATOR_CACHING; /* to say */
    if (ours && (second == first) != run->again) _exit(1);
    judge(&lab, second);
}

static char said[65536];

static void expect(void (*work)(int), const struct run *run, int number, enum outcome outcome)
{
    int status = child_run(work, number, said, sizeof said);
    if (status != (int)outcome)
        fail_msg("%s, plant %d, read on stream %d, taken on %d, %s: ended with %d, not %d: %s",
                 allocator_kind_word(run->kind), (int)run->plant, run->reader, run->taker,
                 late ? "late" : "at once", status, (int)outcome, said);
}

static const struct run reuses[] = {
    {ALLOCATOR_BASIC, NOTHING, 1, 0, RIGHT, false},
    {ALLOCATOR_BASIC, NOTHING, 1, 2, RIGHT, false},
    {ALLOCATOR_BASIC, FREE_IN_A_HURRY, 1, 2, WRONG, false},
    {ALLOCATOR_POOL, NOTHING, 0, 2, RIGHT, false},
    {ALLOCATOR_POOL, NOTHING, 1, 0, RIGHT, false},
    {ALLOCATOR_POOL, NOTHING, 1, 2, RIGHT, false},
    {ALLOCATOR_POOL, NOT_WAITED, 1, 0, FOUND, false},
    {ALLOCATOR_ARENA, NOTHING, 0, 0, RIGHT, true},
    {ALLOCATOR_ARENA, NOTHING, 0, 2, RIGHT, true},
    {ALLOCATOR_ARENA, NOT_WAITED, 0, 0, RIGHT, true}, /* one stream keeps its order */
    {ALLOCATOR_ARENA, NOT_WAITED, 1, 0, WRONG, true},
    {ALLOCATOR_CACHING, NOTHING, 0, 0, RIGHT, true},
    {ALLOCATOR_CACHING, NOTHING, 0, 2, RIGHT, false},
    {ALLOCATOR_CACHING, NOTHING, 1, 0, RIGHT, true},
    {ALLOCATOR_CACHING, NOTHING, 1, 2, RIGHT, false},
    {ALLOCATOR_CACHING, NOT_WAITED, 1, 0, WRONG, true},
    {ALLOCATOR_CACHING, STREAMS_MIXED, 1, 2, WRONG, true},
    {ALLOCATOR_CACHING, STREAMS_MIXED, 0, 2, WRONG, true},
};

static void reuse(int i)
{
    run_reuse(&reuses[i], N * sizeof(float));
}

TEST_CASE(nobody_writes_before_the_last_user_has_read)
{
    late = true;
    for (int i = 0; i < (int)(sizeof reuses / sizeof *reuses); i++)
        expect(reuse, &reuses[i], i, reuses[i].outcome);
}

/* Otherwise late streams would not be what detects the error. */
TEST_CASE(streams_that_run_at_once_hide_it)
{
    late = false;
    for (int i = 0; i < (int)(sizeof reuses / sizeof *reuses); i++)
        if (reuses[i].plant != NOTHING) expect(reuse, &reuses[i], i, RIGHT);
}

/* ---- trimming ---- */

static const struct run trims[] = {
    {ALLOCATOR_POOL, NOTHING, 0, 0, RIGHT, false},
    {ALLOCATOR_POOL, NOTHING, 1, 0, RIGHT, false},
    {ALLOCATOR_CACHING, NOTHING, 0, 0, RIGHT, false},
    {ALLOCATOR_CACHING, NOTHING, 1, 0, RIGHT, false},
    {ALLOCATOR_CACHING, FREE_IN_A_HURRY, 0, 0, RIGHT, false}, /* it has waited itself */
    {ALLOCATOR_CACHING, FREE_IN_A_HURRY, 1, 0, RIGHT, false},
    {ALLOCATOR_CACHING, TRIM_IN_A_HURRY, 0, 0, FOUND, false},
    {ALLOCATOR_CACHING, TRIM_IN_A_HURRY, 1, 0, FOUND, false},
};

static void trim(int i)
{
    struct lab lab;
    struct allocator_usage sum;
    lab_open(&lab, trims[i].kind, trims[i].plant, late);
    use_and_free(&lab, N * sizeof(float), trims[i].reader);
    if (allocator_trim(lab.allocator) == 0) _exit(1);
    allocator_sum(lab.allocator, &sum);
    if (sum.reserved != 0) _exit(1);
    judge(&lab, NULL);
}

TEST_CASE(a_trim_waits_for_what_is_queued)
{
    late = true;
    for (int i = 0; i < (int)(sizeof trims / sizeof *trims); i++)
        expect(trim, &trims[i], i, trims[i].outcome);
}

/* ---- a device full of memory that is freed but still in use ---- */

static const struct run refills[] = {
    {ALLOCATOR_BASIC, NOTHING, 1, 2, RIGHT, false},
    {ALLOCATOR_POOL, NOTHING, 0, 2, RIGHT, false},
    {ALLOCATOR_POOL, NOTHING, 1, 2, RIGHT, false},
    {ALLOCATOR_POOL, TRIM_MISSING, 1, 2, REFUSED, false},
    {ALLOCATOR_ARENA, NOTHING, 0, 2, RIGHT, true},
    {ALLOCATOR_CACHING, NOTHING, 0, 2, RIGHT, false},
    {ALLOCATOR_CACHING, NOTHING, 1, 2, RIGHT, false},
    {ALLOCATOR_CACHING, FREE_IN_A_HURRY, 1, 2, RIGHT, false},
    {ALLOCATOR_CACHING, TRIM_IN_A_HURRY, 1, 2, WRONG, false},
};

static void refill(int i)
{
    struct lab lab;
    const struct run *run = &refills[i];
    if (run->kind == ALLOCATOR_ARENA) run_reuse(run, LARGE_MIB * MIB);
    lab_open(&lab, run->kind, run->plant, late);
    use_and_free(&lab, LARGE_MIB * MIB, run->reader);
    judge(&lab, take_and_write(&lab, LARGE_MIB * MIB, run->taker));
}

TEST_CASE(a_full_device_is_asked_again_when_work_has_ended)
{
    late = true;
    for (int i = 0; i < (int)(sizeof refills / sizeof *refills); i++)
        expect(refill, &refills[i], i, refills[i].outcome);
}

TEST_MAIN()
