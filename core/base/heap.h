/* Counts a thread's heap allocations on request. The counting is done by a separate library, anneal_heap.so
 * (core/base/preload), which must be preloaded, so that other runs keep the C library's malloc. Builds with a
 * sanitizer have no such library. */
#ifndef ANNEAL_CORE_BASE_HEAP_H
#define ANNEAL_CORE_BASE_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#define HEAP_COUNTER "anneal_heap.so" /* in the program's folder, or installed */

/* Whether the counter is loaded. */
bool heap_counts(void);

/* Sets LD_PRELOAD to the counter; true if the program should now execute itself again. After that second
 * start it restores the user's LD_PRELOAD, for child processes. */
bool heap_preload(const char *library);

/* Turns counting of this thread's allocations on or off. */
void heap_watch(bool on);

/* The allocations of this thread while counting was on; 0 without the counter. */
int64_t heap_allocations(void);

#endif
