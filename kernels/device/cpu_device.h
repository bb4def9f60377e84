/* What the CPU twins share: the device and stream behind the opaque handles of backend.h, and the rules by
 * which work is split. Private to kernels/: nobody else looks inside a device.
 *
 * Always: a parallel region has exactly the stream's thread count, never fewer (an if-clause or a smaller
 * team would make libgomp build a new team, which allocates); and what a reduction adds up, and in which
 * order, follows from the problem's shape alone, so results do not depend on the thread count. */
#ifndef ANNEAL_KERNELS_DEVICE_CPU_DEVICE_H
#define ANNEAL_KERNELS_DEVICE_CPU_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/partition.h"

struct device {
    int threads;                  /* 1 to CPU_THREADS_MAX */
    _Atomic size_t pool_reserved; /* bytes handed out by pool_alloc */
    _Atomic int64_t allocations;  /* ever */
};

/* Calls are synchronous on the CPU: a stream only carries the thread count. */
struct stream {
    int threads;
};

#define CPU_THREADS_MAX 1024

/* Attention works in square tiles of scores; at most so many threads work on it at once, each in its own
 * scratch. */
#define ATTENTION_TILE        64
#define ATTENTION_WORKERS_MAX 64

static inline int attention_tiles(int T)
{
    return (T + ATTENTION_TILE - 1) / ATTENTION_TILE;
}

/* HS rounded up to whole vectors of any instruction set. */
static inline int attention_width(int HS)
{
    return (HS + 15) / 16 * 16;
}

/* Floats of one worker's scratch: two tiles of scores, and eight of ATTENTION_TILE rows of head width. */
static inline size_t attention_worker_floats(int HS)
{
    return ATTENTION_TILE * (size_t)(2 * ATTENTION_TILE + 8 * attention_width(HS));
}

#endif
