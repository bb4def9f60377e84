/* CPU twin of pooling. One thread computes the whole of a sequence. */

#include <string.h>

#include "kernels/device/cpu_device.h"
#include "kernels/real.h"

/* The first row of the sequence that ends in row n. */
static inline int first_row(const int32_t *positions, int n, int T)
{
    return n - (positions ? positions[n] : n % T);
}

enum { COLUMNS = 64 }; /* at a time: their sums stay in the first-level cache */

void mean_pool_forward(void *x_, const int32_t *targets, const int32_t *positions, int B, int T, int C,
                       struct stream *stream)
{
    real *x = x_;
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (int n = 0; n < B * T; n++) {
        if (targets[n] < 0) continue;
        int first = first_row(positions, n, T);
        float share = 1.0f / (float)(n - first + 1), sum[COLUMNS];
        for (int from = 0; from < C; from += COLUMNS) {
            int count = C - from < COLUMNS ? C - from : COLUMNS;
            real *out = x + (size_t)n * C + from;
            real_widen(sum, out, count);
            for (int m = first; m < n; m++) {
                const real *row = x + (size_t)m * C + from;
#pragma omp simd
                for (int c = 0; c < count; c++) sum[c] += widened(row[c]);
            }
#pragma omp simd
            for (int c = 0; c < count; c++) out[c] = rounded(sum[c] * share);
        }
    }
}

void mean_pool_backward(void *dx_, const int32_t *targets, const int32_t *positions, int B, int T, int C,
                        struct stream *stream)
{
    real *dx = dx_;
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (int n = 0; n < B * T; n++) {
        if (targets[n] < 0) continue;
        int first = first_row(positions, n, T);
        real *pooled = dx + (size_t)n * C;
        float share = 1.0f / (float)(n - first + 1);
        EACH_VECTOR(C, c, count, real_put(pooled + c, real_at(pooled + c, count) * share, count););
        for (int m = first; m < n; m++) memcpy(dx + (size_t)m * C, pooled, (size_t)C * sizeof *pooled);
    }
}
