/* Races on device memory: two threads that touch the same bytes in one launch, one of them writing, with
 * nothing that orders them. Blocks are never in order; threads of a block are after a __syncthreads(), lanes
 * of a warp after a __syncwarp(). Which of them ran first does not matter.
 *
 * The kernels are compiled with -fsanitize=thread, so that every load and store calls one of the functions
 * below, which take the place of the sanitizer's own library; emulated instructions call memory_touched.
 * The shadow of device memory holds the last write of every two bytes, and the reads since. Stores of one
 * byte are not tracked; no kernel makes any. Under AddressSanitizer kernels are compiled without it, and
 * nothing is checked. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/cuda_sim/machine.hh"

namespace {

/* By a thread, or by several: LANES + the number of their warp, WARPS of one block, BLOCKS. */
enum : uint16_t { LANES = sim::THREADS_MAX, WARPS = LANES + sim::THREADS_MAX / sim::WARP, BLOCKS };
struct access {
    uint32_t epoch; /* sim::block_epoch; before that of the launch: there was none */
    uint16_t thread, warp_epoch;
};
struct history {
    access write, read;
};
enum { EACH = 2 }; /* bytes of device memory */

history *shadow;
bool wanted;
size_t watched; /* RANGE while a kernel runs that is to be checked, else 0 */

access access_now()
{
    return {sim::block_epoch, (uint16_t)sim::running, (uint16_t)sim::warp_epoch[sim::running / sim::WARP]};
}

/* Whether something orders an access of this launch before the running thread's next one. */
bool ordered(const access &a)
{
    if (a.thread == BLOCKS || a.epoch < sim::block_begin) return false;
    if (a.epoch != sim::block_epoch || a.thread == sim::running) return true;
    int warp = a.thread < LANES ? a.thread / sim::WARP : a.thread - LANES, own = sim::running / sim::WARP;
    return a.thread != WARPS && warp == own && a.warp_epoch != (uint16_t)sim::warp_epoch[own];
}

[[noreturn]] void race(const history *at, const char *what, const access &a)
{
    char who[80] = "by threads of several blocks";
    if (a.thread == WARPS || (a.thread >= LANES && a.thread < WARPS))
        snprintf(who, sizeof who, "by several threads");
    else if (a.thread < LANES)
        snprintf(who, sizeof who, "by thread (%u,%u,%u)%s", a.thread % blockDim.x,
                 a.thread / blockDim.x % blockDim.y, a.thread / (blockDim.x * blockDim.y),
                 a.epoch < sim::block_begin ? " of another block" : "");
    sim::memory_race((at - shadow) * EACH, what, who);
}

void wrote(history *m)
{
    if (m->write.epoch >= sim::launch_begin && !ordered(m->write)) race(m, "written after a write", m->write);
    if (m->read.epoch >= sim::launch_begin && !ordered(m->read)) race(m, "written after a read", m->read);
    *m = {access_now(), {}};
}

void read(history *m)
{
    access *r = &m->read;
    if (m->write.epoch >= sim::launch_begin && !ordered(m->write)) race(m, "read after a write", m->write);
    if (r->epoch < sim::launch_begin || ordered(*r)) {
        *r = access_now();
        return;
    }
    int warp = r->thread < LANES ? r->thread / sim::WARP : r->thread - LANES, own = sim::running / sim::WARP;
    uint16_t together = r->thread == BLOCKS || r->epoch < sim::block_begin ? (uint16_t)BLOCKS
                        : r->thread == WARPS || warp != own                ? (uint16_t)WARPS
                                                                           : (uint16_t)(LANES + own);
    *r = access_now();
    r->thread = together;
}

template <bool WRITES> inline void touched(const void *at, size_t bytes)
{
    size_t first = (size_t)((const unsigned char *)at - sim::range_begin);
    if (first >= watched || (WRITES && bytes < EACH)) return;
    for (size_t i = first / EACH; i < (first + bytes + EACH - 1) / EACH; i++)
        WRITES ? wrote(shadow + i) : read(shadow + i);
}

} // namespace

namespace sim {

void races_open()
{
    void *memory = mmap(NULL, RANGE / EACH * sizeof(history), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) fail("no room for the shadow of device memory");
    shadow = (history *)memory;
}

/* The shadow of small ranges stays: their marks are of earlier launches. */
void races_forget(const void *memory, size_t bytes)
{
    enum { SMALL = 1 << 20 };
    size_t first = (size_t)((const unsigned char *)memory - range_begin);
    if (bytes > SMALL) madvise(shadow + first / EACH, bytes / EACH * sizeof(history), MADV_DONTNEED);
}

void races_watch(bool kernel)
{
    watched = kernel && wanted && shadow != NULL ? RANGE : 0;
}

void memory_touched(const void *at, size_t bytes, bool writes)
{
    writes ? touched<true>(at, bytes) : touched<false>(at, bytes);
}

void memory_constant(const void *at, size_t bytes)
{
    size_t first = (size_t)((const unsigned char *)at - range_begin);
    for (size_t i = first / EACH; first < watched && i < (first + bytes + EACH - 1) / EACH; i++)
        if (shadow[i].write.epoch >= launch_begin)
            race(shadow + i, "read as if nothing wrote it, after a write", shadow[i].write);
    touched<false>(at, bytes);
}

} // namespace sim

extern "C" void sim_set_races(bool found)
{
    wanted = found;
}

/* ---- called by code that is compiled with -fsanitize=thread ---- */

extern "C" {

#define ACCESS(bytes)                                                                                        \
    void __tsan_read##bytes(void *at)                                                                        \
    {                                                                                                        \
        touched<false>(at, bytes);                                                                           \
    }                                                                                                        \
    void __tsan_write##bytes(void *at)                                                                       \
    {                                                                                                        \
        touched<true>(at, bytes);                                                                            \
    }                                                                                                        \
    void __tsan_unaligned_read##bytes(void *at)                                                              \
    {                                                                                                        \
        touched<false>(at, bytes);                                                                           \
    }                                                                                                        \
    void __tsan_unaligned_write##bytes(void *at)                                                             \
    {                                                                                                        \
        touched<true>(at, bytes);                                                                            \
    }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
#undef ACCESS

void __tsan_read_range(void *at, size_t bytes)
{
    touched<false>(at, bytes);
}

void __tsan_write_range(void *at, size_t bytes)
{
    touched<true>(at, bytes);
}

/* clang calls these for struct copies. */
void *__tsan_memcpy(void *to, const void *from, size_t bytes)
{
    touched<false>(from, bytes);
    touched<true>(to, bytes);
    return memcpy(to, from, bytes);
}

void *__tsan_memmove(void *to, const void *from, size_t bytes)
{
    touched<false>(from, bytes);
    touched<true>(to, bytes);
    return memmove(to, from, bytes);
}

void *__tsan_memset(void *to, int value, size_t bytes)
{
    touched<true>(to, bytes);
    return memset(to, value, bytes);
}

void __tsan_init()
{
}

void __tsan_func_entry(void *)
{
}

void __tsan_func_exit()
{
}
}
