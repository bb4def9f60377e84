/* What a strategy of allocator.h would take of a device, found out by running it on one that gives addresses
 * and no memory. */
#include "core/memory/allocator_strategy.h"

/* Stands in for the device: where the next block would lie. */
struct ghost {
    uintptr_t next;
};

static enum status ghost_alloc(struct device *device, size_t bytes, void **out, struct err *err)
{
    struct ghost *ghost = (struct ghost *)device;
    (void)err;
    *out = (void *)ghost->next;
    ghost->next += bytes;
    return STATUS_OK;
}

static void ghost_free(struct device *device, void *memory)
{
    (void)device;
    (void)memory;
}

static enum status ghost_event(struct device *device, struct event **out, struct err *err)
{
    (void)device;
    (void)err;
    *out = NULL;
    return STATUS_OK;
}

static void ghost_event_close(struct event *event)
{
    (void)event;
}

static const struct backend ghost_backend = {.mem_alloc = ghost_alloc,
                                             .mem_free = ghost_free,
                                             .event_open = ghost_event,
                                             .event_close = ghost_event_close};

static enum status rehearse_caching(const size_t *sizes, int count, size_t *out, struct err *err)
{
    struct ghost ghost = {.next = ALLOCATOR_ALIGN};
    struct allocator_options options = {
        .kind = ALLOCATOR_CACHING, .backend = &ghost_backend, .device = (struct device *)&ghost};
    struct allocator_block block;
    void *state;
    enum status status = allocator_caching.open(&options, &state, err);
    if (status) return status;
    for (int i = 0; !status && i < count; i++) {
        size_t rounded = (sizes[i] + ALLOCATOR_ALIGN - 1) & ~(size_t)(ALLOCATOR_ALIGN - 1);
        if (rounded) status = allocator_caching.take(state, rounded, NULL, &block, err);
    }
    *out = allocator_caching.reserved(state);
    allocator_caching.close(state);
    return status;
}

enum status allocator_rehearse(enum allocator_kind kind, size_t pool_unit, const size_t *sizes, int count,
                               size_t *out, struct err *err)
{
    size_t unit = kind == ALLOCATOR_POOL && pool_unit > ALLOCATOR_ALIGN ? pool_unit : ALLOCATOR_ALIGN;
    *out = 0;
    if (kind == ALLOCATOR_CACHING) return rehearse_caching(sizes, count, out, err);
    for (int i = 0; i < count; i++) *out += (sizes[i] + unit - 1) / unit * unit;
    return STATUS_OK;
}
