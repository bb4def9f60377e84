/* anneal_heap.so, preloaded by `--check-allocations` (see core/base/heap.h): malloc and its relatives, which
 * count a thread's allocations while it is watched and then call the C library's. A preloaded symbol comes
 * before those of libraries, so allocations by SQLite count, too. Those of the OpenMP library
 * itself (libgomp, clang's libomp) do not: it creates a team of one thread anew for every parallel region.
 * With a C library other than glibc nothing is counted. */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Thread-local, so counting needs no lock, and a thread sees its own allocations only. */
static _Thread_local struct {
    bool on;
    int64_t count;
} watch;

void heap_counter_watch(bool on);
int64_t heap_counter_count(void);

void heap_counter_watch(bool on)
{
    watch.on = on;
}

int64_t heap_counter_count(void)
{
    return watch.count;
}

#ifdef __GLIBC__

static void note(const void *caller)
{
    Dl_info info;
    if (!watch.on) return;
    if (dladdr(caller, &info) && (strstr(info.dli_fname, "libgomp") || strstr(info.dli_fname, "libomp")))
        return;
    watch.count++;
}

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

#define COUNTED(name, parameters, call)                                                                      \
    void *name parameters                                                                                    \
    {                                                                                                        \
        note(__builtin_return_address(0));                                                                   \
        return call;                                                                                         \
    }
COUNTED(malloc, (size_t bytes), __libc_malloc(bytes))
COUNTED(calloc, (size_t count, size_t bytes), __libc_calloc(count, bytes))
COUNTED(realloc, (void *memory, size_t bytes), __libc_realloc(memory, bytes))
COUNTED(aligned_alloc, (size_t alignment, size_t bytes), __libc_memalign(alignment, bytes))

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    note(__builtin_return_address(0));
    void *memory = __libc_memalign(alignment, bytes);
    if (!memory) return ENOMEM;
    *out = memory;
    return 0;
}

#endif
