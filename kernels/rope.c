/* CPU twin of the rotary embedding. One pass over q and k; a head (HS floats) stays in registers and
 * first-level cache. */

#include <math.h>
#include <string.h>

#include "kernels/device/cpu_device.h"
#include "kernels/simd.h"

/* head (HS) in place; direction 1 rotates, -1 rotates back. cos_sin (HS/2,2) */
static inline void head_rotate(float *head, const float *cos_sin, int HS, float direction)
{
    int half = HS / 2;
#pragma omp simd
    for (int i = 0; i < half; i++) {
        float c = cos_sin[2 * i], s = direction * cos_sin[2 * i + 1];
        float x1 = head[i], x2 = head[half + i];
        head[i] = x1 * c - x2 * s;
        head[half + i] = x2 * c + x1 * s;
    }
}

static void row_rotate(float *row, const float *angles, int heads, int HS, float direction)
{
    for (int h = 0; h < heads; h++) head_rotate(row + (size_t)h * HS, angles, HS, direction);
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
        row_rotate((float *)qkv + (size_t)n * (size_t)(NH + 2 * NKV) * HS,
                   angles_of(cos_sin, positions, n, T, HS), NH + NKV, HS, direction);
}

/* y (HS) = x (HS) normed and rotated; returns rstd. y may be x. */
static float head_forward(float *y, const float *x, const float *weight, const float *angles, int HS,
                          float eps)
{
    float r = 1.0f / sqrtf((float)(simd_dot(x, x, NULL, HS) / HS + (double)eps));
#pragma omp simd
    for (int i = 0; i < HS; i++) y[i] = x[i] * r * weight[i];
    head_rotate(y, angles, HS, 1.0f);
    return r;
}

/* d (HS): from the gradient of y to that of x, in place; dweight (HS) += */
static void head_backward(float *d, float *dweight, const float *x, const float *weight, float r,
                          const float *angles, int HS)
{
    head_rotate(d, angles, HS, -1.0f);
    float mean = (float)(simd_dot(d, weight, x, HS) * r / HS);
#pragma omp simd
    for (int i = 0; i < HS; i++) {
        float norm = x[i] * r, g = d[i];
        dweight[i] += g * norm;
        d[i] = r * (g * weight[i] - norm * mean);
    }
}

void qk_norm_rope_forward(void *out_, float *rstd, const void *qkv_, const void *q_weight_,
                          const void *k_weight_, const float *cos_sin, const int32_t *positions, int B, int T,
                          int NH, int NKV, int HS, float eps, struct stream *stream)
{
    float *out = out_;
    const float *qkv = qkv_, *q_weight = q_weight_, *k_weight = k_weight_;
    long rows = (long)B * T;
    int heads = NH + NKV;
    size_t width = (size_t)(NH + 2 * NKV) * HS;
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (long n = 0; n < rows; n++) {
        const float *angles = angles_of(cos_sin, positions, n, T, HS), *x = qkv + (size_t)n * width;
        float *y = out + (size_t)n * width, *r = rstd + (size_t)n * heads;
        for (int h = 0; h < heads; h++)
            r[h] = head_forward(y + (size_t)h * HS, x + (size_t)h * HS, h < NH ? q_weight : k_weight, angles,
                                HS, eps);
        if (out != qkv)
            memcpy(y + (size_t)heads * HS, x + (size_t)heads * HS, (size_t)NKV * HS * sizeof(float));
    }
}

void qk_norm_rope_backward(void *dqkv_, float *dq_weight, float *dk_weight, const void *qkv_,
                           const float *rstd, const void *q_weight_, const void *k_weight_,
                           const float *cos_sin, const int32_t *positions, void *workspace, int B, int T,
                           int NH, int NKV, int HS, struct stream *stream)
{
    float *dqkv = dqkv_;
    const float *qkv = qkv_, *q_weight = q_weight_, *k_weight = k_weight_;
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
