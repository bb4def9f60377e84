/* See heap.h. */
#include "core/base/heap.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "core/base/file.h"

bool heap_counts(void)
{
    return dlsym(RTLD_DEFAULT, "heap_counter_watch") != NULL;
}

bool heap_preload(const char *library)
{
    if (heap_counts()) unsetenv("LD_PRELOAD");
    return !heap_counts() && file_exists(library) && setenv("LD_PRELOAD", library, 1) == 0;
}

bool heap_watch(bool on)
{
    bool (*watch)(bool) = (bool (*)(bool))dlsym(RTLD_DEFAULT, "heap_counter_watch");
    return watch && watch(on);
}

int64_t heap_allocations(void)
{
    int64_t (*count)(void) = (int64_t(*)(void))dlsym(RTLD_DEFAULT, "heap_counter_count");
    return count ? count() : 0;
}
