/* See heap.h. */
#include "core/base/heap.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool heap_counts(void)
{
    return dlsym(RTLD_DEFAULT, "heap_counter_watch") != NULL;
}

/* LD_PRELOAD splits its value at blanks, so it names the library by a file descriptor instead of a path. If
 * it already names the library, which still does not count, preloading does not work here: do not retry. */
bool heap_preload(const char *library)
{
    static const char folder[] = "/proc/self/fd/";
    const char *before = getenv("LD_PRELOAD");
    if (before && strncmp(before, folder, sizeof folder - 1) == 0) {
        const char *users = strchr(before, ':');
        close(atoi(before + sizeof folder - 1));
        if (users)
            setenv("LD_PRELOAD", users + 1, 1);
        else
            unsetenv("LD_PRELOAD");
        return false;
    }
    char *value = NULL;
    int fd = heap_counts() ? -1 : open(library, O_RDONLY);
    bool set = fd >= 0 &&
               asprintf(&value, "%s%d%s%s", folder, fd, before ? ":" : "", before ? before : "") > 0 &&
               setenv("LD_PRELOAD", value, 1) == 0;
    free(value);
    return set;
}

void heap_watch(bool on)
{
    void (*watch)(bool) = (void (*)(bool))dlsym(RTLD_DEFAULT, "heap_counter_watch");
    if (watch) watch(on);
}

int64_t heap_allocations(void)
{
    int64_t (*count)(void) = (int64_t(*)(void))dlsym(RTLD_DEFAULT, "heap_counter_count");
    return count ? count() : 0;
}
