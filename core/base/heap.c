/* See heap.h. */
#include "core/base/heap.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Of the thread, and nobody else's: counting needs no lock, and a thread does not see another's work. */
static _Thread_local struct {
    bool on;
    int64_t count;
} watch;

void heap_note(const void *caller)
{
    Dl_info info;
    if (!watch.on) return;
    if (dladdr(caller, &info) && strstr(info.dli_fname, "libgomp")) return;
    watch.count++;
}

bool heap_watch(bool on)
{
    bool before = watch.on;
    watch.on = on;
    return before;
}

int64_t heap_allocations(void)
{
    return watch.count;
}

bool heap_counts(void)
{
    void *(*volatile get)(size_t) = malloc; /* or the compiler takes the pair away */
    int64_t count = watch.count;
    bool before = heap_watch(true);
    free(get(1));
    heap_watch(before);
    bool seen = watch.count > count;
    watch.count = count;
    return seen;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#if defined(__GLIBC__) && !defined(SANITIZED)

/* weak: a test with a family of its own replaces them */
#define FAMILY __attribute__((weak))

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

FAMILY void *malloc(size_t bytes)
{
    heap_note(__builtin_return_address(0));
    return __libc_malloc(bytes);
}

FAMILY void *calloc(size_t count, size_t bytes)
{
    heap_note(__builtin_return_address(0));
    return __libc_calloc(count, bytes);
}

FAMILY void *realloc(void *memory, size_t bytes)
{
    heap_note(__builtin_return_address(0));
    return __libc_realloc(memory, bytes);
}

FAMILY void *aligned_alloc(size_t alignment, size_t bytes)
{
    heap_note(__builtin_return_address(0));
    return __libc_memalign(alignment, bytes);
}

FAMILY int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    heap_note(__builtin_return_address(0));
    void *memory = __libc_memalign(alignment, bytes);
    if (!memory) return ENOMEM;
    *out = memory;
    return 0;
}

#endif
