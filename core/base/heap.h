/* Counts the heap allocations of a thread while it asks for that. A library does the counting, anneal_heap.so
 * (core/base/preload), which has to be preloaded, so that a program that does not ask keeps the C library's
 * malloc. There is none beside a program that was built with a sanitizer. */
#ifndef ANNEAL_CORE_BASE_HEAP_H
#define ANNEAL_CORE_BASE_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#define HEAP_COUNTER "anneal_heap.so" /* beside the program, or where it is installed */

/* Whether the counter is there. */
bool heap_counts(void);

/* Sets LD_PRELOAD to the counter: true if the program should now start again. After the second start it
 * leaves there what the user named, for the programs that this one starts. */
bool heap_preload(const char *library);

/* From here on this thread's allocations are counted, or not. Returns what was before. */
bool heap_watch(bool on);

/* Of this thread, ever, while it was watched; 0 without the counter. */
int64_t heap_allocations(void);

#endif
