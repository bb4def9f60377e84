/* CUDA twin of the rotary embedding. Memory-bound: the query and key heads are read and written once. Plain
 * rotation processes 16 bytes of each half of a head per thread if HS and the addresses allow, else a pair of
 * elements; with QK-norm a warp processes a head, so that the sum of squares stays in registers. Results are
 * rounded only when they are stored, for any element type. The weights' gradients are summed in the row
 * chunks of partition.h, before dqkv is overwritten. */
#include "kernels/column_sum.cuh"
#include "kernels/element.cuh"

enum { BLOCK = 256, HEAD_WARPS = 4, WEIGHT_WARPS = 16 };

/* Offsets within qkv (B,T,NH+2*NKV,HS) and cos_sin (positions,HS/2,2). */
struct rope_shape {
    int rows, T, NH, NKV, HS;
    const int32_t *positions; /* (B,T); NULL: t */
    __device__ size_t head(int n, int h) const
    {
        return ((size_t)n * (unsigned)(NH + 2 * NKV) + (unsigned)h) * (unsigned)HS;
    }
    __device__ size_t angles(int n) const
    {
        return (size_t)(positions != NULL ? positions[n] : n % T) * (unsigned)HS;
    }
};

/* Rotates (a, b) by the angle; direction −1 rotates back. */
__device__ static inline void turn(float *a, float *b, float cosine, float sine, float direction)
{
    float c = cosine, s = direction * sine, x1 = *a, x2 = *b;
    *a = x1 * c - x2 * s;
    *b = x2 * c + x1 * s;
}

/* W pairs of a head per thread. */
template <typename T, int W>
__global__ void rope_pairs(T *qkv, const float *__restrict__ cos_sin, struct rope_shape p, float direction)
{
    size_t at = (size_t)blockIdx.x * BLOCK + threadIdx.x;
    int half = p.HS / 2, heads = p.NH + p.NKV, groups = half / W;
    if (at >= (size_t)p.rows * (unsigned)heads * (unsigned)groups) return;
    int i = (int)(at % (unsigned)groups) * W;
    at /= (unsigned)groups;
    int n = (int)(at / (unsigned)heads), h = (int)(at % (unsigned)heads);
    T *low = qkv + p.head(n, h) + i, *high = low + half;
    floats<W> a = load<W>(low), b = load<W>(high);
    const float *angles = cos_sin + p.angles(n) + 2 * i;
    floats<W> first = load<W>(angles), second = load<W>(angles + W); /* cosine and sine alternate */
    auto angle = [&](int j) { return j < W ? first.at[j] : second.at[j - W]; };
    for (int k = 0; k < W; k++) turn(&a.at[k], &b.at[k], angle(2 * k), angle(2 * k + 1), direction);
    store<W>(low, a);
    store<W>(high, b);
}

void rope(void *qkv, const float *cos_sin, const int32_t *positions, int B, int T, int NH, int NKV, int HS,
          bool back, struct stream *stream)
{
    struct rope_shape p = {B * T, T, NH, NKV, HS, positions};
    size_t pairs = (size_t)p.rows * (size_t)(NH + NKV) * (size_t)(HS / 2);
    dispatch(stream, HS / 2, {qkv, cos_sin}, [&]<typename E, int W>() {
        LAUNCH((rope_pairs<E, W>), block_count(pairs / W, BLOCK), BLOCK, 0, stream, (E *)qkv, cos_sin, p,
               back ? -1.0f : 1.0f);
    });
}

/* Elements i and half + i of a head. */
struct pair {
    float low, high;
};

template <typename T> __device__ static inline struct pair pair_load(const T *head, int i, int half)
{
    return {element_load(head + i), element_load(head + half + i)};
}

template <typename T>
__device__ static inline struct pair pair_turned(const T *head, const float *angles, int i, int half,
                                                 float direction)
{
    struct pair d = pair_load(head, i, half);
    turn(&d.low, &d.high, angles[2 * i], angles[2 * i + 1], direction);
    return d;
}

