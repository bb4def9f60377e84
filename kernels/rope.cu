/* CUDA twin of the rotary embedding. Memory-bound: the query and key heads are read and written once. A
 * thread moves 16 bytes of each half of a head at once if HS and the addresses allow, else a pair of
 * elements. With QK-norm neighbouring lanes share a head, which stays in their registers. Results are rounded
 * only when they are stored, for any element type. The backward pass has a block per chunk of rows, in which
 * a lane adds up the weights' gradients for the same columns of many heads. */
#include "kernels/column_sum.cuh"
#include "kernels/element.cuh"

enum { BLOCK = 256 };

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

/* The same W elements of both halves of a head. */
template <int W> struct pairs {
    floats<W> low, high;
};

template <int W, typename T>
__device__ static inline struct pairs<W> pairs_load(const T *head, int i, int half) {
    return {load<W>(head + i), load<W>(head + half + i)};
}

template <int W, typename T>
__device__ static inline void pairs_store(T *head, int i, int half, const struct pairs<W> &x)
{
    store<W>(head + i, x.low);
    store<W>(head + half + i, x.high);
}

/* Rotates by the angles of a position; direction −1 rotates back. */
template <int W>
__device__ static inline void pairs_turn(struct pairs<W> &x, const float *angles, int i, float direction)
{
    floats<W> first = load<W>(angles + 2 * i), second = load<W>(angles + 2 * i + W); /* cosine, sine, … */
    auto angle = [&](int j) { return j < W ? first.at[j] : second.at[j - W]; };
    for (int k = 0; k < W; k++) {
        float c = angle(2 * k), s = direction * angle(2 * k + 1), a = x.low.at[k], b = x.high.at[k];
        x.low.at[k] = a * c - b * s;
        x.high.at[k] = b * c + a * s;
    }
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
    T *head = qkv + p.head(n, h);
    struct pairs<W> x = pairs_load<W>(head, i, half);
    pairs_turn<W>(x, cos_sin + p.angles(n), i, direction);
    pairs_store<W>(head, i, half, x);
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

/* Pieces of W pairs that a lane has of a head: enough for HEAD_MAX. */
template <int W> constexpr int PIECES = (HEAD_MAX / 2 + 32 * W - 1) / (32 * W);

/* `lanes` lanes per head. out may be qkv: a lane writes only elements that it alone has read. */
template <typename T, int W>
__global__ void __launch_bounds__(BLOCK)
    qk_norm_forward(T *out, float *rstd, const T *qkv, const T *__restrict__ q_weight,
                    const T *__restrict__ k_weight, const float *__restrict__ cos_sin, struct rope_shape p,
                    float eps, int lanes)
{
    int heads = p.NH + 2 * p.NKV, normed = p.NH + p.NKV, half = p.HS / 2, lane = (int)threadIdx.x % lanes;
    size_t at = (size_t)blockIdx.x * (unsigned)(BLOCK / lanes) + (unsigned)((int)threadIdx.x / lanes);
    bool there = at < (size_t)p.rows * (unsigned)heads;
    int n = there ? (int)(at / (unsigned)heads) : 0, h = (int)(at % (unsigned)heads);
    bool norms = h < normed;
    const T *weight = h < p.NH ? q_weight : k_weight;
    const float *angles = cos_sin + p.angles(n);
    struct pairs<W> x[PIECES<W>];
    float squares = 0;
    for (int e = 0; e < PIECES<W>; e++) {
        int i = (e * lanes + lane) * W;
        if (!there || i >= half) continue;
        x[e] = pairs_load<W>(qkv + p.head(n, h), i, half);
        for (int k = 0; k < W; k++)
            squares += x[e].low.at[k] * x[e].low.at[k] + x[e].high.at[k] * x[e].high.at[k];
    }
    float r = 1.0f / sqrtf((float)(lanes_sum((double)squares, lanes) / p.HS + (double)eps));
    if (!there || (!norms && out == qkv)) return;
    for (int e = 0; e < PIECES<W>; e++) {
        int i = (e * lanes + lane) * W;
        if (i >= half) continue;
        if (norms) {
            struct pairs<W> w = pairs_load<W>(weight, i, half);
            for (int k = 0; k < W; k++) {
                x[e].low.at[k] = x[e].low.at[k] * r * w.low.at[k];
                x[e].high.at[k] = x[e].high.at[k] * r * w.high.at[k];
            }
            pairs_turn<W>(x[e], angles, i, 1.0f);
        }
        pairs_store<W>(out + p.head(n, h), i, half, x[e]);
    }
    if (norms && lane == 0) rstd[(size_t)n * (unsigned)normed + (unsigned)h] = r;
}

/* partial (chunks, 2, HS) = each chunk's part of dq_weight and dk_weight; NULL: not computed. blockIdx.y
 * chooses query or key heads. Row by row, `lanes` lanes have every (BLOCK / lanes)-th of the chunk's heads.
 */
template <typename T, int W>
__global__ void __launch_bounds__(BLOCK)
    qk_norm_gradient(T *dqkv, float *__restrict__ partial, const T *__restrict__ qkv,
                     const float *__restrict__ rstd, const T *__restrict__ q_weight,
                     const T *__restrict__ k_weight, const float *__restrict__ cos_sin, struct rope_shape p,
                     int rows, int lanes)
{
    SHARED_ARRAY(float, shared, BLOCK *PIECES<W> *W * 2); /* (BLOCK / lanes, HS) */
    int half = p.HS / 2, chunk = (int)blockIdx.x, key = (int)blockIdx.y, groups = BLOCK / lanes;
    int group = (int)threadIdx.x / lanes, lane = (int)threadIdx.x % lanes;
    int first = key ? p.NH : 0, heads = key ? p.NKV : p.NH, start = chunk * rows;
    int count = (p.rows - start < rows ? p.rows - start : rows) * heads;
    const T *weight = key ? k_weight : q_weight;
    struct pairs<W> sums[PIECES<W>] = {};
    for (int of = group; of - group < count; of += groups) { /* equally often for all lanes */
        bool there = of < count;
        int n = there ? start + of / heads : 0, h = first + of % heads;
        T *head = dqkv + p.head(n, h);
        struct pairs<W> d[PIECES<W>], x[PIECES<W>], w[PIECES<W>];
        float r = rstd[(size_t)n * (unsigned)(p.NH + p.NKV) + (unsigned)h], products = 0;
        for (int e = 0; e < PIECES<W>; e++) {
            int i = (e * lanes + lane) * W;
            if (!there || i >= half) continue;
            d[e] = pairs_load<W>(head, i, half);
            x[e] = pairs_load<W>(qkv + p.head(n, h), i, half);
            w[e] = pairs_load<W>(weight, i, half);
            pairs_turn<W>(d[e], cos_sin + p.angles(n), i, -1.0f);
            for (int k = 0; k < W; k++)
                products += d[e].low.at[k] * w[e].low.at[k] * x[e].low.at[k] +
                            d[e].high.at[k] * w[e].high.at[k] * x[e].high.at[k];
        }
        float mean = (float)(lanes_sum((double)products, lanes) * r / p.HS);
        auto change = [&](float &gradient, float &sum, float value, float factor) {
            sum += gradient * (value * r);
            gradient = r * (gradient * factor - value * r * mean);
        };
        for (int e = 0; e < PIECES<W>; e++) {
            int i = (e * lanes + lane) * W;
            if (!there || i >= half) continue;
            for (int k = 0; k < W; k++) {
                change(d[e].low.at[k], sums[e].low.at[k], x[e].low.at[k], w[e].low.at[k]);
                change(d[e].high.at[k], sums[e].high.at[k], x[e].high.at[k], w[e].high.at[k]);
            }
            pairs_store<W>(head, i, half, d[e]);
        }
    }
    if (partial == NULL) return;
    for (int e = 0; e < PIECES<W>; e++) {
        int i = (e * lanes + lane) * W;
        for (int k = 0; k < (i < half ? W : 0); k++) {
            shared[group * p.HS + i + k] = sums[e].low.at[k];
            shared[group * p.HS + half + i + k] = sums[e].high.at[k];
        }
    }
    __syncthreads();
    for (int c = (int)threadIdx.x; c < p.HS; c += BLOCK) {
        float total = 0;
        for (int g = 0; g < groups; g++) total += shared[g * p.HS + c];
        partial[((size_t)chunk * 2 + (unsigned)key) * (unsigned)p.HS + (unsigned)c] = total;
    }
}

void qk_norm_rope_forward(void *out, float *rstd, const void *qkv, const void *q_weight, const void *k_weight,
                          const float *cos_sin, const int32_t *positions, int B, int T, int NH, int NKV,
                          int HS, float eps, struct stream *stream)
{
    struct rope_shape p = {B * T, T, NH, NKV, HS, positions};
    if (!head_width_ok(HS, stream)) return;
    dispatch(stream, HS / 2, {out, qkv, q_weight, k_weight, cos_sin}, [&]<typename E, int W>() {
        int lanes = row_lanes((HS / 2 + W - 1) / W);
        unsigned blocks = block_count((size_t)p.rows * (size_t)(NH + 2 * NKV), (unsigned)(BLOCK / lanes));
        LAUNCH((qk_norm_forward<E, W>), blocks, BLOCK, 0, stream, (E *)out, rstd, (const E *)qkv,
               (const E *)q_weight, (const E *)k_weight, cos_sin, p, eps, lanes);
    });
}

void qk_norm_rope_backward(void *dqkv, float *dq_weight, float *dk_weight, const void *qkv, const float *rstd,
                           const void *q_weight, const void *k_weight, const float *cos_sin,
                           const int32_t *positions, void *workspace, int B, int T, int NH, int NKV, int HS,
                           struct stream *stream)
{
    struct rope_shape p = {B * T, T, NH, NKV, HS, positions};
    float *partial = dq_weight != NULL || dk_weight != NULL ? (float *)workspace : NULL;
    int chunks = norm_chunk_count(p.rows);
    if (!head_width_ok(HS, stream)) return;
    dispatch(stream, HS / 2, {dqkv, qkv, q_weight, k_weight, cos_sin}, [&]<typename E, int W>() {
        LAUNCH((qk_norm_gradient<E, W>), dim3((unsigned)chunks, 2), BLOCK, 0, stream, (E *)dqkv, partial,
               (const E *)qkv, rstd, (const E *)q_weight, (const E *)k_weight, cos_sin, p,
               norm_chunk_rows(p.rows), row_lanes((HS / 2 + W - 1) / W));
    });
    if (dq_weight != NULL) column_total_launch(dq_weight, partial, chunks, HS, 2 * HS, stream);
    if (dk_weight != NULL) column_total_launch(dk_weight, partial + HS, chunks, HS, 2 * HS, stream);
}
