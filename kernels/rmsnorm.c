/* CPU twin of RMSNorm. A row is read from memory once and again from the first-level cache. In bf16
 * TOGETHER rows are summed before any of them is scaled: a row of a small model takes less time than its sum,
 * square root and division after one another. In fp32 it waits for memory. */

#include <math.h>
#include <string.h>

#include "kernels/device/cpu_device.h"
#include "kernels/real.h"

enum { TOGETHER = REAL_IS_FLOAT ? 1 : 4 };

/* Forward and backward share this function, so that both write the same bits. */
static inline void row_scale(real *out, const real *x, const real *weight, float rstd, int C)
{
    EACH_VECTOR(C, c, count,
                real_put(out + c, real_at(x + c, count) * rstd * real_at(weight + c, count), count););
}

void rmsnorm_forward(void *out, float *rstd, const void *x, const void *weight, int N, int C, float eps,
                     struct stream *stream)
{
    rmsnorm_residual_forward((void *)x, out, rstd, x, NULL, weight, N, C, eps, stream);
}

/* At most TOGETHER rows. delta NULL: sum is x. */
static void residual_rows(real *sum, real *out, float *rstd, const real *x, const real *delta,
                          const real *weight, int rows, int C, float eps)
{
    for (int n = 0; n < rows; n++) {
        size_t at = (size_t)n * C;
        if (delta != NULL)
            EACH_VECTOR(
                C, c, count,
                real_put(sum + at + c, real_at(x + at + c, count) + real_at(delta + at + c, count), count););
        rstd[n] = (float)(real_dot(sum + at, sum + at, NULL, C) / C + (double)eps);
    }
    for (int n = 0; n < rows; n++) rstd[n] = 1.0f / sqrtf(rstd[n]);
    for (int n = 0; n < rows; n++) row_scale(out + (size_t)n * C, sum + (size_t)n * C, weight, rstd[n], C);
}

void rmsnorm_residual_forward(void *sum_, void *out_, float *rstd, const void *x_, const void *delta_,
                              const void *weight, int N, int C, float eps, struct stream *stream)
{
    real *sum = sum_, *out = out_;
    const real *x = x_, *delta = delta_;
    if (N == 1) {
        residual_rows(sum, out, rstd, x, delta, weight, 1, C, eps);
        return;
    }
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (int n = 0; n < N; n += TOGETHER) {
        size_t at = (size_t)n * C;
        residual_rows(sum + at, out + at, rstd + n, x + at, delta != NULL ? delta + at : NULL, weight,
                      N - n < TOGETHER ? N - n : TOGETHER, C, eps);
    }
}

void rmsnorm_backward(void *dx_, float *dweight, void *norm_, const void *dout_, const void *x_,
                      const void *weight_, const float *rstd, void *workspace, int N, int C,
                      struct stream *stream)
{
    real *dx = dx_, *norm = norm_;
    const real *dout = dout_, *x = x_, *weight = weight_;
    float *partial = workspace; /* (chunks, C) */
    int chunks = row_chunk_count(N), rows = row_chunk_rows(N);
#pragma omp parallel num_threads(stream->threads)
    {
#pragma omp for schedule(static)
        for (int chunk = 0; chunk < chunks; chunk++) {
            float *dw = partial + (size_t)chunk * C;
            memset(dw, 0, (size_t)C * sizeof(float));
            int end = N - chunk * rows < rows ? N : (chunk + 1) * rows;
            for (int n = chunk * rows; n < end; n++) {
                size_t at = (size_t)n * C;
                const real *xr = x + at, *dr = dout + at;
                real *dxr = dx + at;
                float r = rstd[n];
                float mean = (float)(real_dot(dr, weight, xr, C) * r / C);
                EACH_VECTOR(C, c, count, {
                    simd_vector h = real_at(xr + c, count) * r, d = real_at(dr + c, count);
                    simd_vector g = d * real_at(weight + c, count);
                    float_put(dw + c, float_at(dw + c, count) + d * h, count);
                    real_put(dxr + c, real_at(dxr + c, count) + r * (g - h * mean), count);
                });
                if (norm) row_scale(norm + at, xr, weight, r, C);
            }
        }
#pragma omp for schedule(static)
        for (int c = 0; c < (dweight ? C : 0); c++) chunks_add(dweight + c, partial + c, chunks, C);
    }
}
