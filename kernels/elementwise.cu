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

void add(float *x, const float *delta, size_t n, struct stream *stream)
{
    if (n == 0) return;
    if (aligned16(x) && aligned16(delta))
        LAUNCH((add_elements<float, 4>), block_count((n + 3) / 4, BLOCK), BLOCK, 0, stream, x, delta, n);
    else
        LAUNCH((add_elements<float, 1>), block_count(n, BLOCK), BLOCK, 0, stream, x, delta, n);
}
