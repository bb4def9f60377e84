/* What the four strategies of allocator.h look like from inside. Private to core/allocator*.c.
 *
 * All calls come with the allocator's lock held. Sizes are multiples of ALLOCATOR_ALIGN and above 0. */
#ifndef ANNEAL_CORE_MEMORY_ALLOCATOR_STRATEGY_H
#define ANNEAL_CORE_MEMORY_ALLOCATOR_STRATEGY_H

#include "core/memory/allocator.h"

enum { ALLOCATOR_ALIGN = 256 };

/* What was handed out. */
struct allocator_block {
    void *memory;
    size_t bytes; /* of the request, rounded */
    void *handle; /* the strategy's own */
    struct stream *stream;
};

/* State is what `open` made; reserved and trim are in bytes of the device. */
struct allocator_strategy {
    enum status (*open)(const struct allocator_options *options, void **state, struct err *err);
    enum status (*take)(void *state, size_t bytes, struct stream *stream, struct allocator_block *out,
                        struct err *err);
    void (*give)(void *state, const struct allocator_block *block, struct stream *last_used_on);
    size_t (*reserved)(const void *state);
    size_t (*trim)(void *state);
    void (*stream_closes)(void *state, struct stream *stream);
    void (*close)(void *state); /* gives everything back */
};

extern const struct allocator_strategy allocator_basic, allocator_pool, allocator_arena, allocator_caching;

#endif
