/* CUDA twin of bias.h. Memory-bound: x is read and written once, 16 bytes a thread where C and the addresses
 * allow.
 *
 * ptxas (CUDA 13.0) for sm_80 and sm_90a: 20 to 38 registers, no spills; the vector path moves 16 bytes an
 * instruction, the sums of columns one element. Not yet measured on a GPU. */
#include "kernels/bias.h"
#include "kernels/column_sum.cuh"
#include "kernels/element.cuh"

enum { BLOCK = 256 };

template <typename T, int W>
__global__ void bias_rows(T *__restrict__ x, const T *__restrict__ bias, size_t count, int C, int stride)
{
    size_t i = ((size_t)blockIdx.x * BLOCK + threadIdx.x) * W;
    if (i >= count) return;
    T *at = x + i / (unsigned)C * (unsigned)stride + i % (unsigned)C;
    floats<W> a = load<W>(at), b = load<W>(bias + i % (unsigned)C);
    for (int k = 0; k < W; k++) a.at[k] += b.at[k];
    store<W>(at, a);
}

template <typename T> struct bias_term {
    const T *dout;
    int stride;
    __device__ float operator()(int n, int c) const
    {
        return element_load(dout + (size_t)n * (unsigned)stride + (unsigned)c);
    }
};

void bias_forward(void *x, const void *bias, int N, int C, int stride, struct stream *stream)
{
    size_t count = (size_t)N * (size_t)C;
    dispatch(stream, C | stride, {x, bias}, [&]<typename T, int W>() {
        LAUNCH((bias_rows<T, W>), block_count(count / W, BLOCK), BLOCK, 0, stream, (T *)x, (const T *)bias,
               count, C, stride);
    });
}

void bias_backward(float *dbias, const void *dout, void *workspace, int N, int C, int stride,
                   struct stream *stream)
{
    dispatch_scalar(stream, [&]<typename T>() {
        column_sum(dbias, (float *)workspace, bias_term<T>{(const T *)dout, stride}, N, C, stream);
    });
}
