/* CUDA twin of elementwise.h. Memory-bound: 2 floats read and 1 written an element, 16 bytes a thread. */
#include "kernels/cuda_device.cuh"
#include "kernels/elementwise.h"

enum { BLOCK = 256 };

/* delta may be x, so neither is restricted. */
template <typename T, int W> __global__ void add_elements(T *x, const T *delta, size_t n)
{
    size_t i = ((size_t)blockIdx.x * BLOCK + threadIdx.x) * W;
    if (i + W <= n) {
        pack<T, W> a = load<W>(x + i), b = load<W>(delta + i);
        for (int k = 0; k < W; k++) a.at[k] += b.at[k];
        store<W>(x + i, a);
        return;
    }
    for (; i < n; i++) x[i] += delta[i];
}

void cast(void *out, const float *x, size_t n, struct stream *stream)
{
    if (out == x || n == 0 || stream->fault_at != NULL) return;
    cudaError_t error =
        cudaMemcpyAsync(out, x, n * sizeof *x, cudaMemcpyDeviceToDevice, stream->queue);
    if (error != cudaSuccess) stream_fault(stream, "cast", cudaGetErrorString(error));
}

void add(void *x_, const void *delta_, size_t n, struct stream *stream)
{
    float *x = (float *)x_;
    const float *delta = (const float *)delta_;
    if (n == 0) return;
    if (aligned16(x) && aligned16(delta))
        LAUNCH((add_elements<float, 4>), block_count((n + 3) / 4, BLOCK), BLOCK, 0, stream, x, delta, n);
    else
        LAUNCH((add_elements<float, 1>), block_count(n, BLOCK), BLOCK, 0, stream, x, delta, n);
}
