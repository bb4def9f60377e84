/* CPU twin of the rotary embedding. One pass over q and k; a head (HS elements) stays in registers and
 * first-level cache. */

#include <math.h>
#include <string.h>

#include "kernels/device/cpu_device.h"
#include "kernels/real.h"

/* y (HS) = x (HS) rotated; direction 1 rotates, -1 rotates back. cos_sin (HS/2,2). y may be x. */
static inline void head_rotate(float *y, const float *x, const float *cos_sin, int HS, float direction)
{
    int half = HS / 2;
#pragma omp simd
    for (int i = 0; i < half; i++) {
        float c = cos_sin[2 * i], s = direction * cos_sin[2 * i + 1];
        float x1 = x[i], x2 = x[half + i];
        y[i] = x1 * c - x2 * s;
        y[half + i] = x2 * c + x1 * s;
    }
}

static void row_rotate(real *row, const float *angles, int heads, int HS, float direction)
{
    float buf[REAL_IS_FLOAT ? 1 : HEAD_MAX];
    for (int h = 0; h < heads; h++, row += HS) {
        float *y = real_target(buf, row);
        head_rotate(y, as_floats(buf, row, HS), angles, HS, direction);
        real_round(row, y, HS);
    }
}

/* The angles of row n. */
static inline const float *angles_of(const float *cos_sin, const int32_t *positions, long n, int T, int HS)
{
    return cos_sin + (size_t)(positions ? positions[n] : n % T) * (size_t)HS;
}

void rope(void *qkv, const float *cos_sin, const int32_t *positions, int B, int T, int NH, int NKV, int HS,
          bool back, struct stream *stream)
{
    long rows = (long)B * T;
    float direction = back ? -1.0f : 1.0f;
    if (rows == 1) {
        row_rotate(qkv, angles_of(cos_sin, positions, 0, T, HS), NH + NKV, HS, direction);
        return;
    }
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (long n = 0; n < rows; n++)
        row_rotate((real *)qkv + (size_t)n * (size_t)(NH + 2 * NKV) * HS,
                   angles_of(cos_sin, positions, n, T, HS), NH + NKV, HS, direction);
}

/* y (HS) = x (HS) normed and rotated; returns rstd. y may be x. */
static float head_forward(real *y, const real *x, const real *weight, const float *angles, int HS, float eps)
{
    float buf[REAL_IS_FLOAT ? 1 : HEAD_MAX], *normed = real_target(buf, y);
    float r = 1.0f / sqrtf((float)(real_dot(x, x, NULL, HS) / HS + (double)eps));
#pragma omp simd
    for (int i = 0; i < HS; i++) normed[i] = widened(x[i]) * r * widened(weight[i]);
    head_rotate(normed, normed, angles, HS, 1.0f);
    real_round(y, normed, HS);
    return r;
}

/* d (HS): from the gradient of y to that of x, in place; dweight (HS) += */
static void head_backward(real *d, float *dweight, const real *x_, const real *weight_, float r,
                          const float *angles, int HS)
{
    float buf[3][REAL_IS_FLOAT ? 1 : HEAD_MAX], *g = real_target(buf[0], d);
    const float *x = as_floats(buf[1], x_, HS), *weight = as_floats(buf[2], weight_, HS);
    head_rotate(g, as_floats(buf[0], d, HS), angles, HS, -1.0f);
    float mean = (float)(simd_dot(g, weight, x, HS) * r / HS);
#pragma omp simd
    for (int i = 0; i < HS; i++) {
        float norm = x[i] * r, gi = g[i];
        dweight[i] += gi * norm;
        g[i] = r * (gi * weight[i] - norm * mean);
    }
    real_round(d, g, HS);
}

void qk_norm_rope_forward(void *out_, float *rstd, const void *qkv_, const void *q_weight_,
                          const void *k_weight_, const float *cos_sin, const int32_t *positions, int B, int T,
                          int NH, int NKV, int HS, float eps, struct stream *stream)
{
    real *out = out_;
    const real *qkv = qkv_, *q_weight = q_weight_, *k_weight = k_weight_;
    long rows = (long)B * T;
    int heads = NH + NKV;
    size_t width = (size_t)(NH + 2 * NKV) * HS;
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (long n = 0; n < rows; n++) {
        const float *angles = angles_of(cos_sin, positions, n, T, HS);
        const real *x = qkv + (size_t)n * width;
        real *y = out + (size_t)n * width;
        float *r = rstd + (size_t)n * heads;
        for (int h = 0; h < heads; h++)
            r[h] = head_forward(y + (size_t)h * HS, x + (size_t)h * HS, h < NH ? q_weight : k_weight, angles,
                                HS, eps);
        if (out != qkv)
            memcpy(y + (size_t)heads * HS, x + (size_t)heads * HS, (size_t)NKV * HS * sizeof(real));
    }
}

void qk_norm_rope_backward(void *dqkv_, float *dq_weight, float *dk_weight, const void *qkv_,
                           const float *rstd, const void *q_weight_, const void *k_weight_,
                           const float *cos_sin, const int32_t *positions, void *workspace, int B, int T,
                           int NH, int NKV, int HS, struct stream *stream)
{
    real *dqkv = dqkv_;
    const real *qkv = qkv_, *q_weight = q_weight_, *k_weight = k_weight_;
    int N = B * T, heads = NH + NKV;
    int chunks = row_chunk_count(N), rows = row_chunk_rows(N);
    size_t width = (size_t)(NH + 2 * NKV) * HS;
    float *partial = workspace; /* (chunks, 2, HS): of dq_weight, of dk_weight */
#pragma omp parallel num_threads(stream->threads)
    {
#pragma omp for schedule(static)
        for (int chunk = 0; chunk < chunks; chunk++) {
            float *dw = partial + (size_t)chunk * 2 * HS;
            memset(dw, 0, 2 * (size_t)HS * sizeof(float));
            int end = N - chunk * rows < rows ? N : (chunk + 1) * rows;
            for (int n = chunk * rows; n < end; n++)
                for (int h = 0; h < heads; h++) {
                    size_t at = (size_t)n * width + (size_t)h * HS;
                    head_backward(dqkv + at, h < NH ? dw : dw + HS, qkv + at, h < NH ? q_weight : k_weight,
                                  rstd[(size_t)n * heads + h], angles_of(cos_sin, positions, n, T, HS), HS);
                }
        }
#pragma omp for schedule(static)
        for (int i = 0; i < 2 * HS; i++) {
            float *dw = i < HS ? dq_weight : dk_weight;
            if (dw) chunks_add(dw + i % HS, partial + i, chunks, 2 * HS);
        }
    }
}
