/* CUDA twin of the sums. Memory-bound: every element is read once. A block of 256 threads sums one chunk of
 * partition.h in fp64, each thread every 256th piece of 16 bytes, if the address allows; another block sums
 * the chunks; one thread computes the clip state. */
#include "kernels/element.cuh"

enum { BLOCK = 256 };

template <bool SQUARES, int W>
__global__ void chunk_sum(double *partial, const float *__restrict__ x, size_t n)
{
    size_t start = blockIdx.x * REDUCE_CHUNK, end = n - start < REDUCE_CHUNK ? n : start + REDUCE_CHUNK;
    double total = 0;
    auto add = [&](float value) { total += SQUARES ? (double)value * (double)value : (double)value; };
    size_t i = start + threadIdx.x * W;
#pragma unroll 4
    for (; i + W <= end; i += BLOCK * W) {
        floats<W> values = load<W>(x + i);
        for (int k = 0; k < W; k++) add(values.at[k]);
    }
#pragma unroll 1
    for (; W > 1 && i < end; i++) add(x[i]); /* the piece that the end cuts, in one thread */
    total = block_sum(total);
    if (threadIdx.x == 0) partial[blockIdx.x] = total;
}

__global__ static void chunks_total(double *out, const double *partial, size_t chunks, bool accumulate)
{
    double total = 0;
    for (size_t i = threadIdx.x; i < chunks; i += BLOCK) total += partial[i];
    total = block_sum(total);
    if (threadIdx.x == 0) *out = total + (accumulate ? *out : 0.0);
}

__global__ static void squares_clip(struct clip_state *out, const double *squares, const double *loss,
                                    const struct step_control *control, float max_norm)
{
    if (threadIdx.x != 0) return;
    double norm = sqrt(*squares);
    float scale = 1.0f;
    if (!isfinite((float)norm) || (control->loss_limit > 0 && *loss > control->loss_limit))
        scale = 0.0f;
    else if (max_norm > 0 && max_norm < norm + 1e-6)
        scale = (float)(max_norm / (norm + 1e-6));
    out->norm = (float)norm;
    out->scale = scale;
    if (scale != 0.0f) out->updates++;
}

template <bool SQUARES>
static void sum_launch(double *out, const float *x, size_t n, bool accumulate, void *workspace,
                       struct stream *stream)
{
    double *partial = (double *)workspace;
    unsigned chunks = (unsigned)reduce_chunk_count(n);
    if (n > 0 && aligned16(x))
        LAUNCH((chunk_sum<SQUARES, 4>), chunks, BLOCK, 0, stream, partial, x, n);
    else if (n > 0)
        LAUNCH((chunk_sum<SQUARES, 1>), chunks, BLOCK, 0, stream, partial, x, n);
    LAUNCH(chunks_total, 1, BLOCK, 0, stream, out, partial, (size_t)chunks, accumulate);
}

void sum(double *out, const float *x, size_t n, bool accumulate, void *workspace, struct stream *stream)
{
    sum_launch<false>(out, x, n, accumulate, workspace, stream);
}

void sum_of_squares(double *out, const float *x, size_t n, void *workspace, struct stream *stream)
{
    sum_launch<true>(out, x, n, false, workspace, stream);
}

void clip_norm(struct clip_state *out, const double *squares, const double *loss,
               const struct step_control *control, float max_norm, struct stream *stream)
{
    LAUNCH(squares_clip, 1, 32, 0, stream, out, squares, loss, control, max_norm);
}
