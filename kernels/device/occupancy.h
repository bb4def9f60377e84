/* How well the launch of a kernel can fill a GPU of NVIDIA, from what a thread and a block of it take.
 *
 * A multiprocessor holds several blocks at a time, until one of its limits is reached: threads, blocks,
 * registers or shared memory. The more warps it holds, the better it hides the time that loads take.
 * Theoretical occupancy is the share of its warps that the blocks it holds at most fill; the actual one is
 * lower where a grid is too small, or ends unevenly.
 *
 * Rules from NVIDIA's CUDA C++ Programming Guide ("Multiprocessor Level") and its cuda_occupancy.h, for
 * compute capability 8.0 and newer: registers are given to warps in units of 256, in four equal parts of the
 * multiprocessor; shared memory to blocks in units of 128 bytes. */
#ifndef ANNEAL_KERNELS_DEVICE_OCCUPANCY_H
#define ANNEAL_KERNELS_DEVICE_OCCUPANCY_H

#include "kernels/device/backend.h"

/* The most that one multiprocessor holds at a time. */
struct multiprocessor {
    int threads, blocks, registers;
    int shared;          /* bytes of shared memory */
    int shared_reserved; /* of them, for each block: the driver's own */
};

/* out->share is 0 if a block does not fit, or takes nothing. `count`: multiprocessors of the device. */
void occupancy_compute(const struct kernel_launch *launch, const struct multiprocessor *each, int count,
                       struct occupancy *out);

#endif
