/* The strategies of allocator.h: basic, pool, arena and caching. */
#include <stdlib.h>

#include "core/base/text.h"
#include "core/memory/allocator_strategy.h"

#define MIB ((size_t)1 << 20)

static size_t round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static size_t nothing_to_trim(struct allocator_source *s)
{
    (void)s;
    return 0;
}

/* ---- basic: every request goes to the device ---- */

static enum status basic_take(struct allocator_source *s, size_t bytes, struct stream *stream,
                              struct allocator_block *out, struct err *err)
{
    enum status status = s->backend->mem_alloc(s->device, bytes, &out->memory, err);
    (void)stream;
    if (!status) s->reserved += bytes;
    return status;
}

/* mem_free waits for work that uses the memory. */
static void basic_give(struct allocator_source *s, const struct allocator_block *block)
{
    s->backend->mem_free(s->device, block->memory);
    s->reserved -= block->bytes;
}

/* ---- pool: the device's own, ordered by streams ---- */

static enum status pool_take(struct allocator_source *s, size_t bytes, struct stream *stream,
                             struct allocator_block *out, struct err *err)
{
    enum status status = s->backend->pool_alloc(s->device, bytes, stream, &out->memory, err);
    if (status == STATUS_NO_MEMORY) { /* memory may become free only once its stream gets there */
        s->backend->pool_trim(s->device);
        status = s->backend->pool_alloc(s->device, bytes, stream, &out->memory, err);
    }
    out->stream = stream;
    return status;
}

static void pool_give(struct allocator_source *s, const struct allocator_block *block)
{
    s->backend->pool_free(s->device, block->memory, block->bytes, block->stream);
}

static size_t pool_trim(struct allocator_source *s)
{
    size_t before = s->backend->pool_reserved(s->device);
    s->backend->pool_trim(s->device);
    return before - s->backend->pool_reserved(s->device);
}

/* ---- arena: one block; requests follow each other ---- */

static enum status arena_take(struct allocator_source *s, size_t bytes, struct stream *stream,
                              struct allocator_block *out, struct err *err)
{
    (void)stream;
    if (bytes > s->reserved - s->used)
        return err_set(err, STATUS_NO_MEMORY,
                       "the arena of %zu bytes has %zu left (memory.allocator = caching can grow)",
                       s->reserved, s->reserved - s->used);
    out->memory = s->arena + s->used;
    s->used += bytes;
    s->live += bytes;
    return STATUS_OK;
}

/* Frees the last block at once, others when all are freed: scopes that end in reverse leave no gaps. */
static void arena_give(struct allocator_source *s, const struct allocator_block *block)
{
    s->live -= block->bytes;
    if ((unsigned char *)block->memory + block->bytes == s->arena + s->used) s->used -= block->bytes;
    if (s->live == 0) s->used = 0;
}

/* ---- caching: device segments, split into pieces ---- */

/* A piece of a segment. The list is on the host, since device memory cannot hold headers. Memory freed by a
 * stream goes to that stream only, so that the order of the stream protects it. Small requests have their own
 * segments, so that they do not keep a large one from being freed. */
struct piece {
    unsigned char *memory;
    size_t bytes;
    bool free;
    struct piece *before, *after; /* neighbours in the segment */
    struct stream *stream;
    bool small;                 /* the segment is for small requests */
    struct piece *next_segment; /* set in the first piece of a segment */
};

/* The size of a new segment for a request: small requests share 4 MiB, medium ones 32 MiB, large ones get
 * their own, rounded to 2 MiB, the granularity of devices. */
static size_t segment_bytes(size_t bytes)
{
    if (bytes <= MIB) return 4 * MIB;
    if (bytes <= 8 * MIB) return 32 * MIB;
    return round_up(bytes, 2 * MIB);
}

/* The smallest free piece that is large enough, or NULL. */
static struct piece *find_piece(const struct allocator_source *s, size_t bytes, const struct stream *stream)
{
    struct piece *best = NULL;
    for (struct piece *first = s->segments; first; first = first->next_segment) {
        if (first->stream != stream || first->small != (bytes <= MIB)) continue;
        for (struct piece *p = first; p; p = p->after)
            if (p->free && p->bytes >= bytes && (!best || p->bytes < best->bytes)) best = p;
    }
    return best;
}

