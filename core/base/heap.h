/* Counts the heap allocations of a thread while it asks for that. A library does the counting, anneal_heap.so
 * (core/base/preload), which has to be preloaded, so that a program that does not ask keeps the C library's
 * malloc. Not under a sanitizer, which has a malloc family of its own: HEAP_COUNTABLE says so. */
#ifndef ANNEAL_CORE_BASE_HEAP_H
#define ANNEAL_CORE_BASE_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HEAP_COUNTABLE 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HEAP_COUNTABLE 0
#endif
#endif
#ifndef HEAP_COUNTABLE
#define HEAP_COUNTABLE 1
#endif

#define HEAP_COUNTER "anneal_heap.so" /* beside the program, or where it is installed */

/* Whether the counter is there. */
bool heap_counts(void);

/* Sets LD_PRELOAD to the counter, and keeps what it names already: true if the program should now start
 * again. Once the counter is there, it takes it out of LD_PRELOAD again, for the programs that this one
 * starts. */
bool heap_preload(const char *library);

/* From here on this thread's allocations are counted, or not. Returns what was before. */
bool heap_watch(bool on);

/* Of this thread, ever, while it was watched; 0 without the counter. */
int64_t heap_allocations(void);

#endif
