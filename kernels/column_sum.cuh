/* Adds the sums of chunks of rows, (chunks, C), to a weight's gradient (C): a block per 32 columns, whose
 * warps share the chunks, in fp64. The chunks are those of partition.h. */
#ifndef ANNEAL_KERNELS_COLUMN_SUM_CUH
#define ANNEAL_KERNELS_COLUMN_SUM_CUH

#include "kernels/device/cuda_device.cuh"

enum { TOTAL_WARPS = 16 };

/* total (C) += Σ over chunks of partial (chunks, stride). */
__global__ static void __launch_bounds__(TOTAL_WARPS * 32)
    column_total(float *total, const float *__restrict__ partial, int chunks, int C, int stride)
{
    SHARED_ARRAY(double, sums, TOTAL_WARPS * 32);
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, c = (int)blockIdx.x * 32 + lane;
    double sum = 0;
#pragma unroll 8
    for (int chunk = warp; chunk < (c < C ? chunks : 0); chunk += TOTAL_WARPS)
        sum += partial[(size_t)chunk * (unsigned)stride + (unsigned)c];
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (warp > 0 || c >= C) return;
    for (int w = 1; w < TOTAL_WARPS; w++) sum += sums[w * 32 + lane];
    total[c] = (float)(total[c] + sum);
}

static void column_total_launch(float *total, const float *partial, int chunks, int C, int stride,
                                struct stream *stream)
{
    LAUNCH(column_total, block_count((size_t)C, 32), TOTAL_WARPS * 32, 0, stream, total, partial, chunks, C,
           stride);
}

#endif
