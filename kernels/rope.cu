/* CUDA twin of rope.h. Memory-bound: the query and key heads are read and written once. Plain rotation takes
 * a thread for each pair of elements; with QK-norm a warp takes a head, so that the sum of squares stays in
 * registers. The weights' gradients are summed in the row chunks of partition.h, before dqkv is overwritten.
 */
#include "kernels/column_sum.cuh"
#include "kernels/rope.h"

enum { BLOCK = 256, HEAD_WARPS = 4 };

/* Offsets within qkv (B,T,NH+2*NKV,HS) and cos_sin (T,HS/2,2). */
struct rope_shape {
    int rows, T, NH, NKV, HS;
    __device__ size_t head(int n, int h) const
    {
        return ((size_t)n * (unsigned)(NH + 2 * NKV) + (unsigned)h) * (unsigned)HS;
    }
    __device__ size_t angles(int n) const
    {
        return (size_t)(n % T) * (unsigned)HS;
    }
};

/* (a, b) turned by the angle; direction −1 turns back. */
__device__ static inline void turn(float *a, float *b, const float *cos_sin, int i, float direction)
{
    float c = cos_sin[2 * i], s = direction * cos_sin[2 * i + 1], x1 = *a, x2 = *b;
    *a = x1 * c - x2 * s;
    *b = x2 * c + x1 * s;
}

__global__ void rope_pairs(float *qkv, const float *__restrict__ cos_sin, struct rope_shape p,
                           float direction)
{
    size_t at = (size_t)blockIdx.x * BLOCK + threadIdx.x;
    int half = p.HS / 2, heads = p.NH + p.NKV;
    if (at >= (size_t)p.rows * (unsigned)heads * (unsigned)half) return;
    int i = (int)(at % (unsigned)half);
    at /= (unsigned)half;
    int n = (int)(at / (unsigned)heads), h = (int)(at % (unsigned)heads);
    float *head = qkv + p.head(n, h);
    turn(&head[i], &head[half + i], cos_sin + p.angles(n), i, direction);
}

static void rotate_all(float *qkv, const float *cos_sin, struct rope_shape p, float direction,
                       struct stream *stream)
{
    size_t pairs = (size_t)p.rows * (size_t)(p.NH + p.NKV) * (size_t)(p.HS / 2);
    LAUNCH(rope_pairs, block_count(pairs, BLOCK), BLOCK, 0, stream, qkv, cos_sin, p, direction);
}

void rope_forward(void *qkv_, const float *cos_sin, int B, int T, int NH, int NKV, int HS,
                  struct stream *stream)
{
    float *qkv = (float *)qkv_;
    rotate_all(qkv, cos_sin, rope_shape{B * T, T, NH, NKV, HS}, 1.0f, stream);
}

void rope_backward(void *dqkv_, const float *cos_sin, int B, int T, int NH, int NKV, int HS,
                   struct stream *stream)
{
    float *dqkv = (float *)dqkv_;
    rotate_all(dqkv, cos_sin, rope_shape{B * T, T, NH, NKV, HS}, -1.0f, stream);
}

/* out may be qkv: a lane writes only what it alone has read, after the sum has passed through all lanes. */
__global__ void qk_norm_forward(float *out, float *rstd, const float *qkv, const float *__restrict__ q_weight,
                                const float *__restrict__ k_weight, const float *__restrict__ cos_sin,
                                struct rope_shape p, float eps)
{
    int heads = p.NH + 2 * p.NKV, normed = p.NH + p.NKV, half = p.HS / 2, lane = (int)threadIdx.x % 32;
    size_t at = (size_t)blockIdx.x * HEAD_WARPS + threadIdx.x / 32;
    if (at >= (size_t)p.rows * (unsigned)heads) return;
    int n = (int)(at / (unsigned)heads), h = (int)(at % (unsigned)heads);
    const float *x = qkv + p.head(n, h), *weight = h < p.NH ? q_weight : k_weight,
                *angles = cos_sin + p.angles(n);
    float *y = out + p.head(n, h), squares = 0;
    if (h >= normed) {
        for (int i = lane; out != qkv && i < p.HS; i += 32) y[i] = x[i];
        return;
    }
    for (int i = lane; i < half; i += 32) squares += x[i] * x[i] + x[half + i] * x[half + i];
    float r = 1.0f / sqrtf((float)(warp_sum((double)squares) / p.HS + (double)eps));
    for (int i = lane; i < half; i += 32) {
        float a = x[i] * r * weight[i], b = x[half + i] * r * weight[half + i];
        turn(&a, &b, angles, i, 1.0f);
        y[i] = a;
        y[half + i] = b;
    }
    if (lane == 0) rstd[(size_t)n * (unsigned)normed + (unsigned)h] = r;
}

