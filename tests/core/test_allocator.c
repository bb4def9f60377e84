/* The allocator: a million random operations against a model of what is live, every strategy's promises, and
 * every misuse's sentence. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/allocator.h"
#include "core/base/philox.h"

enum { MIB = 1 << 20, OPERATIONS = 1000000 };

/* ---- a device of limited memory: the CPU's, counted ---- */

static struct {
    size_t limit, used, peak;
    int calls; /* of mem_alloc and pool_alloc */
} ration;
static pthread_mutex_t ration_lock = PTHREAD_MUTEX_INITIALIZER;
static const struct backend *cpu; /* asking which processor this is takes long in a virtual machine */

struct rationed {
    size_t bytes;
    char padding[256 - sizeof(size_t)];
};

static enum status rationed_alloc(struct device *device, size_t bytes, void **out, struct err *err)
{
    void *memory;
    pthread_mutex_lock(&ration_lock);
    ration.calls++;
    bool enough = bytes <= ration.limit && ration.used <= ration.limit - bytes;
    if (enough) ration.used += bytes;
    if (ration.used > ration.peak) ration.peak = ration.used;
    pthread_mutex_unlock(&ration_lock);
    if (!enough) return err_set(err, STATUS_NO_MEMORY, "the device is full");
    enum status status = cpu->mem_alloc(device, bytes + sizeof(struct rationed), &memory, err);
    assert_int_equal(status, STATUS_OK);
    ((struct rationed *)memory)->bytes = bytes;
    *out = (struct rationed *)memory + 1;
    return STATUS_OK;
}

static void rationed_free(struct device *device, void *memory)
{
    struct rationed *header = (struct rationed *)memory - 1;
    pthread_mutex_lock(&ration_lock);
    ration.used -= header->bytes;
    pthread_mutex_unlock(&ration_lock);
    cpu->mem_free(device, header);
}

struct fixture {
    struct backend backend;
    struct device *device;
    struct stream *streams[2];
    struct allocator *allocator;
};

