/* The caching strategy of allocator.h: a two-level segregated fit (Masmano et al., "TLSF: a new dynamic
 * memory allocator for real-time systems", 2004) over segments that the device gave, with its bookkeeping on
 * the host, since device memory cannot hold headers.
 *
 * A lane is a stream's share: memory freed in it is handed out again in it only, so the order of the stream
 * protects it. Memory that was used last on another stream makes its own stream wait for that one first.
 * Small requests have segments of their own, so that none keeps a large one from being given back. Taking and
 * giving are a fixed number of steps, whatever is free. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory/allocator_strategy.h"

#define MIB ((size_t)1 << 20)

enum {
    SPLITS = 8, /* classes between two powers of two */
    SPLIT_BITS = 3,
    CLASSES = (48 - 8 + 1) * SPLITS, /* of sizes from 256 bytes to 2^48 */
    WORDS = (CLASSES + 63) / 64,
    NEAR = 16,   /* pieces to look at in a class that may hold too small ones */
    PIECES = 256 /* of bookkeeping, made at a time */
};

struct piece {
    struct segment *segment;
    size_t offset, bytes;
    struct piece *before, *after;  /* neighbours in the segment */
    struct piece *previous, *next; /* in its class, while free; next: of unused bookkeeping */
    bool free;
};

struct segment {
    struct lane *lane;
    unsigned char *memory;
    size_t bytes;
    struct piece *first;
    struct segment *previous, *next; /* in the lane */
};

struct lane {
    struct stream *stream;
    bool small;
    struct segment *segments;
    uint64_t occupied[WORDS]; /* a bit a class that has a free piece */
    struct piece *classes[CLASSES];
    struct lane *next;
};

struct pieces {
    struct pieces *next;
    struct piece piece[PIECES];
};

struct cache {
    const struct backend *backend;
    struct device *device;
    struct event *event; /* for a stream to wait for another */
    struct lane *lanes;
    struct pieces *books;
    struct piece *unused;
    size_t reserved;
};

/* ---- classes ---- */

/* The class of pieces of this size: eight to a power of two, the first ones 256 bytes apart. */
static int class_of(size_t bytes)
{
    size_t units = bytes / ALLOCATOR_ALIGN;
    if (units < SPLITS) return (int)units;
    int power = 63 - __builtin_clzll((unsigned long long)units);
    int split = (int)(units >> (power - SPLIT_BITS)) & (SPLITS - 1);
    return (power - SPLIT_BITS + 1) * SPLITS + split;
}

/* The first class all of whose pieces are large enough. */
static int class_that_fits(size_t bytes)
{
    size_t units = bytes / ALLOCATOR_ALIGN;
    if (units < SPLITS) return (int)units;
    int power = 63 - __builtin_clzll((unsigned long long)units);
    return class_of((units + ((size_t)1 << (power - SPLIT_BITS)) - 1) * ALLOCATOR_ALIGN);
}

static void list_free(struct lane *lane, struct piece *piece)
{
    int class = class_of(piece->bytes);
    piece->free = true;
    piece->previous = NULL;
    piece->next = lane->classes[class];
    if (piece->next) piece->next->previous = piece;
    lane->classes[class] = piece;
    lane->occupied[class / 64] |= (uint64_t)1 << class % 64;
}

static void unlist(struct lane *lane, struct piece *piece)
{
    int class = class_of(piece->bytes);
    if (piece->previous)
        piece->previous->next = piece->next;
    else
        lane->classes[class] = piece->next;
    if (piece->next) piece->next->previous = piece->previous;
    if (!lane->classes[class]) lane->occupied[class / 64] &= ~((uint64_t)1 << class % 64);
    piece->free = false;
}

/* A free piece of at least this size, or NULL. */
static struct piece *find(const struct lane *lane, size_t bytes)
{
    int class = class_that_fits(bytes);
    for (int word = class / 64; word < WORDS; word++) {
        uint64_t bits = lane->occupied[word];
        if (word == class / 64) bits &= ~(uint64_t)0 << class % 64;
        if (bits) return lane->classes[word * 64 + __builtin_ctzll((unsigned long long)bits)];
    }
    /* pieces of just this size lie in a class that also holds smaller ones: look at a few */
    struct piece *near = lane->classes[class_of(bytes)];
    for (int i = 0; near && near->bytes < bytes; i++) near = i < NEAR ? near->next : NULL;
    return near;
}

