/* CUDA twin of RMSNorm. Memory-bound, 16 bytes per thread if C and the addresses allow. Forward: one block of
 * 32 to 256 threads per row, so that narrow rows still fill the multiprocessors. A row is read from memory
 * once and again from the first-level cache. Each thread's squares are summed in fp32 (at most C / 32 of
 * them), the threads' sums in fp64. Backward: one block per chunk of rows, in which a thread adds up dweight
 * of the same columns of all rows in shared memory: dout, x and dx are read once, dx and the norm are written
 * once. */
#include "kernels/column_sum.cuh"
#include "kernels/element.cuh"

/* Forward and backward share this function, so that both write the same bits. */
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

/* The sums of a block's rows over the columns that this thread owns: columns c to c + W of each pass over a
 * row. In shared memory neighbouring threads use neighbouring banks. */
template <int W, bool SHARED> struct column_sums {
    shared_pointer<float> shared;
    float *out; /* (C) */
    __device__ static int place(int c, int i)
    {
        return c / ((int)blockDim.x * W) * ((int)blockDim.x * W) + i * (int)blockDim.x + (int)threadIdx.x;
    }
    __device__ void clear(int C)
    {
        for (int c = (int)threadIdx.x * W; c < C; c += (int)blockDim.x * W)
            for (int i = 0; i < W; i++) {
                if constexpr (SHARED)
                    shared[place(c, i)] = 0.0f;
                else
                    out[c + i] = 0.0f;
            }
    }
    __device__ void add(int c, int i, float value)
    {
        if constexpr (SHARED)
            shared[place(c, i)] += value;
        else
            out[c + i] += value;
    }
    __device__ void keep(int C)
    {
        if constexpr (SHARED)
            for (int c = (int)threadIdx.x * W; c < C; c += (int)blockDim.x * W) {
                floats<W> sums;
                for (int i = 0; i < W; i++) sums.at[i] = shared[place(c, i)];
                store<W>(out + c, sums);
            }
    }
};

/* partial (chunks, C) = each chunk's part of dweight; NULL: not computed. norm may be NULL. */
template <typename T, int W, bool SHARED>
__global__ void rmsnorm_gradient(T *__restrict__ dx, float *__restrict__ partial, T *__restrict__ norm,
                                 const T *__restrict__ dout, const T *__restrict__ x,
                                 const T *__restrict__ weight, const float *__restrict__ rstd, int N, int C,
                                 int rows)
{
    SHARED_DYNAMIC(float, shared);
    column_sums<W, SHARED> sums = {shared, partial + (size_t)blockIdx.x * (unsigned)C};
    int start = (int)blockIdx.x * rows, end = N - start < rows ? N : start + rows;
    if (partial != NULL) sums.clear(C);
    for (int n = start; n < end; n++) {
        size_t row = (size_t)n * (unsigned)C;
        float r = rstd[n], products = 0;
        for (int c = (int)threadIdx.x * W; c < C; c += (int)blockDim.x * W) {
            floats<W> d = load<W>(dout + row + c), a = load<W>(x + row + c), w = load<W>(weight + c);
            for (int i = 0; i < W; i++) products += d.at[i] * w.at[i] * a.at[i];
        }
        float mean = (float)(block_sum((double)products) * r / C);
        for (int c = (int)threadIdx.x * W; c < C; c += (int)blockDim.x * W) {
            floats<W> d = load<W>(dout + row + c), a = load<W>(x + row + c), w = load<W>(weight + c),
                      sum = load<W>(dx + row + c);
            for (int i = 0; i < W; i++) {
                sum.at[i] += r * (d.at[i] * w.at[i] - a.at[i] * r * mean);
                if (partial != NULL) sums.add(c, i, d.at[i] * (a.at[i] * r));
            }
            store<W>(dx + row + c, sum);
        }
        if (norm != NULL) row_scale<T, W>(norm + row, x + row, weight, r, C);
    }
    if (partial != NULL) sums.keep(C);
}

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

void rmsnorm_backward(void *dx, float *dweight, void *norm, const void *dout, const void *x,
                      const void *weight, const float *rstd, void *workspace, int N, int C,
                      struct stream *stream)
{
    int chunks = norm_chunk_count(N), rows = norm_chunk_rows(N);
    float *partial = dweight != NULL ? (float *)workspace : NULL;
    dispatch(stream, C, {dx, norm, dout, x, weight, workspace}, [&]<typename T, int W>() {
        unsigned threads = row_threads(C, W);
        size_t each = (size_t)threads * W, shared = ((size_t)C + each - 1) / each * each * sizeof(float);
        auto launch = [&]<bool SHARED>() {
            if (SHARED) allow_shared(stream, rmsnorm_gradient<T, W, SHARED>, shared);
            LAUNCH((rmsnorm_gradient<T, W, SHARED>), (unsigned)chunks, threads, SHARED ? shared : 0, stream,
                   (T *)dx, partial, (T *)norm, (const T *)dout, (const T *)x, (const T *)weight, rstd, N, C,
                   rows);
        };
        if (shared + 32 * sizeof(double) <= SHARED_MOST) /* with those of block_sum */
            launch.template operator()<true>();
        else
            launch.template operator()<false>();
    });
    if (dweight != NULL) column_total_launch(dweight, partial, chunks, C, C, stream);
}
