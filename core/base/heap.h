/* Counts the heap allocations of a thread while it asks for that. The program's own malloc family, here,
 * counts and passes on to the C library's: a symbol of the program comes before those of libraries, so what
 * OpenBLAS or SQLite allocate is seen, too. The OpenMP library's own is left out: a team of one thread is
 * made anew for every parallel region.
 *
 * Not where the C library is not glibc, nor under a sanitizer, which has a family of its own: heap_counts
 * tells. A program may bring another family (tests do); then it calls heap_note itself, or nothing is
 * counted. */
#ifndef ANNEAL_BASE_HEAP_H
#define ANNEAL_BASE_HEAP_H

#include <stdbool.h>
#include <stdint.h>

/* Whether an allocation of this thread is seen; tries one. */
bool heap_counts(void);

/* From here on this thread's allocations are counted, or not. Returns what was before. */
bool heap_watch(bool on);

/* Of this thread, ever, while it was watched. */
int64_t heap_allocations(void);

/* For a malloc family: `caller` is an address in whoever allocates. */
void heap_note(const void *caller);

#endif
