/* Adds the column sums of an (N, C) term to a weight's gradient: partial sums of fixed chunks of rows, one
 * block per 128 columns of a chunk, then their total in fp64 by a block per 32 columns, whose warps share the
 * chunks. The chunks are those of partition.h, so the
 * workspace is the same as on the CPU. */
#ifndef ANNEAL_KERNELS_COLUMN_SUM_CUH
#define ANNEAL_KERNELS_COLUMN_SUM_CUH

#include "kernels/device/cuda_device.cuh"

enum { COLUMN_BLOCK = 128, TOTAL_WARPS = 16 };

/* partial (chunks, C) = Σ over a chunk's rows n of term(n, c). */
template <typename Term> __global__ void column_partial(float *partial, Term term, int N, int C, int rows)
{
    int c = (int)(blockIdx.x * COLUMN_BLOCK + threadIdx.x), chunk = (int)blockIdx.y;
    if (c >= C) return;
    int end = N - chunk * rows < rows ? N : (chunk + 1) * rows;
    float total = 0;
#pragma unroll 8
    for (int n = chunk * rows; n < end; n++) total += term(n, c);
    partial[(size_t)chunk * (unsigned)C + (unsigned)c] = total;
}

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

template <typename Term>
static void column_sum(float *total, float *partial, Term term, int N, int C, struct stream *stream)
{
    unsigned blocks = block_count((size_t)C, COLUMN_BLOCK);
    int chunks = row_chunk_count(N);
    LAUNCH((column_partial<Term>), dim3(blocks, (unsigned)chunks), COLUMN_BLOCK, 0, stream, partial, term, N,
           C, row_chunk_rows(N));
    column_total_launch(total, partial, chunks, C, C, stream);
}

#endif
