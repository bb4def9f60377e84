/* A device of limited memory for tests of the allocator: the CPU's table with memory of its own, counted to
 * the byte, and a memory pool. Several threads may use it. */
#ifndef ANNEAL_TESTS_CORE_MEMORY_RATIONED_H
#define ANNEAL_TESTS_CORE_MEMORY_RATIONED_H

#include "core/memory/allocator.h"

enum { RATIONED_STREAMS = 3 };

struct ration {
    size_t limit, used, peak, pool; /* bytes; pool: of used, what the pool holds */
    int calls;                      /* number of allocations, including the pool's */
};

struct rationed {
    struct backend backend; /* may be changed before it is used */
    struct device *device;
    struct stream *streams[RATIONED_STREAMS];
    struct allocator *allocator;
};

/* Opens the device; only one at a time. An arena is as large as the device. */
void rationed_open(struct rationed *r, enum allocator_kind kind, size_t limit, FILE *report);
/* Closes it and returns the leaks. Fails the test unless all device memory has been freed. */
int64_t rationed_close(struct rationed *r);
/* The memory that the open device has given. */
struct ration rationed_now(void);

#endif
