/* Adds the column sums of an (N, C) term to a weight's gradient: partial sums of fixed chunks of rows, one
 * block per 128 columns of a chunk, then their total in fp64. The chunks are those of partition.h, so the
 * workspace is the same as on the CPU. */
#ifndef ANNEAL_KERNELS_COLUMN_SUM_CUH
#define ANNEAL_KERNELS_COLUMN_SUM_CUH

#include "kernels/device/cuda_device.cuh"

enum { COLUMN_BLOCK = 128 };

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
__global__ static void column_total(float *total, const float *partial, int chunks, int C, int stride)
{
    int c = (int)(blockIdx.x * COLUMN_BLOCK + threadIdx.x);
    if (c >= C) return;
    double sum = 0;
    for (int chunk = 0; chunk < chunks; chunk++)
        sum += partial[(size_t)chunk * (unsigned)stride + (unsigned)c];
    total[c] = (float)(total[c] + sum);
}

template <typename Term>
static void column_sum(float *total, float *partial, Term term, int N, int C, struct stream *stream)
{
    unsigned blocks = block_count((size_t)C, COLUMN_BLOCK);
    int chunks = row_chunk_count(N);
    LAUNCH((column_partial<Term>), dim3(blocks, (unsigned)chunks), COLUMN_BLOCK, 0, stream, partial, term, N,
           C, row_chunk_rows(N));
    LAUNCH(column_total, blocks, COLUMN_BLOCK, 0, stream, total, partial, chunks, C, C);
}

#endif
