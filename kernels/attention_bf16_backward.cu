/* The backward half of attention in bf16, in two passes, so that no sum needs atomics and each has a fixed
 * order: one over key tiles for dk and dv, one over query tiles for dq. Both recompute the probabilities: 7
 * products instead of 5, 14·HS operations per score, which makes it compute-bound.
 *
 * The pass over key tiles computes scores transposed, keys in rows: p and ds leave the tensor cores as the
 * left operands of the products for dv and dk, without passing through shared memory. A block is a tile of
 * keys of one key/value head; it loops over the query tiles from the diagonal to the last that sees the keys,
 * for each query head of the group. The pass over query tiles is structured like the forward.
 *
 * Tiles: up to D 64, two fragments of rows per warp (MT 2), which halves the traffic of shared memory. Above,
 * dk and dv take D registers per thread with MT 1 already, and above D 128 they no longer fit: SPLIT 2 blocks
 * share a key tile, each with half of the columns of dk and dv, and both compute p and ds. Steps of 32 rows
 * of the other side keep p and ds in registers and leave room for two blocks per multiprocessor of compute
 * capability 8.0; D 256 uses 16. The product for ds over keys is unrolled by two only, because full unrolling
 * spills for D 64. Compute capability 9.0 has its own kernels for D 64 and 128: attention_hopper_backward.cu.
 */
#include "kernels/attention_bf16.cuh"

/* The position of a block in the pass over keys: query tile t0 of head h. */
struct queries_place {
    int h, t0;
};

template <int D, int MT, int BM, int SPLIT>
__global__ void __launch_bounds__(THREADS)
    attention_bf16_keys_backward(bf16 *__restrict__ dqkv, const bf16 *__restrict__ dout,
                                 const float *__restrict__ lse, const float *__restrict__ products,
                                 const bf16 *__restrict__ qkv, struct attention_bf16_shape p)
{
    enum { BN = 16 * MT * WARPS, NT = BM / 8, DT = D / SPLIT / 8 };
    static_assert(BN % BM == 0, "the first query tile begins with the key tile");
    SHARED_DYNAMIC(bf16, shared);
    SHARED_ARRAY(float, statistics, 2 * 2 * BM); /* per stage: lse, D */
    shared_pointer<bf16> keys = shared, values = keys + BN * D, queries = values + BN * D,
                         gradients = queries + 2 * BM * D;
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    int u0 = (int)blockIdx.x / SPLIT * BN, column = (int)blockIdx.x % SPLIT * (D / SPLIT);
    int kv = (int)blockIdx.y, b = (int)blockIdx.z, group = p.NH / p.NKV;
    int row = warp * 16 * MT; /* the warp's first key in the tile */
    int end = p.queries_end(b, u0 + BN);
    float scale = p.scale * LOG2_E;
    float dk[MT][DT][4], dv[MT][DT][4];
    zero(dk);
    zero(dv);

    auto load_queries = [&](struct queries_place at, int stage) {
        int rows = p.T - at.t0;
        size_t first = p.lse(b, at.h) + (unsigned)at.t0;
        tile_copy<D, BM>(queries + stage * BM * D, qkv + p.qkv(b, at.t0, at.h), p.qkv_step(), rows, p);
        tile_copy<D, BM>(gradients + stage * BM * D, dout + p.out(b, at.t0, at.h), p.out_step(), rows, p);
        if ((int)threadIdx.x < 2 * BM) {
            int i = (int)threadIdx.x % BM, second = (int)threadIdx.x / BM;
            const float *from = second ? products : lse;
            bool there = i < rows; /* with 0 for both and rows of zeros, a missing row adds nothing */
            copy_async4(statistics + (stage * 2 * BM + (int)threadIdx.x),
                        from + first + (there ? (unsigned)i : 0), there);
        }
        copy_commit();
    };
    struct queries_place at = {kv * group, u0}, next;
    tile_copy<D, BN>(keys, qkv + p.qkv(b, u0, p.NH + kv), p.qkv_step(), p.T - u0, p);
    tile_copy<D, BN>(values, qkv + p.qkv(b, u0, p.NH + p.NKV + kv), p.qkv_step(), p.T - u0, p);
    load_queries(at, 0);
    copy_wait<0>();
    __syncthreads();

    for (int stage = 0; at.h < (kv + 1) * group; at = next, stage ^= 1) {
        next = at.t0 + BM < end ? queries_place{at.h, at.t0 + BM} : queries_place{at.h + 1, u0};
        if (next.h < (kv + 1) * group) load_queries(next, stage ^ 1);
        /* else no query of the tile sees a key of the warp */
        if (at.t0 + BM > u0 + row && p.first_seen(b, at.t0) < u0 + row + 16 * MT) {
            float s[MT][NT][4], ds[MT][NT][4];
            shared_pointer<float> of = statistics + stage * 2 * BM;
            zero(s);
            rows_product<D, D / 16, MT, NT>(s, keys, row, queries + stage * BM * D);
            if (at.t0 + 1 < u0 + row + 16 * MT) causal_mask<true, MT, NT>(s, u0 + row - at.t0);
            if (p.first_seen(b, at.t0 + BM - 1) > u0 + row)
                first_mask<true, MT, NT>(s, u0 + row, at.t0, b, p);
#pragma unroll
            for (int n = 0; n < NT; n++)
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    int c = 8 * n + lane % 4 * 2 + j;
                    float shift = of[c] * LOG2_E;
#pragma unroll
                    for (int m = 0; m < MT; m++)
#pragma unroll
                        for (int i = 0; i < 2; i++)
                            s[m][n][2 * i + j] = exp2_approx(s[m][n][2 * i + j] * scale - shift);
                }
            weighted_sum<D, MT, NT, DT>(dv, s, gradients + stage * BM * D, column);
            zero(ds);
            rows_product<D, 2, MT, NT>(ds, values, row, gradients + stage * BM * D);
#pragma unroll
            for (int n = 0; n < NT; n++)
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    float product = of[BM + 8 * n + lane % 4 * 2 + j];
#pragma unroll
                    for (int m = 0; m < MT; m++)
#pragma unroll
                        for (int i = 0; i < 2; i++)
                            ds[m][n][2 * i + j] = s[m][n][2 * i + j] * (ds[m][n][2 * i + j] - product);
                }
            weighted_sum<D, MT, NT, DT>(dk, ds, queries + stage * BM * D, column);
        }
        copy_wait<0>();
        __syncthreads();
    }

