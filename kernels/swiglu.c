/* CPU twin of swiglu.h. Memory-bound: 3 floats an element forward, 5 backward. */
#include "kernels/swiglu.h"

#include <stddef.h>

#include "kernels/device/cpu_device.h"
#include "kernels/simd.h"

void swiglu_forward(void *out_, const void *gate_up_, int N, int F, struct stream *stream)
{
    float *out = out_;
    const float *gate_up = gate_up_;
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (int n = 0; n < N; n++) {
        const float *gate = gate_up + (size_t)n * 2 * F, *up = gate + F;
        float *o = out + (size_t)n * F;
#pragma omp simd
        for (int f = 0; f < F; f++) o[f] = gate[f] * simd_sigmoid(gate[f]) * up[f];
    }
}

void swiglu_backward(void *dgate_up_, const void *dout_, const void *gate_up_, int N, int F,
                     struct stream *stream)
{
    float *dgate_up = dgate_up_;
    const float *dout = dout_, *gate_up = gate_up_;
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (int n = 0; n < N; n++) {
        const float *gate = gate_up + (size_t)n * 2 * F, *up = gate + F, *d = dout + (size_t)n * F;
        float *dgate = dgate_up + (size_t)n * 2 * F, *dup = dgate + F;
#pragma omp simd
        for (int f = 0; f < F; f++) {
            float g = gate[f], u = up[f], sigma = simd_sigmoid(g);
            dgate[f] = d[f] * u * sigma * (1.0f + g * (1.0f - sigma));
            dup[f] = d[f] * g * sigma;
        }
    }
}
