/* CUDA twin of elementwise.h. Memory-bound: add reads 2 elements and writes 1, cast to bf16 reads 4 bytes and
 * writes 2; 16 bytes a thread and tensor where the addresses allow (a cast to bf16 writes 8).
 *
 * ptxas (CUDA 13.0) for sm_80 and sm_90a: 8 to 32 registers, no spills; the vector paths move 16 bytes an
 * instruction, 8 to cast to bf16. Not yet measured on a GPU. */
#include "kernels/element.cuh"
#include "kernels/elementwise.h"

enum { BLOCK = 256 };

/* delta may be x, so neither is restricted. */
template <typename T, int W> __global__ void add_elements(T *x, const T *delta, size_t n)
{
    size_t i = ((size_t)blockIdx.x * BLOCK + threadIdx.x) * W;
    if (i + W <= n) {
        floats<W> a = load<W>(x + i), b = load<W>(delta + i);
        for (int k = 0; k < W; k++) a.at[k] += b.at[k];
        store<W>(x + i, a);
        return;
    }
    for (; i < n; i++) element_store(x + i, element_load(x + i) + element_load(delta + i));
}

template <typename T, int W>
__global__ void cast_elements(T *__restrict__ out, const float *__restrict__ x, size_t n)
{
    size_t i = ((size_t)blockIdx.x * BLOCK + threadIdx.x) * W;
    if (i + W <= n) {
        store<W>(out + i, load<W>(x + i));
        return;
    }
    for (; i < n; i++) element_store(out + i, x[i]);
}

void cast(void *out, const float *x, size_t n, struct stream *stream)
{
    if (out == x || n == 0) return;
    dispatch<4>(stream, 0, {out, x}, [&]<typename T, int W>() {
        LAUNCH((cast_elements<T, W>), block_count((n + W - 1) / W, BLOCK), BLOCK, 0, stream, (T *)out, x, n);
    });
}

void add(void *x, const void *delta, size_t n, struct stream *stream)
{
    if (n == 0) return;
    dispatch(stream, 0, {x, delta}, [&]<typename T, int W>() {
        LAUNCH((add_elements<T, W>), block_count((n + W - 1) / W, BLOCK), BLOCK, 0, stream, (T *)x,
               (const T *)delta, n);
    });
}
