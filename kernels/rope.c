/* CPU twin of the rotary embedding. One pass over q and k; a head (HS elements) stays in registers and
 * first-level cache. The norms of all heads of a row are computed before any head is scaled, so that no head
 * waits for its own sum, square root and division. */

#include <math.h>
#include <string.h>

#include "kernels/device/cpu_device.h"
#include "kernels/real.h"

/* Cosines and sines of a row's angles, each in an array of its own, as vectors need them. */
struct angles {
    float cos[HEAD_MAX / 2], sin[HEAD_MAX / 2];
};

/* The angles of row n at its position, from cos_sin (T, HS/2, 2). direction: 1 rotates, -1 rotates back. */
static inline void angles_load(struct angles *out, const float *cos_sin, const int32_t *positions, long n,
                               int T, int HS, float direction)
{
    const float *row = cos_sin + (size_t)(positions ? positions[n] : n % T) * (size_t)HS;
#pragma omp simd
    for (int i = 0; i < HS / 2; i++) {
        out->cos[i] = row[2 * i];
        out->sin[i] = direction * row[2 * i + 1];
    }
}

static inline void rotate(simd_vector *x1, simd_vector *x2, const struct angles *angles, int i, int count)
{
    simd_vector c = float_at(angles->cos + i, count), s = float_at(angles->sin + i, count);
    simd_vector y1 = *x1 * c - *x2 * s;
    *x2 = *x2 * c + *x1 * s;
    *x1 = y1;
}

static void row_rotate(real *row, const struct angles *angles, int heads, int HS)
{
    int half = HS / 2;
    for (int h = 0; h < heads; h++, row += HS)
        EACH_VECTOR(half, i, count, {
            simd_vector x1 = real_at(row + i, count), x2 = real_at(row + half + i, count);
            rotate(&x1, &x2, angles, i, count);
            real_put(row + i, x1, count);
            real_put(row + half + i, x2, count);
        });
}

void rope(void *qkv, const float *cos_sin, const int32_t *positions, int B, int T, int NH, int NKV, int HS,
          bool back, struct stream *stream)
{
    long rows = (long)B * T;
    float direction = back ? -1.0f : 1.0f;
    if (rows == 1) {
        struct angles angles;
        angles_load(&angles, cos_sin, positions, 0, T, HS, direction);
        row_rotate(qkv, &angles, NH + NKV, HS);
        return;
    }
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (long n = 0; n < rows; n++) {
        struct angles angles;
        angles_load(&angles, cos_sin, positions, n, T, HS, direction);
        real_fetch((real *)qkv + (size_t)(n + 1) * (size_t)(NH + 2 * NKV) * HS, (NH + NKV) * HS);
        row_rotate((real *)qkv + (size_t)n * (size_t)(NH + 2 * NKV) * HS, &angles, NH + NKV, HS);
    }
}

/* y (HS) = x (HS) normed and rotated. y may be x. */
static void head_forward(real *y, const real *x, const real *weight, float r, const struct angles *angles,
                         int HS)
{
    int half = HS / 2;
    EACH_VECTOR(half, i, count, {
        simd_vector x1 = real_at(x + i, count) * r * real_at(weight + i, count);
        simd_vector x2 = real_at(x + half + i, count) * r * real_at(weight + half + i, count);
        rotate(&x1, &x2, angles, i, count);
        real_put(y + i, x1, count);
        real_put(y + half + i, x2, count);
    });
}

/* d (HS): from the gradient of y to that of x, in place; dweight (HS) += */
static void head_backward(real *d, float *dweight, const real *x, const real *weight, float r,
                          const struct angles *angles, int HS)
{
    int half = HS / 2;
    float g[HEAD_MAX];
    simd_vector total = {0};
    EACH_VECTOR(half, i, count, {
        simd_vector g1 = real_at(d + i, count), g2 = real_at(d + half + i, count);
        rotate(&g1, &g2, angles, i, count);
        float_put(g + i, g1, count);
        float_put(g + half + i, g2, count);
        total += g1 * real_at(weight + i, count) * real_at(x + i, count);
        total += g2 * real_at(weight + half + i, count) * real_at(x + half + i, count);
    });
    float mean = simd_total(total) * r / (float)HS;
    EACH_VECTOR(HS, i, count, {
        simd_vector norm = real_at(x + i, count) * r, gi = float_at(g + i, count);
        float_put(dweight + i, float_at(dweight + i, count) + gi * norm, count);
        real_put(d + i, r * (gi * real_at(weight + i, count) - norm * mean), count);
    });
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
        struct angles angles;
        angles_load(&angles, cos_sin, positions, n, T, HS, 1.0f);
        const real *x = qkv + (size_t)n * width;
        real *y = out + (size_t)n * width;
        float *r = rstd + (size_t)n * heads;
        real_fetch(x + width, (int)width);
        for (int h = 0; h < heads; h++)
            r[h] = (float)(real_dot(x + (size_t)h * HS, x + (size_t)h * HS, NULL, HS) / HS + (double)eps);
        for (int h = 0; h < heads; h++) r[h] = 1.0f / sqrtf(r[h]);
        for (int h = 0; h < heads; h++)
            head_forward(y + (size_t)h * HS, x + (size_t)h * HS, h < NH ? q_weight : k_weight, r[h], &angles,
                         HS);
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
            for (int n = chunk * rows; n < end; n++) {
                struct angles angles;
                angles_load(&angles, cos_sin, positions, n, T, HS, -1.0f);
                real_fetch(dqkv + (size_t)(n + 1) * width, heads * HS);
                real_fetch(qkv + (size_t)(n + 1) * width, heads * HS);
                for (int h = 0; h < heads; h++) {
                    size_t at = (size_t)n * width + (size_t)h * HS;
                    head_backward(dqkv + at, h < NH ? dw : dw + HS, qkv + at, h < NH ? q_weight : k_weight,
                                  rstd[(size_t)n * heads + h], &angles, HS);
                }
            }
        }
#pragma omp for schedule(static)
        for (int i = 0; i < 2 * HS; i++) {
            float *dw = i < HS ? dq_weight : dk_weight;
            if (dw) chunks_add(dw + i % HS, partial + i, chunks, 2 * HS);
        }
    }
}