/* ---- bookkeeping ---- */

static struct piece *piece_new(struct cache *c)
{
    if (!c->unused) {
        struct pieces *book = malloc(sizeof *book);
        if (!book) return NULL;
        book->next = c->books;
        c->books = book;
        for (int i = 0; i < PIECES; i++) {
            book->piece[i].next = c->unused;
            c->unused = &book->piece[i];
        }
    }
    struct piece *piece = c->unused;
    c->unused = piece->next;
    *piece = (struct piece){0};
    return piece;
}

static void piece_drop(struct cache *c, struct piece *piece)
{
    piece->next = c->unused;
    c->unused = piece;
}

static struct lane *lane_of(struct cache *c, struct stream *stream, bool small)
{
    struct lane *lane = c->lanes;
    while (lane && (lane->stream != stream || lane->small != small)) lane = lane->next;
    if (lane) return lane;
    lane = calloc(1, sizeof *lane);
    if (!lane) return NULL;
    lane->stream = stream;
    lane->small = small;
    lane->next = c->lanes;
    return c->lanes = lane;
}

/* ---- segments ---- */

static void segment_release(struct cache *c, struct segment *s)
{
    if (s->previous)
        s->previous->next = s->next;
    else
        s->lane->segments = s->next;
    if (s->next) s->next->previous = s->previous;
    c->backend->mem_free(c->device, s->memory);
    c->reserved -= s->bytes;
    free(s);
}

/* Gives back the segments of a lane that are free as a whole. */
static size_t trim_lane(struct cache *c, struct lane *lane)
{
    size_t bytes = 0;
    for (struct segment *s = lane->segments, *next; s; s = next) {
        struct piece *all = s->first;
        next = s->next;
        if (!all->free || all->after) continue;
        if (lane->stream && bytes == 0) c->backend->stream_wait(lane->stream, NULL);
        bytes += s->bytes;
        unlist(lane, all);
        piece_drop(c, all);
        segment_release(c, s);
    }
    return bytes;
}

static size_t cache_trim(void *state)
{
    struct cache *c = state;
    size_t bytes = 0;
    for (struct lane *lane = c->lanes; lane; lane = lane->next) bytes += trim_lane(c, lane);
    return bytes;
}

/* How much to ask of the device for a request: small ones share 4 MiB, medium ones 32 MiB, large ones have
 * their own, rounded to 2 MiB, the device's own granularity. */
static size_t segment_bytes(size_t bytes)
{
    if (bytes <= MIB) return 4 * MIB;
    if (bytes <= 8 * MIB) return 32 * MIB;
    return (bytes + 2 * MIB - 1) & ~(2 * MIB - 1);
}

/* A new segment, free as a whole; what it asks for shrinks to the request when the device is full. */
static enum status segment_new(struct cache *c, struct lane *lane, size_t bytes, struct err *err)
{
    size_t size = segment_bytes(bytes);
    void *memory = NULL;
    struct segment *s = malloc(sizeof *s);
    struct piece *all = piece_new(c);
    if (!s || !all) {
        free(s);
        if (all) piece_drop(c, all);
        return err_set(err, STATUS_NO_MEMORY, "no host memory for the allocator's books");
    }
    enum status status = c->backend->mem_alloc(c->device, size, &memory, err);
    if (status == STATUS_NO_MEMORY) {
        cache_trim(c);
        status = c->backend->mem_alloc(c->device, size, &memory, err);
        if (status == STATUS_NO_MEMORY && size > bytes)
            status = c->backend->mem_alloc(c->device, size = bytes, &memory, err);
    }
    if (status) {
        free(s);
        piece_drop(c, all);
        return status;
    }
    *s = (struct segment){lane, memory, size, all, NULL, lane->segments};
    if (s->next) s->next->previous = s;
    lane->segments = s;
    c->reserved += size;
    *all = (struct piece){.segment = s, .bytes = size};
    list_free(lane, all);
    return STATUS_OK;
}

