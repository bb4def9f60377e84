/* CPU twin of bias.h. Memory-bound: x is read and written once. */
#include "kernels/bias.h"

#include <stddef.h>
#include <string.h>

#include "kernels/device/cpu_device.h"

void bias_forward(void *x_, const void *bias_, int N, int C, int stride, struct stream *stream)
{
    float *x = x_;
    const float *bias = bias_;
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (int n = 0; n < N; n++) {
        float *row = x + (size_t)n * stride;
#pragma omp simd
        for (int c = 0; c < C; c++) row[c] += bias[c];
    }
}

void bias_backward(float *dbias, const void *dout_, void *workspace, int N, int C, int stride,
                   struct stream *stream)
{
    const float *dout = dout_;
    float *partial = workspace; /* (chunks, C) */
    int chunks = row_chunk_count(N), rows = row_chunk_rows(N);
#pragma omp parallel num_threads(stream->threads)
    {
#pragma omp for schedule(static)
        for (int chunk = 0; chunk < chunks; chunk++) {
            float *total = partial + (size_t)chunk * C;
            memset(total, 0, (size_t)C * sizeof(float));
            int end = N - chunk * rows < rows ? N : (chunk + 1) * rows;
            for (int n = chunk * rows; n < end; n++) {
                const float *row = dout + (size_t)n * stride;
#pragma omp simd
                for (int c = 0; c < C; c++) total[c] += row[c];
            }
        }
#pragma omp for schedule(static)
        for (int c = 0; c < C; c++) {
            double total = 0;
            for (int chunk = 0; chunk < chunks; chunk++) total += partial[(size_t)chunk * C + c];
            dbias[c] = (float)(dbias[c] + total);
        }
    }
}