/* out may be qkv: a lane writes only elements that it alone has read, after the sum over all lanes. */
template <typename T>
__global__ void qk_norm_forward(T *out, float *rstd, const T *qkv, const T *__restrict__ q_weight,
                                const T *__restrict__ k_weight, const float *__restrict__ cos_sin,
                                struct rope_shape p, float eps)
{
    int heads = p.NH + 2 * p.NKV, normed = p.NH + p.NKV, half = p.HS / 2, lane = (int)threadIdx.x % 32;
    size_t at = (size_t)blockIdx.x * HEAD_WARPS + threadIdx.x / 32;
    if (at >= (size_t)p.rows * (unsigned)heads) return;
    int n = (int)(at / (unsigned)heads), h = (int)(at % (unsigned)heads);
    const T *x = qkv + p.head(n, h), *weight = h < p.NH ? q_weight : k_weight;
    const float *angles = cos_sin + p.angles(n);
    T *y = out + p.head(n, h);
    float squares = 0;
    if (h >= normed) {
        for (int i = lane; out != qkv && i < p.HS; i += 32) y[i] = x[i];
        return;
    }
    for (int i = lane; i < half; i += 32) {
        struct pair a = pair_load(x, i, half);
        squares += a.low * a.low + a.high * a.high;
    }
    float r = 1.0f / sqrtf((float)(warp_sum((double)squares) / p.HS + (double)eps));
    for (int i = lane; i < half; i += 32) {
        struct pair a = pair_load(x, i, half), w = pair_load(weight, i, half);
        a.low = a.low * r * w.low;
        a.high = a.high * r * w.high;
        turn(&a.low, &a.high, angles[2 * i], angles[2 * i + 1], 1.0f);
        element_store(y + i, a.low);
        element_store(y + half + i, a.high);
    }
    if (lane == 0) rstd[(size_t)n * (unsigned)normed + (unsigned)h] = r;
}

/* Each of two passes rotates the gradient back, so that nothing has to be stored between them. */
template <typename T>
__global__ void qk_norm_dx(T *dqkv, const T *__restrict__ qkv, const float *__restrict__ rstd,
                           const T *__restrict__ q_weight, const T *__restrict__ k_weight,
                           const float *__restrict__ cos_sin, struct rope_shape p)
{
    int normed = p.NH + p.NKV, half = p.HS / 2, lane = (int)threadIdx.x % 32;
    size_t at = (size_t)blockIdx.x * HEAD_WARPS + threadIdx.x / 32;
    if (at >= (size_t)p.rows * (unsigned)normed) return;
    int n = (int)(at / (unsigned)normed), h = (int)(at % (unsigned)normed);
    const T *x = qkv + p.head(n, h), *weight = h < p.NH ? q_weight : k_weight;
    const float *angles = cos_sin + p.angles(n);
    T *head = dqkv + p.head(n, h);
    float r = rstd[at], products = 0;
    for (int i = lane; i < half; i += 32) {
        struct pair d = pair_turned(head, angles, i, half, -1.0f), a = pair_load(x, i, half),
                    w = pair_load(weight, i, half);
        products += d.low * w.low * a.low + d.high * w.high * a.high;
    }
    float mean = (float)(warp_sum((double)products) * r / p.HS);
    for (int i = lane; i < half; i += 32) {
        struct pair d = pair_turned(head, angles, i, half, -1.0f), a = pair_load(x, i, half),
                    w = pair_load(weight, i, half);
        element_store(head + i, r * (d.low * w.low - a.low * r * mean));
        element_store(head + half + i, r * (d.high * w.high - a.high * r * mean));
    }
}

/* partial (chunks, 2, HS): the part of a chunk of rows in dq_weight and dk_weight. blockIdx.x selects one of
 * the two, blockIdx.y the chunk. Of the chunk's heads, row by row, a warp processes every WEIGHT_WARPS-th, a
 * lane a pair of elements of each; then the warps' sums are added. */
