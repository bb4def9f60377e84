/* A million random operations on each of the allocator's strategies, against a model of what is live: nothing
 * overlaps, everything is aligned, every byte is counted, a request that fits is never refused, and the idle
 * memory that `caching` keeps is bounded. */
#include "core/base/philox.h"
#include "tests/cmocka.h"
#include "tests/core/memory/rationed.h"
#include "tests/long.h"

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

enum { PIECES = 400, TAGS = 5, CHECK_EVERY = 997, TRIM_EVERY = 4999 };

static int operations_each(void)
{
    return long_or(1000000, 200000);
}

static const char *const tag_names[TAGS] = {"weights", "workspace", "batch", "scratch", "samples"};

struct piece {
    struct allocator_scope scope; /* for this block alone, except in an arena */
    unsigned char *memory;        /* NULL: none */
    size_t bytes;
    unsigned char mark;
    int tag, stream; /* RATIONED_STREAMS: of none */
};

/* The values that the allocator should report. */
struct tally {
    int64_t live, peak, reserved, count;
};

struct model {
    struct rationed *r;
    bool trims;
    struct piece pieces[PIECES];
    struct tally tags[TAGS], streams[RATIONED_STREAMS + 1], sum;
    int64_t refused;
};

static size_t rounded(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* 1 byte to 256 MiB: as many of a power of two as of the next up to 1 MiB, and one in sixty-four above. */
static size_t random_bytes(const struct philox_block *r)
{
    unsigned power = r->word[1] % 64 == 0 ? 20 + (r->word[1] >> 6) % 8 : (r->word[1] >> 6) % 20;
    return ((size_t)1 << power) + (r->word[2] & ((1u << power) - 1));
}

static void count(struct tally *t, int64_t bytes, int64_t reserved)
{
    t->live += bytes;
    t->reserved += reserved;
    t->count += bytes > 0 ? 1 : -1;
    if (t->live > t->peak) t->peak = t->live;
}

static void check_tally(const struct tally *t, const struct allocator_usage *u)
{
    assert_int_equal(u->live, t->live);
    assert_int_equal(u->peak, t->peak);
    assert_int_equal(u->count, t->count);
}

/* Checks every tag's numbers, their sum, and the memory that the device has given. */
static void check_books(struct model *m)
{
    struct allocator_usage usage[TAGS + 1];
    struct ration now = rationed_now();
    int tags = allocator_tags(m->r->allocator, usage, TAGS);
    for (int t = 0; t < tags; t++) {
        int k = 0;
        while (strcmp(usage[t].tag, tag_names[k]) != 0) assert_true(++k < TAGS);
        check_tally(&m->tags[k], &usage[t]);
        assert_int_equal(usage[t].reserved, m->tags[k].reserved);
    }
    allocator_sum(m->r->allocator, &usage[TAGS]);
    check_tally(&m->sum, &usage[TAGS]);
    assert_int_equal(usage[TAGS].reserved, now.used);
    assert_true(m->sum.reserved <= (int64_t)now.used);
}

static void check_trim(struct model *m)
{
    size_t before = rationed_now().used, bytes = allocator_trim(m->r->allocator);
    assert_int_equal(before - rationed_now().used, bytes);
    assert_int_equal(allocator_trim(m->r->allocator), 0); /* it was all */
}

static void mark(const struct piece *p)
{
    memset(p->memory, p->mark, p->bytes < 64 ? p->bytes : 64);
    if (p->bytes > 64) memset(p->memory + p->bytes - 64, p->mark, 64);
}

/* If another block had the same memory, it would have written its own mark here. */
static void check_mark(const struct piece *p)
{
    size_t edge = p->bytes < 64 ? p->bytes : 64;
    for (size_t i = 0; i < edge; i++) {
        assert_int_equal(p->memory[i], p->mark);
        assert_int_equal(p->memory[p->bytes - 1 - i], p->mark);
    }
}

static void check_apart(const struct model *m, const struct piece *p)
{
    for (int i = 0; i < PIECES; i++) {
        const struct piece *q = &m->pieces[i];
        if (q == p || !q->memory || p->memory + p->bytes <= q->memory || q->memory + q->bytes <= p->memory)
            continue;
        fail_msg("%zu bytes at %p overlap %zu at %p", p->bytes, (void *)p->memory, q->bytes,
                 (void *)q->memory);
    }
}

static struct stream *stream_of(const struct model *m, int i)
{
    return i < RATIONED_STREAMS ? m->r->streams[i] : NULL;
}

static void count_piece(struct model *m, const struct piece *p, int sign)
{
    int64_t bytes = sign * (int64_t)p->bytes, reserved = sign * (int64_t)rounded(p->bytes);
    count(&m->tags[p->tag], bytes, reserved);
    count(&m->streams[p->stream], bytes, reserved);
    count(&m->sum, bytes, reserved);
}

static void free_piece(struct model *m, struct piece *p)
{
    check_mark(p);
    allocator_scope_end(&p->scope);
    count_piece(m, p, -1);
    p->memory = NULL;
}

static void take_piece(struct model *m, struct allocator_scope *scope, struct piece *p)
{
    struct err err = {0};
    void *memory = NULL;
    enum status status =
        allocator_alloc(scope, tag_names[p->tag], p->bytes, stream_of(m, p->stream), &memory, &err);
    if (status == STATUS_NO_MEMORY) {
        struct ration now = rationed_now(); /* refused by right: with all that is idle given back */
        assert_true(now.used + rounded(p->bytes) > now.limit);
        m->refused++;
        return;
    }
    assert_int_equal(status, STATUS_OK);
    assert_int_equal((uintptr_t)memory % 256, 0);
    p->memory = memory;
    count_piece(m, p, 1);
    check_apart(m, p);
    mark(p);
}

static void random_operations(struct model *m, int operations, uint32_t seed)
{
    for (int i = 0; i < operations; i++) {
        struct philox_block r = philox4x32_10((uint32_t)i, seed, 0, 0, 0x616C6C6Fu, 0);
        struct piece *p = &m->pieces[r.word[0] % PIECES];
        if (p->memory) {
            free_piece(m, p);
        } else {
            p->stream = (int)(r.word[3] % (RATIONED_STREAMS + 1));
            p->bytes = random_bytes(&r);
            p->tag = (int)(r.word[0] / PIECES % TAGS);
            p->mark = (unsigned char)(r.word[3] >> 8);
            allocator_scope_begin(&p->scope, m->r->allocator);
            take_piece(m, &p->scope, p);
        }
        if (i % CHECK_EVERY == 0) check_books(m);
        if (m->trims && i % TRIM_EVERY == 0) check_trim(m);
    }
    for (int i = 0; i < PIECES; i++)
        if (m->pieces[i].memory) free_piece(m, &m->pieces[i]);
}

/* On a device with room for all, and on one that is full most of the time. */
static void many_operations(enum allocator_kind kind)
{
    static const size_t limits[] = {64 * GIB, 64 * MIB};
    for (int full = 0; full < 2; full++) {
        static struct model m;
        struct rationed r;
        struct allocator_usage sum;
        rationed_open(&r, kind, limits[full], NULL);
        m = (struct model){.r = &r, .trims = true};
        random_operations(&m, operations_each() / 2, (uint32_t)kind);
        assert_true(full ? m.refused > operations_each() / 1000 : m.refused == 0);
        allocator_sum(r.allocator, &sum);
        assert_int_equal(sum.live, 0);
        assert_int_equal(sum.count, 0);
        assert_int_equal(rationed_close(&r), 0);
    }
}

TEST_CASE(many_operations_of_basic)
{
    many_operations(ALLOCATOR_BASIC);
}

TEST_CASE(many_operations_of_pool)
{
    many_operations(ALLOCATOR_POOL);
}

TEST_CASE(many_operations_of_caching)
{
    many_operations(ALLOCATOR_CACHING);
}

/* In rounds that a scope ends, as an arena is meant to be used, each until nothing more fits. */
TEST_CASE(many_operations_of_arena)
{
    static struct model m;
    struct rationed r;
    int64_t operations = 0, most = operations_each();
    rationed_open(&r, ALLOCATOR_ARENA, 64 * MIB, NULL);
    for (uint32_t round = 0; operations < most; round++) {
        struct allocator_scope scope;
        struct allocator_usage sum;
        size_t used = 0;
        allocator_scope_begin(&scope, r.allocator);
        m = (struct model){.r = &r};
        for (uint32_t i = 0; i < PIECES; i++) {
            struct philox_block random = philox4x32_10(round, i, 0, 0, 7, 0);
            struct piece *p = &m.pieces[i];
            *p = (struct piece){
                .bytes = random_bytes(&random), .mark = (unsigned char)i, .stream = RATIONED_STREAMS};
            take_piece(&m, &scope, p);
            used += p->memory ? rounded(p->bytes) : 0;
            /* without gaps: a request is refused only if the rest is too small */
            assert_true(p->memory || used + rounded(p->bytes) > 64 * MIB);
        }
        for (int i = 0; i < PIECES; i++)
            if (m.pieces[i].memory) check_mark(&m.pieces[i]);
        allocator_sum(r.allocator, &sum);
        assert_int_equal(sum.live, m.sum.live);
        operations += 2 * sum.count;
        allocator_scope_end(&scope);
    }
    assert_int_equal(rationed_now().calls, 1);
    assert_int_equal(rationed_close(&r), 0);
}

/* ---- fragmentation ---- */

/* Idle memory in segments. Memory of one stream is not used for another, so at least each stream's own peak
 * is held, and each stream has a segment of small pieces (4 MiB) and one of medium ones (32 MiB) that are not
 * full. Measured with these sizes, half of whose bytes are in pieces above 64 MiB: 2.0 times the streams'
 * peaks where nothing is ever given back, as small requests split what a large one left; 1.1 times where it
 * is trimmed now and then. A device that is full trims by itself. */
TEST_CASE(caching_wastes_little)
{
    for (int trims = 0; trims < 2; trims++) {
        static struct model m;
        struct rationed r;
        double peaks = 0, beside = (RATIONED_STREAMS + 1) * 36.0 * (double)MIB, most = trims ? 1.2 : 2.2;
        rationed_open(&r, ALLOCATOR_CACHING, 64 * GIB, NULL);
        m = (struct model){.r = &r, .trims = trims};
        random_operations(&m, operations_each() / 4, 42);
        for (int i = 0; i <= RATIONED_STREAMS; i++) peaks += (double)m.streams[i].peak;
        if ((double)rationed_now().peak > most * peaks + beside)
            fail_msg("%.0f MiB reserved, the streams' peaks are %.0f MiB",
                     (double)rationed_now().peak / (double)MIB, peaks / (double)MIB);
        assert_int_equal(rationed_close(&r), 0);
    }
}

TEST_MAIN()
