/* CPU twin of the embedding. Memory-bound: C floats in and out per token.
 *
 * The backward pass divides columns, not tokens, among threads: every thread processes all tokens in order,
 * so repeated tokens never race and their order of addition is fixed; 16 columns are a cache line. */

#include <string.h>

#include "kernels/device/cpu_device.h"
#include "kernels/real.h"

void embedding_forward(void *out_, const int32_t *tokens, struct matrix weight, int N, int V, int C,
                       struct stream *stream)
{
    real *out = out_;
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (int n = 0; n < N; n++) {
        size_t at = (size_t)tokens[n] * (size_t)weight.stride;
        if (weight.element == REAL_ELEMENT)
            memcpy(out + (size_t)n * C, (const real *)weight.at + at, (size_t)C * sizeof(real));
        else
            simd_widen((float *)out_ + (size_t)n * C, (const uint16_t *)weight.at + at, C);
    }
}

void embedding_backward(float *dweight, const void *dout_, const int32_t *tokens, void *workspace, int N,
                        int V, int C, struct stream *stream)
{
    const real *dout = dout_;
    int lines = (C + 15) / 16;
    int slices = lines < stream->threads ? lines : stream->threads;
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (int s = 0; s < slices; s++) {
        int first = (int)((long)lines * s / slices) * 16, last = (int)((long)lines * (s + 1) / slices) * 16;
        if (last > C) last = C;
        for (int n = 0; n < N; n++)
            real_sum(dweight + (size_t)tokens[n] * C + first, dout + (size_t)n * C + first, last - first);
    }
}
