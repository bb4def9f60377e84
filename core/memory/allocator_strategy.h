/* How the four strategies of allocator.h get memory from the device. Private to core/memory.
 *
 * Sizes are multiples of ALLOCATOR_ALIGN and above 0. */
#ifndef ANNEAL_CORE_MEMORY_ALLOCATOR_STRATEGY_H
#define ANNEAL_CORE_MEMORY_ALLOCATOR_STRATEGY_H

#include "core/memory/allocator.h"

enum { ALLOCATOR_ALIGN = 256 };

/* A block in use. */
struct allocator_block {
    void *memory;
    size_t bytes; /* the size of the request, rounded up */
    void *handle; /* the strategy's own */
    struct stream *stream;
};

/* A strategy and its state. */
struct allocator_source {
    const struct allocator_strategy *strategy;
    const struct backend *backend;
    struct device *device;
    size_t reserved;      /* bytes taken from the device; unused by the pool */
    unsigned char *arena; /* arena: its memory, and how much of it is used and live */
    size_t used, live;
    struct piece *segments; /* caching: the first piece of each */
};

struct allocator_strategy {
    enum status (*take)(struct allocator_source *source, size_t bytes, struct stream *stream,
                        struct allocator_block *out, struct err *err);
    void (*give)(struct allocator_source *source, const struct allocator_block *block);
    size_t (*trim)(struct allocator_source *source); /* returns the bytes given back */
};

enum status allocator_source_open(struct allocator_source *source, const struct allocator_options *options,
                                  struct err *err);
void allocator_source_close(struct allocator_source *source); /* after all blocks have been given back */
size_t allocator_source_reserved(const struct allocator_source *source); /* bytes of the device */

#endif
