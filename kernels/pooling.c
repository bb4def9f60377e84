/* CPU twin of pooling: each sequence is one thread's. */

#include <stddef.h>

#include "kernels/device/cpu_device.h"

/* The first row of the sequence that ends in row n. */
static inline int first_row(const int32_t *positions, int n, int T)
{
    return n - (positions ? positions[n] : n % T);
}

void mean_pool_forward(void *x_, const int32_t *targets, const int32_t *positions, int B, int T, int C,
                       struct stream *stream)
{
    float *x = x_;
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (int n = 0; n < B * T; n++) {
        if (targets[n] < 0) continue;
        int first = first_row(positions, n, T);
        float *out = x + (size_t)n * C, share = 1.0f / (float)(n - first + 1);
        for (int m = first; m < n; m++) {
            const float *row = x + (size_t)m * C;
#pragma omp simd
            for (int c = 0; c < C; c++) out[c] += row[c];
        }
#pragma omp simd
        for (int c = 0; c < C; c++) out[c] *= share;
    }
}

void mean_pool_backward(void *dx_, const int32_t *targets, const int32_t *positions, int B, int T, int C,
                        struct stream *stream)
{
    float *dx = dx_;
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (int n = 0; n < B * T; n++) {
        if (targets[n] < 0) continue;
        int first = first_row(positions, n, T);
        float *pooled = dx + (size_t)n * C, share = 1.0f / (float)(n - first + 1);
#pragma omp simd
        for (int c = 0; c < C; c++) pooled[c] *= share;
        for (int m = first; m < n; m++) {
            float *row = dx + (size_t)m * C;
#pragma omp simd
            for (int c = 0; c < C; c++) row[c] = pooled[c];
        }
    }
}
