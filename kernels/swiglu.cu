/* CUDA twin of swiglu.h. Memory-bound: 3 elements moved for one of out forward, 5 backward, 16 bytes a thread
 * where F and the addresses allow.
 *
 * ptxas (CUDA 13.0) for sm_80 and sm_90a: 16 to 38 registers, no spills; the vector paths move 16 bytes an
 * instruction. Not yet measured on a GPU. */
#include "kernels/element.cuh"
#include "kernels/swiglu.h"

enum { BLOCK = 256 };

__device__ static inline float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

template <typename T, int W>
__global__ void swiglu_out(T *__restrict__ out, const T *__restrict__ gate_up, size_t count, int F)
{
    size_t i = ((size_t)blockIdx.x * BLOCK + threadIdx.x) * W;
    if (i >= count) return;
    size_t n = i / (unsigned)F;
    const T *at = gate_up + i + n * (unsigned)F;
    floats<W> gate = load<W>(at), up = load<W>(at + F);
    for (int k = 0; k < W; k++) gate.at[k] = gate.at[k] * sigmoid(gate.at[k]) * up.at[k];
    store<W>(out + i, gate);
}

/* dgate_up may be gate_up: a thread writes only what it alone has read. */
template <typename T, int W>
__global__ void swiglu_gradient(T *dgate_up, const T *__restrict__ dout, const T *gate_up, size_t count,
                                int F)
{
    size_t i = ((size_t)blockIdx.x * BLOCK + threadIdx.x) * W;
    if (i >= count) return;
    size_t at = i + i / (unsigned)F * (unsigned)F;
    floats<W> gate = load<W>(gate_up + at), up = load<W>(gate_up + at + F), d = load<W>(dout + i);
    for (int k = 0; k < W; k++) {
        float g = gate.at[k], sigma = sigmoid(g);
        gate.at[k] = d.at[k] * up.at[k] * sigma * (1.0f + g * (1.0f - sigma));
        up.at[k] = d.at[k] * g * sigma;
    }
    store<W>(dgate_up + at, gate);
    store<W>(dgate_up + at + F, up);
}

void swiglu_forward(void *out, const void *gate_up, int N, int F, struct stream *stream)
{
    size_t count = (size_t)N * (size_t)F;
    dispatch(stream, F, {out, gate_up}, [&]<typename T, int W>() {
        LAUNCH((swiglu_out<T, W>), block_count(count / W, BLOCK), BLOCK, 0, stream, (T *)out,
               (const T *)gate_up, count, F);
    });
}

void swiglu_backward(void *dgate_up, const void *dout, const void *gate_up, int N, int F,
                     struct stream *stream)
{
    size_t count = (size_t)N * (size_t)F;
    dispatch(stream, F, {dgate_up, dout, gate_up}, [&]<typename T, int W>() {
        LAUNCH((swiglu_gradient<T, W>), block_count(count / W, BLOCK), BLOCK, 0, stream, (T *)dgate_up,
               (const T *)dout, (const T *)gate_up, count, F);
    });
}
