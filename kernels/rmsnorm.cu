/* CUDA twin of RMSNorm. Memory-bound; one block of 32 to 256 threads per row, so that narrow rows still fill
 * the multiprocessors, 16 bytes per thread if C and the addresses allow. A row is read from memory once and
 * again from the first-level cache. Each thread's squares are summed in fp32 (at most C / 32 of them), the
 * threads' sums in fp64. Backward reads dout and x twice, the second time for dweight: 6 elements instead of
 * 4, for sums without atomics. */
#include "kernels/column_sum.cuh"
#include "kernels/element.cuh"

/* Forward and recomputation share this function, so that both write the same bits. */
template <typename T, int W>
__device__ static inline void row_scale(T *out, const T *x, const T *weight, float rstd, int C)
{
    for (int c = (int)threadIdx.x * W; c < C; c += (int)blockDim.x * W) {
        floats<W> a = load<W>(x + c), w = load<W>(weight + c);
        for (int i = 0; i < W; i++) a.at[i] = a.at[i] * rstd * w.at[i];
        store<W>(out + c, a);
    }
}

__device__ static inline float rstd_of(float squares, int C, float eps)
{
    return 1.0f / sqrtf((float)(block_sum((double)squares) / C + (double)eps));
}

/* delta NULL: the norm of x; else of sum = x + delta, rounded to T. */
template <typename T, int W>
__global__ void rmsnorm_rows(T *sum, T *out, float *rstd, const T *x, const T *delta, const T *weight, int C,
                             float eps)
{
    size_t row = (size_t)blockIdx.x * (unsigned)C;
    const T *from = x + row;
    float squares = 0;
    for (int c = (int)threadIdx.x * W; c < C; c += (int)blockDim.x * W) {
        floats<W> a = load<W>(from + c);
        if (delta != NULL) {
            floats<W> b = load<W>(delta + row + c);
            for (int i = 0; i < W; i++) a.at[i] = element_round<T>(a.at[i] + b.at[i]);
            store<W>(sum + row + c, a);
        }
        for (int i = 0; i < W; i++) squares += a.at[i] * a.at[i];
    }
    float r = rstd_of(squares, C, eps);
    row_scale<T, W>(out + row, delta != NULL ? sum + row : from, weight, r,
                    C); /* each thread its own elements */
    if (threadIdx.x == 0) rstd[blockIdx.x] = r;
}

template <typename T, int W>
__global__ void rmsnorm_again(T *out, const T *x, const T *weight, const float *rstd, int C)
{
    size_t row = (size_t)blockIdx.x * (unsigned)C;
    row_scale<T, W>(out + row, x + row, weight, rstd[blockIdx.x], C);
}

template <typename T, int W>
__global__ void rmsnorm_dx(T *__restrict__ dx, const T *__restrict__ dout, const T *__restrict__ x,
                           const T *__restrict__ weight, const float *__restrict__ rstd, int C)
{
    size_t row = (size_t)blockIdx.x * (unsigned)C;
    float r = rstd[blockIdx.x], products = 0;
    for (int c = (int)threadIdx.x * W; c < C; c += (int)blockDim.x * W) {
        floats<W> d = load<W>(dout + row + c), a = load<W>(x + row + c), w = load<W>(weight + c);
        for (int i = 0; i < W; i++) products += d.at[i] * w.at[i] * a.at[i];
    }
    float mean = (float)(block_sum((double)products) * r / C);
    for (int c = (int)threadIdx.x * W; c < C; c += (int)blockDim.x * W) {
        floats<W> d = load<W>(dout + row + c), a = load<W>(x + row + c), w = load<W>(weight + c),
                  sum = load<W>(dx + row + c);
        for (int i = 0; i < W; i++) sum.at[i] += r * (d.at[i] * w.at[i] - a.at[i] * r * mean);
        store<W>(dx + row + c, sum);
    }
}

template <typename T> struct rmsnorm_term {
    const T *dout, *x;
    const float *rstd;
    int C;
    __device__ float operator()(int n, int c) const
    {
        size_t at = (size_t)n * (unsigned)C + (unsigned)c;
        return element_load(dout + at) * (element_load(x + at) * rstd[n]);
    }
};

void rmsnorm_forward(void *out, float *rstd, const void *x, const void *weight, int N, int C, float eps,
                     struct stream *stream)
{
    rmsnorm_residual_forward(NULL, out, rstd, x, NULL, weight, N, C, eps, stream);
}

void rmsnorm_residual_forward(void *sum, void *out, float *rstd, const void *x, const void *delta,
                              const void *weight, int N, int C, float eps, struct stream *stream)
{
    dispatch(stream, C, {sum, out, x, delta, weight}, [&]<typename T, int W>() {
        LAUNCH((rmsnorm_rows<T, W>), (unsigned)N, row_threads(C, W), 0, stream, (T *)sum, (T *)out, rstd,
               (const T *)x, (const T *)delta, (const T *)weight, C, eps);
    });
}

void rmsnorm_recompute(void *out, const void *x, const void *weight, const float *rstd, int N, int C,
                       struct stream *stream)
{
    dispatch(stream, C, {out, x, weight}, [&]<typename T, int W>() {
        LAUNCH((rmsnorm_again<T, W>), (unsigned)N, row_threads(C, W), 0, stream, (T *)out, (const T *)x,
               (const T *)weight, rstd, C);
    });
}

void rmsnorm_backward(void *dx, float *dweight, const void *dout, const void *x, const void *weight,
                      const float *rstd, void *workspace, int N, int C, struct stream *stream)
{
    dispatch(stream, C, {dx, dout, x, weight}, [&]<typename T, int W>() {
        LAUNCH((rmsnorm_dx<T, W>), (unsigned)N, row_threads(C, W), 0, stream, (T *)dx, (const T *)dout,
               (const T *)x, (const T *)weight, rstd, C);
    });
    if (dweight == NULL) return;
    dispatch_scalar(stream, [&]<typename T>() {
        column_sum(dweight, (float *)workspace, rmsnorm_term<T>{(const T *)dout, (const T *)x, rstd, C}, N, C,
                   stream);
    });
}