/* Frees the segments without a piece in use. */
static size_t caching_trim(struct allocator_source *s)
{
    size_t before = s->reserved;
    for (struct piece **at = &s->segments, *p; (p = *at);) {
        if (!p->free || p->after) {
            at = &p->next_segment;
            continue;
        }
        if (p->stream) s->backend->stream_wait(p->stream, NULL);
        s->backend->mem_free(s->device, p->memory);
        s->reserved -= p->bytes;
        *at = p->next_segment;
        free(p);
    }
    return before - s->reserved;
}

/* Allocates a new segment as one free piece; if the device is full, retries with the size of the request. */
static enum status segment_new(struct allocator_source *s, size_t bytes, struct stream *stream,
                               struct piece **out, struct err *err)
{
    size_t size = segment_bytes(bytes);
    void *memory = NULL;
    struct piece *p = malloc(sizeof *p);
    if (!p) return err_no_memory(err, "the allocator's list of pieces");
    enum status status = s->backend->mem_alloc(s->device, size, &memory, err);
    if (status == STATUS_NO_MEMORY) {
        caching_trim(s);
        status = s->backend->mem_alloc(s->device, size, &memory, err);
        if (status == STATUS_NO_MEMORY && size > bytes)
            status = s->backend->mem_alloc(s->device, size = bytes, &memory, err);
    }
    if (status) {
        free(p);
        return status;
    }
    *p = (struct piece){memory, size, true, NULL, NULL, stream, bytes <= MIB, s->segments};
    s->segments = p;
    s->reserved += size;
    *out = p;
    return STATUS_OK;
}

static enum status caching_take(struct allocator_source *s, size_t bytes, struct stream *stream,
                                struct allocator_block *out, struct err *err)
{
    struct piece *p = find_piece(s, bytes, stream);
    enum status status = p ? STATUS_OK : segment_new(s, bytes, stream, &p, err);
    if (status) return status;
    struct piece *rest = p->bytes > bytes ? malloc(sizeof *rest) : NULL;
    if (rest) { /* without host memory for it, the rest stays in the piece */
        *rest = *p;
        rest->memory += bytes;
        rest->bytes -= bytes;
        rest->before = p;
        if (rest->after) rest->after->before = rest;
        p->after = rest;
        p->bytes = bytes;
    }
    p->free = false;
    out->memory = p->memory;
    out->handle = p;
    return STATUS_OK;
}

/* Merges a piece with the next one if both are free. */
static void merge(struct piece *p)
{
    struct piece *right = p->after;
    if (!p->free || !right || !right->free) return;
    p->bytes += right->bytes;
    p->after = right->after;
    if (p->after) p->after->before = p;
    free(right);
}

static void caching_give(struct allocator_source *s, const struct allocator_block *block)
{
    struct piece *p = block->handle;
    (void)s;
    p->free = true;
    merge(p);
    if (p->before) merge(p->before);
}

/* ---- all strategies ---- */

static const struct allocator_strategy strategies[ALLOCATOR_KINDS] = {
    [ALLOCATOR_BASIC] = {basic_take, basic_give, nothing_to_trim},
    [ALLOCATOR_POOL] = {pool_take, pool_give, pool_trim},
    [ALLOCATOR_ARENA] = {arena_take, arena_give, nothing_to_trim},
    [ALLOCATOR_CACHING] = {caching_take, caching_give, caching_trim},
};

enum status allocator_source_open(struct allocator_source *s, const struct allocator_options *options,
                                  struct err *err)
{
    *s = (struct allocator_source){
        .backend = options->backend, .device = options->device, .strategy = &strategies[options->kind]};
    size_t bytes = options->kind == ALLOCATOR_ARENA ? round_up(options->arena_bytes, ALLOCATOR_ALIGN) : 0;
    void *memory = NULL;
    enum status status = bytes ? s->backend->mem_alloc(s->device, bytes, &memory, err) : STATUS_OK;
    if (status == STATUS_NO_MEMORY) err_prefix(err, "arena: no room for %s", TEXT_BYTES(bytes));
    s->arena = memory;
    s->reserved = bytes;
    return status;
}

void allocator_source_close(struct allocator_source *s)
{
    s->strategy->trim(s);
    if (s->arena) s->backend->mem_free(s->device, s->arena);
}

size_t allocator_source_reserved(const struct allocator_source *s)
{
    return s->strategy->take == pool_take ? s->backend->pool_reserved(s->device) : s->reserved;
}
