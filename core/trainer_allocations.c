/* That steps allocate nothing, checked while they run: the trainer's own thread's heap, and the allocator of
 * device and page-locked memory. What the observer does when it is told of a step is no part of it, nor is
 * the recording of graphs, which happens once. */
#include <inttypes.h>

#include "core/base/heap.h"
#include "core/trainer_parts.h"

static int64_t device_allocations(const struct trainer *t)
{
    struct allocator_usage usage;
    allocator_sum(t->network.allocator, &usage);
    return usage.total;
}

enum status trainer_allocations_open(struct trainer *t, struct err *err)
{
    if (!t->setup.check_allocations || heap_counts()) return STATUS_OK;
    return err_set(
        err, STATUS_USAGE,
        "--check-allocations: this build cannot count heap allocations (use one for glibc and without "
        "a sanitizer)");
}

bool trainer_allocations_watch(struct trainer *t, bool on)
{
    return t->setup.check_allocations && heap_watch(on);
}

enum status trainer_allocations_check(struct trainer *t, struct err *err)
{
    if (!t->setup.check_allocations) return STATUS_OK;
    int64_t heap = heap_allocations(), device = device_allocations(t);
    int64_t new_heap = heap - t->heap_allocations, new_device = device - t->device_allocations;
    bool first = t->replay.steps <= 1; /* it may: code is loaded, buffers of libraries are made */
    t->heap_allocations = heap;
    t->device_allocations = device;
    if (first || (new_heap == 0 && new_device == 0)) return STATUS_OK;
    return err_set(err, STATUS_FAILED,
                   "--check-allocations: step %" PRId64 " made %" PRId64 " heap allocation%s and %" PRId64
                   " of device memory; after the first step there should be none",
                   trainer_queued(t) - 1, new_heap, new_heap == 1 ? "" : "s", new_device);
}