#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int u = u0 + row + 16 * m + 8 * i + lane / 4;
            if (u >= p.T) continue;
            if constexpr (SPLIT == 1)
                if (p.cos_sin != NULL) row_turn_back<DT>(dk[m], i, p.angles(b, u));
            row_store<DT>(dqkv + p.qkv(b, u, p.NH + kv), dk[m], i, column, p.scale, p);
            row_store<DT>(dqkv + p.qkv(b, u, p.NH + p.NKV + kv), dv[m], i, column, 1.0f, p);
        }
}

template <int D, int MT, int BN>
__global__ void __launch_bounds__(THREADS)
    attention_bf16_queries_backward(bf16 *__restrict__ dqkv, const bf16 *__restrict__ dout,
                                    const float *__restrict__ lse, const float *__restrict__ products,
                                    const bf16 *__restrict__ qkv, struct attention_bf16_shape p)
{
    enum { BM = 16 * MT * WARPS, NT = BN / 8, DT = D / 8 };
    SHARED_DYNAMIC(bf16, shared);
    shared_pointer<bf16> queries = shared, gradients = queries + BM * D, keys = gradients + BM * D,
                         values = keys + 2 * BN * D;
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    int t0 = (int)(gridDim.x - 1 - blockIdx.x) * BM; /* longest tiles first */
    int h = (int)blockIdx.y, b = (int)blockIdx.z, kv = p.NH + h / (p.NH / p.NKV);
    int end = t0 + BM < p.T ? t0 + BM : p.T, row = t0 + warp * 16 * MT; /* the warp's first row */
    size_t step = p.qkv_step();
    float scale = p.scale * LOG2_E;
    float dq[MT][DT][4], shift[MT][2], product[MT][2];
    zero(dq);
    tile_copy<D, BM>(queries, qkv + p.qkv(b, t0, h), step, p.T - t0, p);
    tile_copy<D, BM>(gradients, dout + p.out(b, t0, h), p.out_step(), p.T - t0, p);
    int first = p.first_key<BN>(b, t0);
    int seen = p.first_seen(b, row), seen_by_last = p.first_seen(b, row + 16 * MT - 1);
    tile_copy<D, BN>(keys, qkv + p.qkv(b, first, kv), step, p.T - first, p);
    tile_copy<D, BN>(values, qkv + p.qkv(b, first, kv + p.NKV), step, p.T - first, p);
    copy_commit();
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int t = row + 16 * m + 8 * i + lane / 4;
            shift[m][i] = t < p.T ? lse[p.lse(b, h) + (unsigned)t] * LOG2_E : 0.0f;
            product[m][i] = t < p.T ? products[p.lse(b, h) + (unsigned)t] : 0.0f;
        }
    copy_wait<0>();
    __syncthreads();

    for (int u0 = first, stage = 0; u0 < end; u0 += BN, stage ^= 1) {
        int next = u0 + BN;
        if (next < end) {
            tile_copy<D, BN>(keys + (stage ^ 1) * BN * D, qkv + p.qkv(b, next, kv), step, p.T - next, p);
            tile_copy<D, BN>(values + (stage ^ 1) * BN * D, qkv + p.qkv(b, next, kv + p.NKV), step,
                             p.T - next, p);
            copy_commit();
        }
        if (u0 < row + 16 * MT && u0 + BN > seen) { /* else no row of the warp sees a key of the tile */
            float s[MT][NT][4], ds[MT][NT][4];
            zero(s);
            zero(ds);
            rows_product<D, D / 16, MT, NT>(s, queries, row - t0, keys + stage * BN * D);
            if (u0 + BN > row + 1) causal_mask<false, MT, NT>(s, row - u0);
            if (u0 < seen_by_last) first_mask<false, MT, NT>(s, row, u0, b, p);
            rows_product<D, D / 16, MT, NT>(ds, gradients, row - t0, values + stage * BN * D);
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int n = 0; n < NT; n++)
#pragma unroll
                    for (int i = 0; i < 4; i++)
                        ds[m][n][i] = exp2_approx(s[m][n][i] * scale - shift[m][i / 2]) *
                                      (ds[m][n][i] - product[m][i / 2]);
            weighted_sum<D, MT, NT, DT>(dq, ds, keys + stage * BN * D, 0);
        }
        copy_wait<0>();
        __syncthreads();
    }