static void fixture_open(struct fixture *f, enum allocator_kind kind, size_t limit, FILE *report)
{
    struct err err = {0};
    if (!cpu) cpu = cpu_backend();
    f->backend = *cpu;
    f->backend.mem_alloc = rationed_alloc;
    f->backend.mem_free = rationed_free;
    memset(&ration, 0, sizeof ration);
    ration.limit = limit;
    assert_int_equal(f->backend.device_open(1, &f->device, &err), STATUS_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(f->backend.stream_open(f->device, PRECISION_FP32, &f->streams[i], &err), STATUS_OK);
    struct allocator_options options = {kind, &f->backend, f->device, limit, report};
    assert_int_equal(allocator_open(&options, &f->allocator, &err), STATUS_OK);
}

/* Closes; returns the leaks. The device has everything back. */
static int64_t fixture_close(struct fixture *f)
{
    int64_t leaks = allocator_close(f->allocator);
    assert_int_equal(ration.used, 0);
    for (int i = 0; i < 2; i++) f->backend.stream_close(f->streams[i]);
    f->backend.device_close(f->device);
    return leaks;
}

/* What the report says is yours to free. */
struct report {
    char *text;
    size_t size;
    FILE *file;
};

static void report_open(struct report *r)
{
    r->file = open_memstream(&r->text, &r->size);
    assert_non_null(r->file);
}

static void report_has(struct report *r, const char *words)
{
    fflush(r->file);
    if (!strstr(r->text, words)) fail_msg("the report lacks \"%s\":\n%s", words, r->text);
}

static void report_close(struct report *r)
{
    fclose(r->file);
    free(r->text);
}

/* ---- a million operations ---- */

struct piece {
    unsigned char *memory;
    size_t bytes;
    unsigned char mark;
    int tag, stream;
};

enum { PIECES = 400, TAGS = 5 };
static const char *const tag_names[TAGS] = {"weights", "workspace", "batch", "scratch", "samples"};

/* Sizes as training asks for them: many small ones, some of megabytes. */
static size_t random_bytes(const struct philox_block *r)
{
    unsigned power = r->word[1] % 22;
    return (((size_t)1 << power) + r->word[2] % ((1u << power) + 1)) / (r->word[3] % 7 == 0 ? 1 : 2);
}

static void mark(const struct piece *p)
{
    memset(p->memory, p->mark, p->bytes < 64 ? p->bytes : 64);
    if (p->bytes > 64) memset(p->memory + p->bytes - 64, p->mark, 64);
}

/* A neighbour that overlaps would have written its own mark here. */
static void check_mark(const struct piece *p)
{
    size_t edge = p->bytes < 64 ? p->bytes : 64;
    for (size_t i = 0; i < edge; i++) {
        assert_int_equal(p->memory[i], p->mark);
        assert_int_equal(p->memory[p->bytes - 1 - i], p->mark);
    }
}

static void random_operations(struct fixture *f, int operations, uint32_t seed,
                              const struct allocator_scope *own, bool alone)
{
    static __thread struct piece pieces[PIECES];
    struct allocator_scope *scope = (struct allocator_scope *)own;
    struct allocator_usage usage[TAGS + 1];
    int64_t live[TAGS] = {0}, sum = 0;
    struct err err = {0};
    int refused = 0;
    memset(pieces, 0, sizeof pieces);
    for (int i = 0; i < operations; i++) {
        struct philox_block r = philox4x32_10((uint32_t)i, seed, 0, 0, 0x616C6C6Fu, 0);
        struct piece *p = &pieces[r.word[0] % PIECES];
        if (p->memory) {
            check_mark(p);
            struct stream *stream = f->streams[r.word[3] >> 8 & 1]; /* its own or the other */
            assert_int_equal(allocator_free(f->allocator, p->memory, stream, &err), STATUS_OK);
            live[p->tag] -= (int64_t)p->bytes;
            sum -= (int64_t)p->bytes;
            p->memory = NULL;
            continue;
        }
        void *memory = NULL;
        p->bytes = random_bytes(&r);
        p->tag = (int)(r.word[0] / PIECES % TAGS);
        p->stream = r.word[3] >> 9 & 1;
        p->mark = (unsigned char)(r.word[2] >> 5);
        enum status status =
            allocator_alloc(scope, tag_names[p->tag], p->bytes, f->streams[p->stream], &memory, &err);
        if (status == STATUS_NO_MEMORY) {
            refused++;
            continue;
        }
        assert_int_equal(status, STATUS_OK);
        assert_int_equal((uintptr_t)memory % 256, 0);
        p->memory = memory;
        live[p->tag] += (int64_t)p->bytes;
        sum += (int64_t)p->bytes;
        mark(p);
        if (!alone || i % 997) continue;
        allocator_sum(f->allocator, &usage[TAGS]);
        assert_int_equal(usage[TAGS].live, sum);
        int count = allocator_tags(f->allocator, usage, TAGS);
        for (int t = 0; t < count; t++)
            for (int k = 0; k < TAGS; k++)
                if (strcmp(usage[t].tag, tag_names[k]) == 0) assert_int_equal(usage[t].live, live[k]);
    }
    for (int i = 0; i < PIECES; i++)
        if (pieces[i].memory) check_mark(&pieces[i]);
    assert_true(refused < operations / 4);
    allocator_scope_end(scope);
}

static void a_million_operations(enum allocator_kind kind, size_t limit)
{
    struct fixture f;
    struct allocator_scope scope;
    struct allocator_usage sum;
    fixture_open(&f, kind, limit, NULL);
    allocator_scope_begin(&scope, f.allocator);
    random_operations(&f, OPERATIONS, (uint32_t)kind, &scope, true);
    allocator_sum(f.allocator, &sum);
    assert_int_equal(sum.live, 0);
    assert_int_equal(sum.count, 0);
    assert_int_equal(fixture_close(&f), 0);
}

static void a_million_operations_of_basic(void **state)
{
    (void)state;
    a_million_operations(ALLOCATOR_BASIC, (size_t)1 << 30);
}

static void a_million_operations_of_pool(void **state)
{
    (void)state;
    a_million_operations(ALLOCATOR_POOL, (size_t)1 << 30);
}

static void a_million_operations_of_caching(void **state)
{
    (void)state;
    a_million_operations(ALLOCATOR_CACHING, (size_t)1 << 30);
}

/* An arena hardly ever falls empty under such a load, so most of it is refused: only what was said is
 * checked. */
static void a_million_operations_of_arena(void **state)
{
    struct fixture f;
    struct err err = {0};
    (void)state;
    fixture_open(&f, ALLOCATOR_ARENA, 64 * MIB, NULL);
    for (int round = 0; round < OPERATIONS / 100; round++) {
        struct allocator_scope scope;
        struct piece pieces[50];
        int count = 0;
        allocator_scope_begin(&scope, f.allocator);
        for (; count < 50; count++) {
            struct philox_block r = philox4x32_10((uint32_t)round, (uint32_t)count, 0, 0, 7, 0);
            void *memory = NULL;
            pieces[count] = (struct piece){.bytes = random_bytes(&r), .mark = (unsigned char)count};
            if (allocator_alloc(&scope, "round", pieces[count].bytes, NULL, &memory, &err)) break;
            pieces[count].memory = memory;
            mark(&pieces[count]);
        }
        assert_true(count > 10);
        for (int i = 0; i < count; i++) check_mark(&pieces[i]);
        allocator_scope_end(&scope);
    }
    assert_int_equal(ration.calls, 1);
    assert_int_equal(fixture_close(&f), 0);
}

/* ---- several threads ---- */

struct worker {
    struct fixture *f;
    uint32_t seed;
};

static void *work(void *argument)
{
    struct worker *w = argument;
    struct allocator_scope scope;
    allocator_scope_begin(&scope, w->f->allocator);
    random_operations(w->f, OPERATIONS / 10, w->seed, &scope, false);
    return NULL;
}

static void threads_share_an_allocator(void **state)
{
    static const enum allocator_kind kinds[] = {ALLOCATOR_BASIC, ALLOCATOR_POOL, ALLOCATOR_CACHING};
    (void)state;
    for (int k = 0; k < 3; k++) {
        struct fixture f;
        struct allocator_usage sum;
        pthread_t threads[4];
        struct worker workers[4];
        fixture_open(&f, kinds[k], (size_t)4 << 30, NULL);
        for (uint32_t i = 0; i < 4; i++) {
            workers[i] = (struct worker){&f, 100 + i};
            assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
        }
        for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
        allocator_sum(f.allocator, &sum);
        assert_int_equal(sum.live, 0);
        assert_int_equal(fixture_close(&f), 0);
    }
}

/* ---- caching ---- */

/* Fragmentation: what lies idle in segments beside what is live. TLSF's classes are an eighth apart, so a fit
 * wastes at most that; splitting strands pieces between live ones; and each of the four lanes (two streams,
 * small and large) has a segment that is not full. Measured: 136 MiB for 53 at the peak. The bound is one and
 * a half times the peak and a segment of 32 MiB a lane. */
static void caching_wastes_little(void **state)
{
    struct fixture f;
    struct allocator_scope scope;
    struct allocator_usage sum;
    (void)state;
    fixture_open(&f, ALLOCATOR_CACHING, (size_t)8 << 30, NULL);
    allocator_scope_begin(&scope, f.allocator);
    random_operations(&f, OPERATIONS / 4, 42, &scope, true);
    allocator_sum(f.allocator, &sum);
    assert_true((double)sum.peak_reserved < 1.5 * (double)sum.peak + 4.0 * 32 * MIB);
    assert_int_equal(fixture_close(&f), 0);
}

/* Freed neighbours become one piece again: after everything is freed a trim gives back all of it. */
static void caching_merges_what_is_freed(void **state)
{
    struct fixture f;
    struct allocator_usage sum;
    struct err err = {0};
    void *pieces[64];
    (void)state;
    fixture_open(&f, ALLOCATOR_CACHING, (size_t)1 << 30, NULL);
    for (int i = 0; i < 64; i++)
        assert_int_equal(
            allocator_alloc(allocator_root(f.allocator), "piece", 60000, f.streams[0], &pieces[i], &err),
            STATUS_OK);
    allocator_sum(f.allocator, &sum);
    int64_t reserved = sum.reserved;
    assert_int_equal(reserved, 4 * MIB); /* one segment, split */
    for (int odd = 0; odd < 2; odd++)
        for (int i = odd; i < 64; i += 2)
            assert_int_equal(allocator_free(f.allocator, pieces[i], f.streams[0], &err), STATUS_OK);
    assert_int_equal(
        allocator_alloc(allocator_root(f.allocator), "all", 64 * 60000, f.streams[0], &pieces[0], &err),
        STATUS_OK); /* large: its own lane */
    assert_int_equal(allocator_trim(f.allocator), reserved);
    assert_int_equal(allocator_free(f.allocator, pieces[0], NULL, &err), STATUS_OK);
    assert_int_equal(fixture_close(&f), 0);
}

static void caching_asks_the_device_once(void **state)
{
    struct fixture f;
    struct err err = {0};
    void *memory;
    (void)state;
    fixture_open(&f, ALLOCATOR_CACHING, (size_t)1 << 30, NULL);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(
            allocator_alloc(allocator_root(f.allocator), "again", 20 * MIB, f.streams[0], &memory, &err),
            STATUS_OK);
        assert_int_equal(allocator_free(f.allocator, memory, f.streams[0], &err), STATUS_OK);
    }
    assert_int_equal(ration.calls, 1);
    assert_int_equal(fixture_close(&f), 0);
}

