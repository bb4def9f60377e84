/* For the main of a test program that counts heap allocations: starts it again with the counter preloaded,
 * where that is possible (see core/base/heap.h). */
#ifndef ANNEAL_TESTS_COUNTED_H
#define ANNEAL_TESTS_COUNTED_H

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/heap.h"

static inline void counted_start(char **argv)
{
    const char *binary = getenv("ANNEAL_BINARY");
    char folder[4096], counter[4200];
    snprintf(folder, sizeof folder, "%s", binary ? binary : "build/anneal");
    snprintf(counter, sizeof counter, "%s/" HEAP_COUNTER, dirname(folder));
    if (heap_preload(counter)) execv("/proc/self/exe", argv);
}

#endif