/* ---- the strategy ---- */

static enum status cache_open(const struct allocator_options *options, void **state, struct err *err)
{
    struct cache *c = calloc(1, sizeof *c);
    if (!c) return err_set(err, STATUS_NO_MEMORY, "no memory for an allocator");
    c->backend = options->backend;
    c->device = options->device;
    enum status status = c->backend->event_open(c->device, &c->event, err);
    if (status) {
        free(c);
        return status;
    }
    *state = c;
    return STATUS_OK;
}

static enum status cache_take(void *state, size_t bytes, struct stream *stream, struct allocator_block *out,
                              struct err *err)
{
    struct cache *c = state;
    struct lane *lane = lane_of(c, stream, bytes <= MIB);
    struct piece *piece = lane ? find(lane, bytes) : NULL;
    enum status status = STATUS_OK;
    if (!lane) return err_set(err, STATUS_NO_MEMORY, "no host memory for the allocator's books");
    if (!piece) {
        status = segment_new(c, lane, bytes, err);
        if (status) return status;
        piece = find(lane, bytes);
    }
    unlist(lane, piece);
    struct piece *rest = piece->bytes > bytes ? piece_new(c) : NULL;
    if (rest) { /* without memory for it the rest stays with the piece */
        *rest = (struct piece){.segment = piece->segment,
                               .offset = piece->offset + bytes,
                               .bytes = piece->bytes - bytes,
                               .before = piece,
                               .after = piece->after};
        if (rest->after) rest->after->before = rest;
        piece->after = rest;
        piece->bytes = bytes;
        list_free(lane, rest);
    }
    *out = (struct allocator_block){piece->segment->memory + piece->offset, bytes, piece, stream};
    return STATUS_OK;
}

/* `left` takes in its neighbour; neither is listed. */
static void merge(struct cache *c, struct piece *left, struct piece *right)
{
    left->bytes += right->bytes;
    left->after = right->after;
    if (left->after) left->after->before = left;
    piece_drop(c, right);
}

static void cache_give(void *state, const struct allocator_block *block, struct stream *last_used_on)
{
    struct cache *c = state;
    struct piece *piece = block->handle;
    struct lane *lane = piece->segment->lane;
    if (last_used_on && lane->stream && last_used_on != lane->stream) {
        c->backend->event_record(c->event, last_used_on);
        c->backend->stream_after(lane->stream, c->event);
    } else if (last_used_on && !lane->stream) {
        c->backend->stream_wait(last_used_on, NULL);
    }
    if (piece->after && piece->after->free) {
        unlist(lane, piece->after);
        merge(c, piece, piece->after);
    }
    if (piece->before && piece->before->free) {
        piece = piece->before;
        unlist(lane, piece);
        merge(c, piece, piece->after);
    }
    list_free(lane, piece);
}

static size_t cache_reserved(const void *state)
{
    return ((const struct cache *)state)->reserved;
}

/* Nothing of the stream is live, so its lanes come free as a whole. */
static void cache_stream_closes(void *state, struct stream *stream)
{
    struct cache *c = state;
    for (struct lane **at = &c->lanes; *at;) {
        struct lane *lane = *at;
        if (lane->stream != stream) {
            at = &lane->next;
            continue;
        }
        trim_lane(c, lane);
        *at = lane->next;
        free(lane);
    }
}

static void cache_close(void *state)
{
    struct cache *c = state;
    for (struct lane *lane = c->lanes, *next; lane; lane = next) {
        next = lane->next;
        while (lane->segments) segment_release(c, lane->segments);
        free(lane);
    }
    for (struct pieces *book = c->books, *next; book; book = next) {
        next = book->next;
        free(book);
    }
    c->backend->event_close(c->event);
    free(c);
}

const struct allocator_strategy allocator_caching = {.open = cache_open,
                                                     .take = cache_take,
                                                     .give = cache_give,
                                                     .reserved = cache_reserved,
                                                     .trim = cache_trim,
                                                     .stream_closes = cache_stream_closes,
                                                     .close = cache_close};