/* 60 MiB are idle in the cache of one stream when the other asks for as much of 100. */
static void caching_trims_when_the_device_is_full(void **state)
{
    struct fixture f;
    struct err err = {0};
    void *memory;
    (void)state;
    fixture_open(&f, ALLOCATOR_CACHING, 100 * MIB, NULL);
    struct allocator_scope *root = allocator_root(f.allocator);
    assert_int_equal(allocator_alloc(root, "first", 60 * MIB, f.streams[0], &memory, &err), STATUS_OK);
    assert_int_equal(allocator_free(f.allocator, memory, f.streams[0], &err), STATUS_OK);
    assert_int_equal(allocator_alloc(root, "second", 60 * MIB, f.streams[1], &memory, &err), STATUS_OK);
    assert_true(ration.peak <= 100 * MIB);
    assert_int_equal(allocator_free(f.allocator, memory, f.streams[1], &err), STATUS_OK);
    assert_int_equal(fixture_close(&f), 0);
}

/* Memory of one stream is not handed to another, which would not wait for it. */
static void streams_do_not_share_memory(void **state)
{
    struct fixture f;
    struct err err = {0};
    void *first, *second;
    (void)state;
    fixture_open(&f, ALLOCATOR_CACHING, (size_t)1 << 30, NULL);
    struct allocator_scope *root = allocator_root(f.allocator);
    assert_int_equal(allocator_alloc(root, "a", 4096, f.streams[0], &first, &err), STATUS_OK);
    assert_int_equal(allocator_free(f.allocator, first, f.streams[0], &err), STATUS_OK);
    assert_int_equal(allocator_alloc(root, "b", 4096, f.streams[1], &second, &err), STATUS_OK);
    assert_ptr_not_equal(first, second);
    assert_int_equal(allocator_stream_closes(f.allocator, f.streams[1], &err), STATUS_FAILED);
    assert_string_equal(err.text, "b: its stream closes while it is in use");
    assert_int_equal(allocator_free(f.allocator, second, f.streams[1], &err), STATUS_OK);
    size_t before = ration.used;
    assert_int_equal(allocator_stream_closes(f.allocator, f.streams[1], &err), STATUS_OK);
    assert_true(ration.used < before);
    assert_int_equal(fixture_close(&f), 0);
}

