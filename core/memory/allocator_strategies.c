/* Three of the strategies of allocator.h: basic, pool and arena. The fourth is allocator_caching.c. */
#include <stdlib.h>

#include "core/base/text.h"
#include "core/memory/allocator_strategy.h"

/* ---- basic: every request goes to the device ---- */

struct basic {
    const struct backend *backend;
    struct device *device;
    size_t reserved;
};

static enum status basic_open(const struct allocator_options *options, void **state, struct err *err)
{
    struct basic *b = malloc(sizeof *b);
    if (!b) return err_set(err, STATUS_NO_MEMORY, "no memory for an allocator");
    *b = (struct basic){options->backend, options->device, 0};
    *state = b;
    return STATUS_OK;
}

static enum status basic_take(void *state, size_t bytes, struct stream *stream, struct allocator_block *out,
                              struct err *err)
{
    struct basic *b = state;
    void *memory;
    enum status status = b->backend->mem_alloc(b->device, bytes, &memory, err);
    if (status) return status;
    b->reserved += bytes;
    *out = (struct allocator_block){memory, bytes, NULL, stream};
    return STATUS_OK;
}

/* mem_free waits for what uses the memory. */
static void basic_give(void *state, const struct allocator_block *block, struct stream *last_used_on)
{
    struct basic *b = state;
    (void)last_used_on;
    b->backend->mem_free(b->device, block->memory);
    b->reserved -= block->bytes;
}

static size_t basic_reserved(const void *state)
{
    return ((const struct basic *)state)->reserved;
}

static size_t nothing_to_trim(void *state)
{
    (void)state;
    return 0;
}

static void no_stream_is_known(void *state, struct stream *stream)
{
    (void)state;
    (void)stream;
}

static void basic_close(void *state)
{
    free(state);
}

const struct allocator_strategy allocator_basic = {.open = basic_open,
                                                   .take = basic_take,
                                                   .give = basic_give,
                                                   .reserved = basic_reserved,
                                                   .trim = nothing_to_trim,
                                                   .stream_closes = no_stream_is_known,
                                                   .close = basic_close};

/* ---- pool: the device's own, ordered by streams ---- */

static enum status pool_take(void *state, size_t bytes, struct stream *stream, struct allocator_block *out,
                             struct err *err)
{
    struct basic *b = state;
    void *memory;
    enum status status = b->backend->pool_alloc(b->device, bytes, stream, &memory, err);
    if (status == STATUS_NO_MEMORY) { /* what was freed may only be free once its stream has come there */
        b->backend->pool_trim(b->device);
        status = b->backend->pool_alloc(b->device, bytes, stream, &memory, err);
    }
    if (status) return status;
    *out = (struct allocator_block){memory, bytes, NULL, stream};
    return STATUS_OK;
}

static void pool_give(void *state, const struct allocator_block *block, struct stream *last_used_on)
{
    struct basic *b = state;
    b->backend->pool_free(b->device, block->memory, block->bytes,
                          last_used_on ? last_used_on : block->stream);
}

static size_t pool_reserved(const void *state)
{
    const struct basic *b = state;
    return b->backend->pool_reserved(b->device);
}

static size_t pool_trim(void *state)
{
    struct basic *b = state;
    size_t before = pool_reserved(state);
    b->backend->pool_trim(b->device);
    return before - pool_reserved(state);
}

static void pool_close(void *state)
{
    pool_trim(state);
    free(state);
}

const struct allocator_strategy allocator_pool = {.open = basic_open,
                                                  .take = pool_take,
                                                  .give = pool_give,
                                                  .reserved = pool_reserved,
                                                  .trim = pool_trim,
                                                  .stream_closes = no_stream_is_known,
                                                  .close = pool_close};

/* ---- arena: one block; requests follow each other ---- */

struct bump {
    const struct backend *backend;
    struct device *device;
    unsigned char *memory;
    size_t bytes, used, live;
};

static enum status arena_open(const struct allocator_options *options, void **state, struct err *err)
{
    struct bump *b = malloc(sizeof *b);
    void *memory = NULL;
    char text[32];
    if (!b) return err_set(err, STATUS_NO_MEMORY, "no memory for an allocator");
    *b = (struct bump){.backend = options->backend, .device = options->device};
    b->bytes = (options->arena_bytes + ALLOCATOR_ALIGN - 1) & ~(size_t)(ALLOCATOR_ALIGN - 1);
    enum status status = b->bytes ? b->backend->mem_alloc(b->device, b->bytes, &memory, err) : STATUS_OK;
    if (status == STATUS_NO_MEMORY)
        err_prefix(err, "arena: no room for %s", text_format_bytes(b->bytes, text, sizeof text));
    if (status) {
        free(b);
        return status;
    }
    b->memory = memory;
    *state = b;
    return STATUS_OK;
}

static enum status arena_take(void *state, size_t bytes, struct stream *stream, struct allocator_block *out,
                              struct err *err)
{
    struct bump *b = state;
    if (bytes > b->bytes - b->used)
        return err_set(err, STATUS_NO_MEMORY,
                       "the arena of %zu bytes has %zu left (memory.allocator = caching can grow)", b->bytes,
                       b->bytes - b->used);
    *out = (struct allocator_block){b->memory + b->used, bytes, NULL, stream};
    b->used += bytes;
    b->live += bytes;
    return STATUS_OK;
}

/* The last block goes back at once, others when all are gone: scopes that end in turn leave no gaps. */
static void arena_give(void *state, const struct allocator_block *block, struct stream *last_used_on)
{
    struct bump *b = state;
    (void)last_used_on;
    b->live -= block->bytes;
    if ((unsigned char *)block->memory + block->bytes == b->memory + b->used) b->used -= block->bytes;
    if (b->live == 0) b->used = 0;
}

static size_t arena_reserved(const void *state)
{
    return ((const struct bump *)state)->bytes;
}

static void arena_close(void *state)
{
    struct bump *b = state;
    if (b->memory) b->backend->mem_free(b->device, b->memory);
    free(b);
}

const struct allocator_strategy allocator_arena = {.open = arena_open,
                                                   .take = arena_take,
                                                   .give = arena_give,
                                                   .reserved = arena_reserved,
                                                   .trim = nothing_to_trim,
                                                   .stream_closes = no_stream_is_known,
                                                   .close = arena_close};
