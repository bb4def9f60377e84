/* That steps allocate nothing, checked while they run: the heap by the trainer's own thread, and device and
 * page-locked memory where the device gives it. No part of a step are what comes between two (evaluations,
 * samples, saves, the recording of graphs), what the observer does when it is told of it, the beginning and
 * the end of a trace and, where the device's own tools look on, the heap in the traced step: they allocate
 * inside the calls that they see. */
#include <inttypes.h>

#include "core/base/heap.h"
#include "core/train/trainer_parts.h"

static int64_t device_allocations(const struct trainer *t)
{
    return t->setup.backend->allocations(t->setup.device);
}

enum status trainer_allocations_open(struct trainer *t, struct err *err)
{
    if (!t->setup.check_allocations || heap_counts()) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "--check-allocations: cannot count heap allocations without " HEAP_COUNTER
                   " beside the program (build it with make, for glibc and without a sanitizer)");
}

bool trainer_allocations_watch(struct trainer *t, bool on)
{
    return t->setup.check_allocations && heap_watch(on);
}

void trainer_allocations_begin(struct trainer *t)
{
    if (!t->setup.check_allocations) return;
    t->heap_allocations = heap_allocations();
    t->device_allocations = device_allocations(t);
    heap_watch(true);
}

enum status trainer_allocations_check(struct trainer *t, struct err *err)
{
    if (!t->setup.check_allocations) return STATUS_OK;
    int64_t heap = heap_allocations() - t->heap_allocations,
            device = device_allocations(t) - t->device_allocations;
    bool first = t->replay.steps <= 1; /* it may: code is loaded, buffers of libraries are made */
    if (first || (heap == 0 && device == 0)) return STATUS_OK;
    return err_set(err, STATUS_FAILED,
                   "--check-allocations: step %" PRId64 " made %" PRId64 " heap allocation%s and %" PRId64
                   " of device memory; after the first step there should be none",
                   trainer_queued(t) - 1, heap, heap == 1 ? "" : "s", device);
}