static int waits;
static struct stream *waiting;

static void counted_stream_after(struct stream *stream, struct event *event)
{
    waits++;
    waiting = stream;
    cpu->stream_after(stream, event);
}

static void memory_used_elsewhere_waits_for_that_stream(void **state)
{
    struct fixture f;
    struct err err = {0};
    void *memory;
    (void)state;
    fixture_open(&f, ALLOCATOR_CACHING, (size_t)1 << 30, NULL);
    f.backend.stream_after = counted_stream_after;
    waits = 0;
    struct allocator_scope *root = allocator_root(f.allocator);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(allocator_alloc(root, "a", 4096, f.streams[0], &memory, &err), STATUS_OK);
        assert_int_equal(allocator_free(f.allocator, memory, f.streams[i], &err), STATUS_OK);
        assert_int_equal(waits, i);
    }
    assert_ptr_equal(waiting, f.streams[0]);
    assert_int_equal(fixture_close(&f), 0);
}

/* ---- scopes, errors, leaks ---- */

static void a_scope_frees_what_it_holds(void **state)
{
    (void)state;
    for (int kind = 0; kind < ALLOCATOR_KINDS; kind++) {
        struct fixture f;
        struct allocator_scope outer, inner;
        struct allocator_usage sum;
        struct err err = {0};
        float *numbers;
        void *host, *elements;
        fixture_open(&f, (enum allocator_kind)kind, 64 * MIB, NULL);
        allocator_scope_begin(&outer, f.allocator);
        assert_int_equal(allocator_alloc_f32(&outer, "numbers", 1000, f.streams[0], &numbers, &err),
                         STATUS_OK);
        allocator_scope_begin(&inner, f.allocator);
        assert_int_equal(allocator_alloc_host(&inner, "staging", 5000, &host, &err), STATUS_OK);
        assert_int_equal(allocator_alloc(&inner, "half", 62, f.streams[0], &elements, &err), STATUS_OK);
        numbers[999] = 1;
        memset(host, 1, 5000);
        memset(elements, 1, 62);
        allocator_sum(f.allocator, &sum);
        assert_int_equal(sum.live, 4000 + 5000 + 62);
        allocator_scope_end(&inner);
        allocator_scope_end(&inner);
        allocator_sum(f.allocator, &sum);
        assert_int_equal(sum.live, 4000);
        assert_int_equal(sum.peak, 4000 + 5000 + 62);
        assert_int_equal(allocator_free(f.allocator, numbers, f.streams[0], &err), STATUS_OK);
        allocator_scope_end(&outer);
        allocator_sum(f.allocator, &sum);
        assert_int_equal(sum.live, 0);
        assert_int_equal(fixture_close(&f), 0);
    }
}

