/* See heap.h. */
#include "core/base/heap.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"

bool heap_counts(void)
{
    return dlsym(RTLD_DEFAULT, "heap_counter_watch") != NULL;
}

bool heap_preload(const char *library)
{
    const char *before = getenv("LD_PRELOAD");
    size_t n = strlen(library);
    if (heap_counts()) {
        if (before && strncmp(before, library, n) == 0)
            before[n] == ':' ? setenv("LD_PRELOAD", before + n + 1, 1) : unsetenv("LD_PRELOAD");
        return false;
    }
    char *value = NULL;
    if (!HEAP_COUNTABLE || !file_exists(library) ||
        asprintf(&value, "%s%s%s", library, before ? ":" : "", before ? before : "") < 0)
        return false;
    bool set = setenv("LD_PRELOAD", value, 1) == 0;
    free(value);
    return set;
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
