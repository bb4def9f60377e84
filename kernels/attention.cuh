/* Shared by the CUDA twins of attention, and private to them: the problem's shape, and D = dout · out. */
#ifndef ANNEAL_KERNELS_ATTENTION_CUH
#define ANNEAL_KERNELS_ATTENTION_CUH

#include "kernels/element.cuh"

struct attention_shape {
    int B, T, NH, NKV, HS;
    int window;               /* keys that a query sees, itself included; T: all */
    const int32_t *positions; /* (B,T), or NULL */
    float scale;
    const float *cos_sin; /* (longest,HS/2,2): the backward pass rotates dq and dk back; NULL: it does not */
    /* the angles of a row's position */
    __device__ const float *angles(int b, int t) const
    {
        int at = positions == NULL ? t : positions[(size_t)b * (unsigned)T + (unsigned)t];
        return cos_sin + (size_t)at * (unsigned)HS;
    }
    /* offset of row t of a head in qkv and in out, of a query head in lse */
    __device__ size_t qkv(int b, int t, int head) const
    {
        return ((size_t)b * (unsigned)T + (unsigned)t) * qkv_step() + (size_t)head * (unsigned)HS;
    }
    __device__ size_t out(int b, int t, int head) const
    {
        return ((size_t)b * (unsigned)T + (unsigned)t) * out_step() + (size_t)head * (unsigned)HS;
    }
    __device__ size_t lse(int b, int head) const
    {
        return ((size_t)b * (unsigned)NH + (unsigned)head) * (unsigned)T;
    }
    __device__ size_t qkv_step() const /* from a row to the next */
    {
        return (size_t)(NH + 2 * NKV) * (unsigned)HS;
    }
    __device__ size_t out_step() const
    {
        return (size_t)NH * (unsigned)HS;
    }
    /* The first key that query t sees; it only grows with t. It may be negative, and past the last query it
     * is that of a query which sees a key. */
    __device__ int first_seen(int b, int t) const
    {
        int first = t - window + 1;
        if (positions == NULL) return first;
        int last = t < T ? t : T - 1;
        int start = last - positions[(size_t)b * (unsigned)T + (unsigned)last];
        return first > start ? first : start;
    }
    /* the first key of the tiles of N keys that queries from t0 on see, and the end of the queries that see
     * keys before u1 */
    template <int N> __device__ int first_key(int b, int t0) const
    {
        int first = first_seen(b, t0);
        return first > 0 ? first / N * N : 0;
    }
    __device__ int queries_end(int b, int u1) const
    {
        int end = u1 - 1 < T - window ? u1 - 1 + window : T, low = u1;
        if (positions == NULL) return end;
        while (low < end) { /* those before low see a key before u1, those from `end` on do not */
            int middle = low + (end - low) / 2;
            if (first_seen(b, middle) < u1)
                low = middle + 1;
            else
                end = middle;
        }
        return end;
    }
};

/* The part of the forward pass that one block computes: a tile of queries of one head, which have the
 * positions t0, t0 + 1, …, and the keys and values of their sequence from position `from`, a multiple of the
 * tile of keys, up to `end`. Queries from `rows` on and keys from `known` on do not exist. */
template <typename T> struct attention_tile {
    const T *queries, *keys, *values; /* of the first query; of position 0 */
    size_t query_step, key_step;      /* from a row to the next */
    int t0, from, end, rows, known;
};

/* The queries from t0 on of a head in qkv. */
template <int QUERIES, int KEYS, typename T>
__device__ static inline struct attention_tile<T> attention_tile_of(const T *qkv, int b, int h, int t0,
                                                                    const struct attention_shape &p) {
    int kv = p.NH + h / (p.NH / p.NKV);
    return {qkv + p.qkv(b, t0, h),
            qkv + p.qkv(b, 0, kv),
            qkv + p.qkv(b, 0, kv + p.NKV),
            p.qkv_step(),
            p.qkv_step(),
            t0,
            p.template first_key<KEYS>(b, t0),
            t0 + QUERIES < p.T ? t0 + QUERIES : p.T,
            p.T - t0,
            p.T};
}

/* Where an online softmax begins: below every score, and finite, because a query may see no key of the first
 * tile. */
#define SCORE_LEAST (-1e38f)

static inline struct attention_shape
attention_shape_of(const int32_t *positions, int B, int T, int NH, int NKV, int HS, int window)
{
    return {B, T, NH, NKV, HS, attention_window(window, T), positions, (float)(1.0 / sqrt((double)HS)), NULL};
}

enum { PRODUCT_BLOCK = 128, PRODUCT_EACH = 8 };

/* D (B,NH,T) = dout · out, `lanes` lanes per row; the order of the sum does not depend on the alignment. */
template <typename T, int W>
__global__ void attention_row_products(float *__restrict__ products, const T *__restrict__ dout,
                                       const T *__restrict__ out, struct attention_shape p, int lanes)
{
    int each = PRODUCT_BLOCK / lanes, lane = (int)threadIdx.x % lanes;
    size_t row = (size_t)blockIdx.x * (unsigned)each + (unsigned)((int)threadIdx.x / lanes);
    bool there = row < (size_t)p.B * (unsigned)p.T * (unsigned)p.NH;
    int h = (int)(row % (unsigned)p.NH);
    size_t n = row / (unsigned)p.NH, at = row * (unsigned)p.HS;
    float sum = 0;
    for (int i = lane * PRODUCT_EACH; i < (there ? p.HS : 0); i += lanes * PRODUCT_EACH)
        for (int j = i; j < i + PRODUCT_EACH && j < p.HS; j += W) {
            floats<W> x = load<W>(dout + at + (unsigned)j), y = load<W>(out + at + (unsigned)j);
            for (int k = 0; k < W; k++) sum += x.at[k] * y.at[k];
        }
    sum = lanes_sum(sum, lanes);
    int b = (int)(n / (unsigned)p.T), t = (int)(n % (unsigned)p.T);
    if (there && lane == 0) products[p.lse(b, h) + (unsigned)t] = sum;
}

static inline void attention_products(float *products, const void *dout, const void *out,
                                      struct attention_shape p, struct stream *stream)
{
    size_t rows = (size_t)p.B * (size_t)p.T * (size_t)p.NH;
    int lanes = row_lanes((p.HS + PRODUCT_EACH - 1) / PRODUCT_EACH);
    dispatch(stream, p.HS, {dout, out}, [&]<typename T, int W>() {
        LAUNCH((attention_row_products<T, W>), block_count(rows, (unsigned)(PRODUCT_BLOCK / lanes)),
               PRODUCT_BLOCK, 0, stream, products, (const T *)dout, (const T *)out, p, lanes);
    });
}

/* Rotates (low, high) back by an angle. */
__device__ static inline void turn_back(float &low, float &high, float cosine, float sine)
{
    float a = low, b = high;
    low = a * cosine + b * sine;
    high = b * cosine - a * sine;
}

/* bf16 on tensor cores: attention.cu calls these for a bf16 stream. HS is 1 to 256. Tensors may have any
 * alignment; HS a multiple of 8 with 16-byte alignment is fast. The backward pass returns whether it has
 * rotated dq and dk back by cos_sin. */
void attention_bf16_forward(void *out, float *lse, const void *qkv, const int32_t *positions, int B, int T,
                            int NH, int NKV, int HS, int window, struct stream *stream);
bool attention_bf16_backward(void *dqkv, const void *dout, const void *out, const float *lse, const void *qkv,
                             const int32_t *positions, const float *cos_sin, void *workspace, int B, int T,
                             int NH, int NKV, int HS, int window, struct stream *stream);

#endif
