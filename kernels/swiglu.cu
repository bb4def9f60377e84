/* CUDA twin of swiglu.h. Memory-bound: 3 floats an element forward, 5 backward, 16 bytes a thread where F and
 * the addresses allow. */
#include "kernels/cuda_device.cuh"
#include "kernels/swiglu.h"

enum { BLOCK = 256 };

__device__ static inline float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

template <int W>
__global__ void swiglu_out(float *__restrict__ out, const float *__restrict__ gate_up, size_t count, int F)
{
    size_t i = ((size_t)blockIdx.x * BLOCK + threadIdx.x) * W;
    if (i >= count) return;
    size_t n = i / (unsigned)F;
    const float *at = gate_up + i + n * (unsigned)F;
    pack<float, W> gate = load<W>(at), up = load<W>(at + F);
    for (int k = 0; k < W; k++) gate.at[k] = gate.at[k] * sigmoid(gate.at[k]) * up.at[k];
    store<W>(out + i, gate);
}

/* dgate_up may be gate_up: a thread writes only what it alone has read. */
template <int W>
__global__ void swiglu_gradient(float *dgate_up, const float *__restrict__ dout, const float *gate_up,
                                size_t count, int F)
{
    size_t i = ((size_t)blockIdx.x * BLOCK + threadIdx.x) * W;
    if (i >= count) return;
    size_t at = i + i / (unsigned)F * (unsigned)F;
    pack<float, W> gate = load<W>(gate_up + at), up = load<W>(gate_up + at + F), d = load<W>(dout + i);
    for (int k = 0; k < W; k++) {
        float g = gate.at[k], sigma = sigmoid(g);
        gate.at[k] = d.at[k] * up.at[k] * sigma * (1.0f + g * (1.0f - sigma));
        up.at[k] = d.at[k] * g * sigma;
    }
    store<W>(dgate_up + at, gate);
    store<W>(dgate_up + at + F, up);
}

void swiglu_forward(void *out_, const void *gate_up_, int N, int F, struct stream *stream)
{
    float *out = (float *)out_;
    const float *gate_up = (const float *)gate_up_;
    size_t count = (size_t)N * (size_t)F;
    if (F % 4 == 0 && aligned16(out) && aligned16(gate_up))
        LAUNCH(swiglu_out<4>, block_count(count / 4, BLOCK), BLOCK, 0, stream, out, gate_up, count, F);
    else
        LAUNCH(swiglu_out<1>, block_count(count, BLOCK), BLOCK, 0, stream, out, gate_up, count, F);
}

void swiglu_backward(void *dgate_up_, const void *dout_, const void *gate_up_, int N, int F,
                     struct stream *stream)
{
    float *dgate_up = (float *)dgate_up_;
    const float *dout = (const float *)dout_;
    const float *gate_up = (const float *)gate_up_;
    size_t count = (size_t)N * (size_t)F;
    if (F % 4 == 0 && aligned16(dgate_up) && aligned16(dout) && aligned16(gate_up))
        LAUNCH(swiglu_gradient<4>, block_count(count / 4, BLOCK), BLOCK, 0, stream, dgate_up, dout, gate_up,
               count, F);
    else
        LAUNCH(swiglu_gradient<1>, block_count(count, BLOCK), BLOCK, 0, stream, dgate_up, dout, gate_up,
               count, F);
}
