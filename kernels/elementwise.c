/* CPU twin of elementwise.h. Memory-bound: 2 floats read and 1 written an element. */
#include "kernels/elementwise.h"

#include "kernels/cpu_device.h"

void add(float *x, const float *delta, size_t n, struct stream *stream)
{
#pragma omp parallel for simd num_threads(stream->threads) schedule(static)
    for (size_t i = 0; i < n; i++) x[i] += delta[i];
}