static void misuse_is_told_with_its_tag(void **state)
{
    (void)state;
    for (int kind = 0; kind < ALLOCATOR_KINDS; kind++) {
        struct fixture f;
        struct report report;
        struct err err = {0};
        void *memory;
        float *numbers;
        int outside;
        report_open(&report);
        fixture_open(&f, (enum allocator_kind)kind, 64 * MIB, report.file);
        struct allocator_scope *root = allocator_root(f.allocator);
        assert_int_equal(allocator_alloc(root, "moments", 1000, f.streams[0], &memory, &err), STATUS_OK);
        assert_int_equal(allocator_free(f.allocator, memory, f.streams[0], &err), STATUS_OK);
        assert_int_equal(allocator_free(f.allocator, memory, f.streams[0], &err), STATUS_FAILED);
        assert_string_equal(err.text, "moments: its memory was freed twice");
        report_has(&report, "moments");
        assert_int_equal(allocator_free(f.allocator, &outside, NULL, &err), STATUS_FAILED);
        assert_string_equal(err.text, "memory was freed that this allocator never gave");
        assert_int_equal(allocator_free(f.allocator, NULL, NULL, &err), STATUS_OK);
        assert_int_equal(allocator_alloc_f32(root, "logits", SIZE_MAX / 2, NULL, &numbers, &err),
                         STATUS_NO_MEMORY);
        assert_non_null(strstr(err.text, "logits: a size of"));
        assert_int_equal(allocator_alloc(root, "logits", SIZE_MAX - 100, NULL, &memory, &err),
                         STATUS_NO_MEMORY);
        assert_non_null(strstr(err.text, "overflows"));
        fixture_close(&f);
        report_close(&report);
    }
}

static void a_full_device_names_the_tag_and_who_holds_what(void **state)
{
    static const enum allocator_kind kinds[] = {ALLOCATOR_BASIC, ALLOCATOR_ARENA, ALLOCATOR_CACHING};
    (void)state;
    for (int k = 0; k < 3; k++) {
        struct fixture f;
        struct report report;
        struct err err = {0};
        void *memory;
        report_open(&report);
        fixture_open(&f, kinds[k], 64 * MIB, report.file);
        struct allocator_scope *root = allocator_root(f.allocator);
        assert_int_equal(allocator_alloc(root, "weights", 40 * MIB, f.streams[0], &memory, &err), STATUS_OK);
        assert_int_equal(allocator_alloc(root, "logits", 30 * MIB, f.streams[0], &memory, &err),
                         STATUS_NO_MEMORY);
        assert_non_null(strstr(err.text, "logits: no room for 30.0 MiB beside weights 40.0 MiB ("));
        assert_int_equal(fixture_close(&f), 1);
        report_has(&report, "never freed: weights, 1 block of 40.0 MiB together");
        report_close(&report);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_million_operations_of_basic),
        cmocka_unit_test(a_million_operations_of_pool),
        cmocka_unit_test(a_million_operations_of_caching),
        cmocka_unit_test(a_million_operations_of_arena),
        cmocka_unit_test(threads_share_an_allocator),
        cmocka_unit_test(caching_wastes_little),
        cmocka_unit_test(caching_merges_what_is_freed),
        cmocka_unit_test(caching_asks_the_device_once),
        cmocka_unit_test(caching_trims_when_the_device_is_full),
        cmocka_unit_test(streams_do_not_share_memory),
        cmocka_unit_test(memory_used_elsewhere_waits_for_that_stream),
        cmocka_unit_test(a_scope_frees_what_it_holds),
        cmocka_unit_test(misuse_is_told_with_its_tag),
        cmocka_unit_test(a_full_device_names_the_tag_and_who_holds_what),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
