/* CUDA twin of rmsnorm.h. Memory-bound; a block of 32 to 256 threads a row, so that narrow rows still fill
 * the multiprocessors, 16 bytes a thread where C and the addresses allow. A row is read from memory once and
 * again from the first-level cache. Each thread's squares are summed in fp32 (at most C / 32 of them), the
 * threads' in fp64. Backward reads dout and x a second time for dweight: 6 floats an element instead of 4,
 * for sums without atomics. */
#include "kernels/column_sum.cuh"
#include "kernels/rmsnorm.h"

/* The one place that writes out: forward and recomputation agree to the bit because they share it. */
template <int W>
__device__ static inline void row_scale(float *out, const float *x, const float *weight, float rstd, int C)
{
    for (int c = (int)threadIdx.x * W; c < C; c += (int)blockDim.x * W) {
        pack<float, W> a = load<W>(x + c), w = load<W>(weight + c);
        for (int i = 0; i < W; i++) a.at[i] = a.at[i] * rstd * w.at[i];
        store<W>(out + c, a);
    }
}

__device__ static inline float rstd_of(float squares, int C, float eps)
{
    return 1.0f / sqrtf((float)(block_sum((double)squares) / C + (double)eps));
}

/* delta NULL: the norm of x; else of sum = x + delta. */
template <int W>
__global__ void rmsnorm_rows(float *sum, float *out, float *rstd, const float *x, const float *delta,
                             const float *weight, int C, float eps)
{
    size_t row = (size_t)blockIdx.x * (unsigned)C;
    const float *from = x + row;
    float squares = 0;
    for (int c = (int)threadIdx.x * W; c < C; c += (int)blockDim.x * W) {
        pack<float, W> a = load<W>(from + c);
        if (delta != NULL) {
            pack<float, W> b = load<W>(delta + row + c);
            for (int i = 0; i < W; i++) a.at[i] += b.at[i];
            store<W>(sum + row + c, a);
        }
        for (int i = 0; i < W; i++) squares += a.at[i] * a.at[i];
    }
    float r = rstd_of(squares, C, eps);
    row_scale<W>(out + row, delta != NULL ? sum + row : from, weight, r,
                 C); /* each thread its own elements */
    if (threadIdx.x == 0) rstd[blockIdx.x] = r;
}

template <int W>
__global__ void rmsnorm_again(float *out, const float *x, const float *weight, const float *rstd, int C)
{
    size_t row = (size_t)blockIdx.x * (unsigned)C;
    row_scale<W>(out + row, x + row, weight, rstd[blockIdx.x], C);
}

template <int W>
__global__ void rmsnorm_dx(float *__restrict__ dx, const float *__restrict__ dout,
                           const float *__restrict__ x, const float *__restrict__ weight,
                           const float *__restrict__ rstd, int C)
{
    size_t row = (size_t)blockIdx.x * (unsigned)C;
    float r = rstd[blockIdx.x], products = 0;
    for (int c = (int)threadIdx.x * W; c < C; c += (int)blockDim.x * W) {
        pack<float, W> d = load<W>(dout + row + c), a = load<W>(x + row + c), w = load<W>(weight + c);
        for (int i = 0; i < W; i++) products += d.at[i] * w.at[i] * a.at[i];
    }
    float mean = (float)(block_sum((double)products) * r / C);
    for (int c = (int)threadIdx.x * W; c < C; c += (int)blockDim.x * W) {
        pack<float, W> d = load<W>(dout + row + c), a = load<W>(x + row + c), w = load<W>(weight + c),
                       sum = load<W>(dx + row + c);
        for (int i = 0; i < W; i++) sum.at[i] += r * (d.at[i] * w.at[i] - a.at[i] * r * mean);
        store<W>(dx + row + c, sum);
    }
}

struct rmsnorm_term {
    const float *dout, *x, *rstd;
    int C;
    __device__ float operator()(int n, int c) const
    {
        size_t at = (size_t)n * (unsigned)C + (unsigned)c;
        return dout[at] * (x[at] * rstd[n]);
    }
};

void rmsnorm_forward(void *out_, float *rstd, const void *x_, const void *weight_, int N, int C, float eps,
                     struct stream *stream)
{
    float *out = (float *)out_;
    const float *x = (const float *)x_;
    const float *weight = (const float *)weight_;
    rmsnorm_residual_forward(NULL, out, rstd, x, NULL, weight, N, C, eps, stream);
}

void rmsnorm_residual_forward(void *sum_, void *out_, float *rstd, const void *x_, const void *delta_,
                              const void *weight_, int N, int C, float eps, struct stream *stream)
{
    float *sum = (float *)sum_;
    float *out = (float *)out_;
    const float *x = (const float *)x_;
    const float *delta = (const float *)delta_;
    const float *weight = (const float *)weight_;
    unsigned rows = (unsigned)N, threads = row_threads(C);
    if (C % 4 == 0 && aligned16(sum) && aligned16(out) && aligned16(x) && aligned16(delta) &&
        aligned16(weight))
        LAUNCH(rmsnorm_rows<4>, rows, threads, 0, stream, sum, out, rstd, x, delta, weight, C, eps);
    else
        LAUNCH(rmsnorm_rows<1>, rows, threads, 0, stream, sum, out, rstd, x, delta, weight, C, eps);
}

void rmsnorm_recompute(void *out_, const void *x_, const void *weight_, const float *rstd, int N, int C,
                       struct stream *stream)
{
    float *out = (float *)out_;
    const float *x = (const float *)x_;
    const float *weight = (const float *)weight_;
    unsigned rows = (unsigned)N, threads = row_threads(C);
    if (C % 4 == 0 && aligned16(out) && aligned16(x) && aligned16(weight))
        LAUNCH(rmsnorm_again<4>, rows, threads, 0, stream, out, x, weight, rstd, C);
    else
        LAUNCH(rmsnorm_again<1>, rows, threads, 0, stream, out, x, weight, rstd, C);
}

void rmsnorm_backward(void *dx_, float *dweight, const void *dout_, const void *x_, const void *weight_,
                      const float *rstd, void *workspace, int N, int C, struct stream *stream)
{
    float *dx = (float *)dx_;
    const float *dout = (const float *)dout_;
    const float *x = (const float *)x_;
    const float *weight = (const float *)weight_;
    unsigned rows = (unsigned)N, threads = row_threads(C);
    if (C % 4 == 0 && aligned16(dx) && aligned16(dout) && aligned16(x) && aligned16(weight))
        LAUNCH(rmsnorm_dx<4>, rows, threads, 0, stream, dx, dout, x, weight, rstd, C);
    else
        LAUNCH(rmsnorm_dx<1>, rows, threads, 0, stream, dx, dout, x, weight, rstd, C);
    column_sum(dweight, (float *)workspace, rmsnorm_term{dout, x, rstd, C}, N, C, stream);
}
