/* Where in the table of update ranges an element lies: what the optimizers' CUDA twins share. A thread
 * searches once, for its first element, and walks on from there; the table, 16 bytes an entry, is read by
 * every thread of the device and stays in its caches. Private to the .cu files. */
#ifndef ANNEAL_KERNELS_UPDATE_RANGE_CUH
#define ANNEAL_KERNELS_UPDATE_RANGE_CUH

#include "kernels/device/backend.h"

/* The range of element i, below the end of the last: the first whose end lies behind it. */
__device__ static inline const struct update_range *update_range_of(const struct update_range *ranges,
                                                                    int range_count, size_t i)
{
    int low = 0, high = range_count - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (i < ranges[middle].end)
            high = middle;
        else
            low = middle + 1;
    }
    return ranges + low;
}

/* What of a weight remains after decay; in double, as in the CPU twins. */
__device__ static inline float update_range_keep(const struct update_range *range, float lr)
{
    return (float)(1.0 - (double)(lr * range->lr_scale) * range->weight_decay);
}

#endif
