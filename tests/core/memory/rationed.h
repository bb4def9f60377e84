/* A device of limited memory for tests of the allocator: the CPU's table with memory of its own, counted to
 * the byte, from which a pool gives, too. May be asked from several threads. */
#ifndef ANNEAL_TESTS_CORE_MEMORY_RATIONED_H
#define ANNEAL_TESTS_CORE_MEMORY_RATIONED_H

#include "core/memory/allocator.h"

enum { RATIONED_STREAMS = 3 };

struct ration {
    size_t limit, used, peak, pool; /* bytes; pool: of used, what the pool holds */
    int calls;                      /* for memory, the pool's among them */
};

struct rationed {
    struct backend backend; /* may be changed before it is used */
    struct device *device;
    struct stream *streams[RATIONED_STREAMS];
    struct allocator *allocator;
};

/* One at a time. An arena is as large as the device. */
void rationed_open(struct rationed *r, enum allocator_kind kind, size_t limit, FILE *report);
/* Returns the leaks. Fails the test unless the device has everything back. */
int64_t rationed_close(struct rationed *r);
/* What the device that is open has given. */
struct ration rationed_now(void);

#endif