__global__ void qk_norm_dx(float *dqkv, const float *__restrict__ qkv, const float *__restrict__ rstd,
                           const float *__restrict__ q_weight, const float *__restrict__ k_weight,
                           const float *__restrict__ cos_sin, struct rope_shape p)
{
    int normed = p.NH + p.NKV, half = p.HS / 2, lane = (int)threadIdx.x % 32;
    size_t at = (size_t)blockIdx.x * HEAD_WARPS + threadIdx.x / 32;
    if (at >= (size_t)p.rows * (unsigned)normed) return;
    int n = (int)(at / (unsigned)normed), h = (int)(at % (unsigned)normed);
    const float *x = qkv + p.head(n, h), *weight = h < p.NH ? q_weight : k_weight,
                *angles = cos_sin + p.angles(n);
    float *d = dqkv + p.head(n, h), r = rstd[at], products = 0;
    for (int i = lane; i < half; i += 32) {
        turn(&d[i], &d[half + i], angles, i, -1.0f);
        products += d[i] * weight[i] * x[i] + d[half + i] * weight[half + i] * x[half + i];
    }
    float mean = (float)(warp_sum((double)products) * r / p.HS);
    for (int i = lane; i < half; i += 32) {
        d[i] = r * (d[i] * weight[i] - x[i] * r * mean);
        d[half + i] = r * (d[half + i] * weight[half + i] - x[half + i] * r * mean);
    }
}

/* partial (chunks, 2, HS): what a chunk of rows adds to dq_weight and dk_weight. blockIdx.y: the chunk; a
 * thread takes a pair of elements of one of the two. */
__global__ void qk_norm_dweight(float *partial, const float *__restrict__ dqkv, const float *__restrict__ qkv,
                                const float *__restrict__ rstd, const float *__restrict__ cos_sin,
                                struct rope_shape p, int rows)
{
    int half = p.HS / 2, pair = (int)(blockIdx.x * COLUMN_BLOCK + threadIdx.x), chunk = (int)blockIdx.y;
    if (pair >= 2 * half) return;
    bool key = pair >= half;
    int i = key ? pair - half : pair, end = p.rows - chunk * rows < rows ? p.rows : (chunk + 1) * rows;
    int first = key ? p.NH : 0, last = key ? p.NH + p.NKV : p.NH;
    float low = 0, high = 0;
    for (int n = chunk * rows; n < end; n++)
        for (int h = first; h < last; h++) {
            size_t at = p.head(n, h);
            float a = dqkv[at + (unsigned)i], b = dqkv[at + (unsigned)(half + i)];
            float r = rstd[(size_t)n * (unsigned)(p.NH + p.NKV) + (unsigned)h];
            turn(&a, &b, cos_sin + p.angles(n), i, -1.0f);
            low += a * (qkv[at + (unsigned)i] * r);
            high += b * (qkv[at + (unsigned)(half + i)] * r);
        }
    float *sums = partial + ((size_t)chunk * 2 + key) * (unsigned)p.HS;
    sums[i] = low;
    sums[half + i] = high;
}

void qk_norm_rope_forward(void *out_, float *rstd, const void *qkv_, const void *q_weight_,
                          const void *k_weight_, const float *cos_sin, int B, int T, int NH, int NKV, int HS,
                          float eps, struct stream *stream)
{
    float *out = (float *)out_;
    const float *qkv = (const float *)qkv_;
    const float *q_weight = (const float *)q_weight_;
    const float *k_weight = (const float *)k_weight_;
    struct rope_shape p = {B * T, T, NH, NKV, HS};
    unsigned blocks = block_count((size_t)p.rows * (size_t)(NH + 2 * NKV), HEAD_WARPS);
    LAUNCH(qk_norm_forward, blocks, HEAD_WARPS * 32, 0, stream, out, rstd, qkv, q_weight, k_weight, cos_sin,
           p, eps);
}

void qk_norm_rope_backward(void *dqkv_, float *dq_weight, float *dk_weight, const void *qkv_,
                           const float *rstd, const void *q_weight_, const void *k_weight_,
                           const float *cos_sin, void *workspace, int B, int T, int NH, int NKV, int HS,
                           struct stream *stream)
{
    float *dqkv = (float *)dqkv_;
    const float *qkv = (const float *)qkv_;
    const float *q_weight = (const float *)q_weight_;
    const float *k_weight = (const float *)k_weight_;
    struct rope_shape p = {B * T, T, NH, NKV, HS};
    float *partial = (float *)workspace;
    int chunks = row_chunk_count(p.rows);
    unsigned columns = block_count((size_t)HS, COLUMN_BLOCK);
    unsigned blocks = block_count((size_t)p.rows * (size_t)(NH + NKV), HEAD_WARPS);
    LAUNCH(qk_norm_dweight, dim3(columns, (unsigned)chunks), COLUMN_BLOCK, 0, stream, partial, dqkv, qkv,
           rstd, cos_sin, p, row_chunk_rows(p.rows));
    LAUNCH(qk_norm_dx, blocks, HEAD_WARPS * 32, 0, stream, dqkv, qkv, rstd, q_weight, k_weight, cos_sin, p);
    LAUNCH(column_total, columns, COLUMN_BLOCK, 0, stream, dq_weight, partial, chunks, HS, 2 * HS);
    LAUNCH(column_total, columns, COLUMN_BLOCK, 0, stream, dk_weight, partial + HS, chunks, HS, 2 * HS);
}
