/* To be preloaded: memory runs out at a place of the program. A place is the functions that wait for the
 * allocation, as a number. TEST_MEMORY_LOG names a file that gets a line for each place at its first
 * allocation; at the place TEST_MEMORY_PLACE the first allocation fails and, with TEST_MEMORY_FOR_GOOD, all
 * after it. Spared are OpenMP, which ends the process, Jansson, some versions of which fail an
 * assertion, and the dynamic linker. */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

enum { DEPTH = 7, PLACES = 1 << 14 };

static _Thread_local bool inside;
static _Atomic uint64_t seen[PLACES];
static atomic_bool ready, failing, failed;
static uint64_t chosen;
static bool for_good;
static int log_file = -1;

static bool is_spared(const char *library)
{
    return strstr(library, "libgomp") || strstr(library, "libomp") || strstr(library, "ld-linux") ||
           strstr(library, "libgcc") || strstr(library, "jansson");
}

/* Hashes where the callers are in their libraries. 0: to be spared. */
static uint64_t place_of_call(void)
{
    void *callers[DEPTH];
    uint64_t hash = 14695981039346656037u;
    Dl_info info;
    int count = backtrace(callers, DEPTH);
    for (int i = 3; i < count; i++) {
        if (!dladdr(callers[i], &info) || is_spared(info.dli_fname)) return 0;
        hash = (hash ^ (uint64_t)((char *)callers[i] - (char *)info.dli_fbase)) * 1099511628211u;
    }
    return hash;
}

static void log_place(uint64_t place)
{
    char line[20];
    size_t at = place % PLACES;
    for (uint64_t there; (there = seen[at]) != place; at = (at + 1) % PLACES)
        if (there == 0 && atomic_compare_exchange_strong(&seen[at], &there, place)) {
            int n = snprintf(line, sizeof line, "%016llx\n", (unsigned long long)place);
            if (write(log_file, line, (size_t)n) != n) abort();
            return;
        }
}

static bool fails(void)
{
    if (!ready || inside) return false;
    if (failing) return true;
    if (log_file < 0 && (!chosen || failed)) return false;
    int before = errno;
    inside = true;
    uint64_t place = place_of_call();
    if (place && log_file >= 0) log_place(place);
    bool now = place && place == chosen && !atomic_exchange(&failed, true);
    if (now && for_good) failing = true;
    inside = false;
    errno = before;
    return now;
}

__attribute__((constructor)) static void begin(void)
{
    const char *log = getenv("TEST_MEMORY_LOG"), *place = getenv("TEST_MEMORY_PLACE");
    void *callers[DEPTH];
    inside = true;
    backtrace(callers, DEPTH); /* the first time it allocates */
    if (log) log_file = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
    if (place) chosen = strtoull(place, NULL, 16);
    for_good = getenv("TEST_MEMORY_FOR_GOOD") != NULL;
    inside = false;
    ready = true;
}

#define MAY_FAIL(name, parameters, call)                                                                     \
    void *name parameters                                                                                    \
    {                                                                                                        \
        if (!fails()) return call;                                                                           \
        errno = ENOMEM;                                                                                      \
        return NULL;                                                                                         \
    }
MAY_FAIL(malloc, (size_t bytes), __libc_malloc(bytes))
MAY_FAIL(calloc, (size_t count, size_t bytes), __libc_calloc(count, bytes))
MAY_FAIL(realloc, (void *memory, size_t bytes), __libc_realloc(memory, bytes))
MAY_FAIL(aligned_alloc, (size_t alignment, size_t bytes), __libc_memalign(alignment, bytes))

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    void *memory = fails() ? NULL : __libc_memalign(alignment, bytes);
    if (!memory) return ENOMEM;
    *out = memory;
    return 0;
}