template <typename T>
__global__ void __launch_bounds__(WEIGHT_WARPS * 32)
    qk_norm_dweight(float *partial, const T *__restrict__ dqkv, const T *__restrict__ qkv,
                    const float *__restrict__ rstd, const float *__restrict__ cos_sin, struct rope_shape p,
                    int rows)
{
    SHARED_ARRAY(float, sums, WEIGHT_WARPS * 64); /* of a warp: 32 low, 32 high */
    int half = p.HS / 2, chunk = (int)blockIdx.y, warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    bool key = blockIdx.x == 1;
    int first = key ? p.NH : 0, heads = key ? p.NKV : p.NH, start = chunk * rows;
    int count = (p.rows - start < rows ? p.rows - start : rows) * heads;
    float *out = partial + ((size_t)chunk * 2 + key) * (unsigned)p.HS;
    for (int base = 0; base < half; base += 32) {
        int i = base + lane;
        int own = i < half ? count : 0;
        float low = 0, high = 0;
#pragma unroll 4
        for (int of = warp; of < own; of += WEIGHT_WARPS) {
            int n = start + of / heads, h = first + of % heads;
            size_t at = p.head(n, h);
            float r = rstd[(size_t)n * (unsigned)(p.NH + p.NKV) + (unsigned)h];
            struct pair d = pair_turned(dqkv + at, cos_sin + p.angles(n), i, half, -1.0f),
                        a = pair_load(qkv + at, i, half);
            low += d.low * (a.low * r);
            high += d.high * (a.high * r);
        }
        sums[warp * 64 + lane] = low;
        sums[warp * 64 + 32 + lane] = high;
        __syncthreads();
        if (warp < 2 && i < half) { /* the first warp adds the low ones, the second the high ones */
            float total = 0;
            for (int w = 0; w < WEIGHT_WARPS; w++) total += sums[w * 64 + warp * 32 + lane];
            out[warp * half + i] = total;
        }
        __syncthreads();
    }
}

void qk_norm_rope_forward(void *out, float *rstd, const void *qkv, const void *q_weight, const void *k_weight,
                          const float *cos_sin, const int32_t *positions, int B, int T, int NH, int NKV,
                          int HS, float eps, struct stream *stream)
{
    struct rope_shape p = {B * T, T, NH, NKV, HS, positions};
    unsigned blocks = block_count((size_t)p.rows * (size_t)(NH + 2 * NKV), HEAD_WARPS);
    dispatch_scalar(stream, [&]<typename E>() {
        LAUNCH(qk_norm_forward<E>, blocks, HEAD_WARPS * 32, 0, stream, (E *)out, rstd, (const E *)qkv,
               (const E *)q_weight, (const E *)k_weight, cos_sin, p, eps);
    });
}

void qk_norm_rope_backward(void *dqkv, float *dq_weight, float *dk_weight, const void *qkv, const float *rstd,
                           const void *q_weight, const void *k_weight, const float *cos_sin,
                           const int32_t *positions, void *workspace, int B, int T, int NH, int NKV, int HS,
                           struct stream *stream)
{
    struct rope_shape p = {B * T, T, NH, NKV, HS, positions};
    float *partial = (float *)workspace;
    int chunks = row_chunk_count(p.rows);
    unsigned blocks = block_count((size_t)p.rows * (size_t)(NH + NKV), HEAD_WARPS);
    dispatch_scalar(stream, [&]<typename E>() {
        if (dq_weight != NULL || dk_weight != NULL)
            LAUNCH(qk_norm_dweight<E>, dim3(2, (unsigned)chunks), WEIGHT_WARPS * 32, 0, stream, partial,
                   (const E *)dqkv, (const E *)qkv, rstd, cos_sin, p, row_chunk_rows(p.rows));
        LAUNCH(qk_norm_dx<E>, blocks, HEAD_WARPS * 32, 0, stream, (E *)dqkv, (const E *)qkv, rstd,
               (const E *)q_weight, (const E *)k_weight, cos_sin, p);
    });
    if (dq_weight != NULL) column_total_launch(dq_weight, partial, chunks, HS, 2 * HS, stream);
    if (dk_weight != NULL) column_total_launch(dk_weight, partial + HS, chunks, HS, 2 * HS, stream);
}