#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int t = row + 16 * m + 8 * i + lane / 4;
            if (t >= p.T) continue;
            if (p.cos_sin != NULL) row_turn_back<DT>(dq[m], i, p.angles(b, t));
            row_store<DT>(dqkv + p.qkv(b, t, h), dq[m], i, 0, p.scale, p);
        }
}

/* MT, BM and SPLIT for the pass over keys; MT and BN for the pass over queries. */
template <int D, int KEYS_MT, int BM, int SPLIT, int QUERIES_MT, int BN>
static void backward_launch(bf16 *dqkv, const bf16 *dout, const float *lse, const float *products,
                            const bf16 *qkv, struct attention_bf16_shape p, struct stream *stream)
{
    constexpr int KEYS = 16 * KEYS_MT * WARPS, QUERIES = 16 * QUERIES_MT * WARPS;
    constexpr size_t keys_bytes = (size_t)(2 * KEYS + 4 * BM) * D * sizeof(bf16),
                     queries_bytes = (size_t)(2 * QUERIES + 4 * BN) * D * sizeof(bf16);
    static_assert(keys_bytes + 4 * BM * sizeof(float) <= SHARED_MOST && queries_bytes <= SHARED_MOST);
    allow_shared(stream, attention_bf16_keys_backward<D, KEYS_MT, BM, SPLIT>, keys_bytes);
    allow_shared(stream, attention_bf16_queries_backward<D, QUERIES_MT, BN>, queries_bytes);
    LAUNCH((attention_bf16_keys_backward<D, KEYS_MT, BM, SPLIT>),
           dim3(block_count((size_t)p.T, KEYS) * SPLIT, (unsigned)p.NKV, (unsigned)p.B), THREADS, keys_bytes,
           stream, dqkv, dout, lse, products, qkv, p);
    LAUNCH((attention_bf16_queries_backward<D, QUERIES_MT, BN>),
           dim3(block_count((size_t)p.T, QUERIES), (unsigned)p.NH, (unsigned)p.B), THREADS, queries_bytes,
           stream, dqkv, dout, lse, products, qkv, p);
}

bool attention_bf16_backward(void *dqkv_, const void *dout_, const void *out_, const float *lse,
                             const void *qkv_, const int32_t *positions, const float *cos_sin,
                             void *workspace, int B, int T, int NH, int NKV, int HS, int window,
                             struct stream *stream)
{
    bf16 *dqkv = (bf16 *)dqkv_;
    const bf16 *dout = (const bf16 *)dout_, *out = (const bf16 *)out_, *qkv = (const bf16 *)qkv_;
    struct attention_bf16_shape p =
        attention_bf16_shape_of(positions, B, T, NH, NKV, HS, window, {dqkv, dout, out, qkv});
    const float *products = (const float *)workspace; /* (B,NH,T) */
    if ((HS == 32 || HS == 64 || HS == 96 || HS == 128) && aligned16(cos_sin)) p.cos_sin = cos_sin;
    bool turns = p.cos_sin != NULL;
    if (attention_hopper_backward(dqkv, dout, lse, products, qkv, p, stream)) return turns;
    by_width(HS, [&]<int D>() {
        constexpr int MT = D <= 64 ? 2 : 1, ROWS = D <= 192 ? 32 : 16, SPLIT = D <= 128 ? 1 : 2;
        backward_launch<D, MT, ROWS, SPLIT, MT, ROWS>(dqkv, dout, lse, products, qkv, p, stream);
    });
    return turns;
}
