/* The forward half of attention in bf16: a block is one tile of BM queries of one head, a warp has 16·MT of
 * its rows. It loops over the key tiles from the first that a query sees up to the diagonal in ascending
 * order, with an online softmax whose statistics are in registers; keys and values of the next tile are
 * loaded while it computes, with one barrier per tile. 4·HS operations per score, and BM of them per byte,
 * mostly from the second-level cache: compute-bound.
 *
 * Tiles: with two fragments of rows per warp (MT 2, BM 128) each ldmatrix of keys or values feeds four
 * products instead of two; with MT 1 shared memory is busy as long as the tensor cores. MT 2 needs D
 * registers per thread for the sums: above D 128 MT is 1. BN fits the scores into the remaining registers,
 * and leaves room for two blocks per multiprocessor of compute capability 8.0. The queries stay in registers
 * up to D 64. Compute capability 9.0 has its own kernels for D 64 and 128: attention_hopper_forward.cu. */
#include "kernels/attention_bf16.cuh"
#include "kernels/attention_cached.cuh"

/* The state of the online softmax of a warp's rows after its keys; totals are over the thread's columns. */
template <int D, int MT> struct rows_state {
    float sum[MT][D / 8][4], top[MT][2], total[MT][2];
};

/* The row in the tile of sum[m][…][2·i] and [2·i + 1]. */
template <int MT> __device__ static inline int state_row(int m, int i)
{
    return (int)threadIdx.x / 32 * 16 * MT + 16 * m + 8 * i + (int)threadIdx.x % 32 / 4;
}

/* A row of partial results, see partition.h. */
template <int DT>
__device__ static inline void partial_store(float *to, const float (&sum)[DT][4], int half, float max,
                                            float total, int HS)
{
    int lane = (int)threadIdx.x % 4;
#pragma unroll
    for (int d = 0; d < 2 * DT; d++) {
        int column = lane * 2 + 8 * (d / 2) + d % 2;
        if (column < HS) to[column] = sum[d / 2][2 * half + d % 2];
    }
    if (lane == 0) to[HS] = max, to[HS + 1] = total;
}

/* b: the batch row, for p.first_seen. */
template <int D, int MT, int BN>
__device__ static inline void tile_attend(struct rows_state<D, MT> &state, shared_pointer<bf16> shared,
                                          const struct attention_tile<bf16> &tile, int b,
                                          const struct attention_bf16_shape &p)
{
    enum { BM = 16 * MT * WARPS, NT = BN / 8, DT = D / 8, IN_REGISTERS = MT * D <= 128 };
    shared_pointer<bf16> queries = shared, keys = shared + BM * D, values = keys + 2 * BN * D;
    int ahead = (int)threadIdx.x / 32 * 16 * MT, row = tile.t0 + ahead; /* the warp's first row */
    size_t step = tile.key_step;
    float scale = p.scale * LOG2_E; /* scores in powers of two */
    zero(state.sum);
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int i = 0; i < 2; i++) state.top[m][i] = SCORE_LEAST, state.total[m][i] = 0;
    if (tile.from >= tile.end) return;

    tile_copy<D, BM>(queries, tile.queries, tile.query_step, tile.rows, p);
    int seen = p.first_seen(b, row), seen_by_last = p.first_seen(b, row + 16 * MT - 1);
    size_t first = (size_t)tile.from * step;
    tile_copy<D, BN>(keys, tile.keys + first, step, tile.known - tile.from, p);
    tile_copy<D, BN>(values, tile.values + first, step, tile.known - tile.from, p);
    copy_commit();
    copy_wait<0>();
    __syncthreads();
    uint32_t q[IN_REGISTERS ? D / 16 : 1][MT][4];
    if constexpr (IN_REGISTERS) {
#pragma unroll
        for (int k = 0; k < D / 16; k++)
#pragma unroll
            for (int m = 0; m < MT; m++) fragment_load<D, LEFT>(q[k][m], queries, ahead + 16 * m, 16 * k);
    }

    for (int u0 = tile.from, stage = 0; u0 < tile.end; u0 += BN, stage ^= 1) {
        int next = u0 + BN;
        if (next < tile.end) {
            size_t at = (size_t)next * step;
            tile_copy<D, BN>(keys + (stage ^ 1) * BN * D, tile.keys + at, step, tile.known - next, p);
            tile_copy<D, BN>(values + (stage ^ 1) * BN * D, tile.values + at, step, tile.known - next, p);
            copy_commit();
        }
        if (u0 < row + 16 * MT && u0 + BN > seen) { /* else no row of the warp sees a key of the tile */
            float s[MT][NT][4];
            zero(s);
            if constexpr (IN_REGISTERS)
                rows_product<D, MT, NT>(s, q, keys + stage * BN * D);
            else
                rows_product<D, D / 16, MT, NT>(s, queries, ahead, keys + stage * BN * D);
            if (u0 + BN > row + 1) causal_mask<false, MT, NT>(s, row - u0);
            if (u0 < seen_by_last) first_mask<false, MT, NT>(s, row, u0, b, p);
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    float most = state.top[m][i];
#pragma unroll
                    for (int n = 0; n < NT; n++)
                        most = fmaxf(most, fmaxf(s[m][n][2 * i], s[m][n][2 * i + 1]));
                    most = warp_max<4>(most); /* finite, as it begins finite */
                    float keep = exp2_approx((state.top[m][i] - most) * scale), shift = most * scale,
                          more = 0;
#pragma unroll
                    for (int n = 0; n < NT; n++)
#pragma unroll
                        for (int j = 0; j < 2; j++) {
                            float weight = exp2_approx(s[m][n][2 * i + j] * scale - shift);
                            s[m][n][2 * i + j] = weight;
                            more += weight;
                        }
                    state.top[m][i] = most;
                    state.total[m][i] = state.total[m][i] * keep + more;
#pragma unroll
                    for (int d = 0; d < DT; d++)
                        state.sum[m][d][2 * i] *= keep, state.sum[m][d][2 * i + 1] *= keep;
                }
            weighted_sum<D, MT, NT, DT>(state.sum, s, values + stage * BN * D, 0);
        }
        copy_wait<0>();
        __syncthreads();
    }
}

template <int D, int MT, int BN>
__global__ void __launch_bounds__(THREADS)
    attention_bf16_tile_forward(bf16 *__restrict__ out, float *__restrict__ lse, const bf16 *__restrict__ qkv,
                                struct attention_bf16_shape p)
{
    enum { BM = 16 * MT * WARPS };
    SHARED_DYNAMIC(bf16, shared);
    int h = (int)blockIdx.y, b = (int)blockIdx.z;
    int t0 = (int)(gridDim.x - 1 - blockIdx.x) * BM; /* longest tiles first */
    struct rows_state<D, MT> state;
    tile_attend<D, MT, BN>(state, shared, attention_tile_of<BM, BN>(qkv, b, h, t0, p), b, p);
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int t = t0 + state_row<MT>(m, i);
            float all = warp_sum<4>(state.total[m][i]);
            if (t >= p.T) continue;
            row_store<D / 8>(out + p.out(b, t, h), state.sum[m], i, 0, 1.0f / all, p);
            if (threadIdx.x % 4 == 0) lse[p.lse(b, h) + (unsigned)t] = state.top[m][i] * p.scale + logf(all);
        }
}

/* The tile of rows that are together, of range and head: see attention_cached.cuh. */
template <int D, int MT, int BN>
__global__ void __launch_bounds__(THREADS)
    attention_bf16_cached_tile(bf16 *__restrict__ out, float *__restrict__ partial,
                               const bf16 *__restrict__ qkv, const bf16 *__restrict__ keys,
                               const bf16 *__restrict__ values, const int32_t *__restrict__ slots,
                               const int32_t *__restrict__ positions, struct attention_bf16_shape p,
                               struct cached_shape c)
{
    SHARED_DYNAMIC(bf16, shared);
    int h = (int)blockIdx.y, n0 = (int)(blockIdx.x / (unsigned)c.ranges) * c.together,
        range = (int)(blockIdx.x % (unsigned)c.ranges), rows = c.rows_together(n0, slots, positions);
    if (rows == 0) return;
    struct rows_state<D, MT> state;
    tile_attend<D, MT, BN>(
        state, shared, cached_tile_of(qkv, keys, values, n0, rows, h, range, slots, positions, p, c), 0, p);
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int row = state_row<MT>(m, i);
            float all = warp_sum<4>(state.total[m][i]);
            if (row >= rows) continue;
            if (c.ranges == 1)
                row_store<D / 8, false>(out + c.out(n0 + row, h), state.sum[m], i, 0, 1.0f / all, p);
            else
                partial_store<D / 8>(partial + c.partial(n0 + row, h, range), state.sum[m], i,
                                     state.top[m][i] * p.scale, all, p.HS);
        }
}

template <int D, int MT, int BN>
static void forward_launch(bf16 *out, float *lse, const bf16 *qkv, struct attention_bf16_shape p,
                           struct stream *stream)
{
    constexpr int BM = 16 * MT * WARPS;
    constexpr size_t bytes = (size_t)(BM + 4 * BN) * D * sizeof(bf16);
    static_assert(bytes <= SHARED_MOST);
    dim3 grid(block_count((size_t)p.T, BM), (unsigned)p.NH, (unsigned)p.B);
    allow_shared(stream, attention_bf16_tile_forward<D, MT, BN>, bytes);
    LAUNCH((attention_bf16_tile_forward<D, MT, BN>), grid, THREADS, bytes, stream, out, lse, qkv, p);
}

void attention_bf16_forward(void *out_, float *lse, const void *qkv_, const int32_t *positions, int B, int T,
                            int NH, int NKV, int HS, int window, struct stream *stream)
{
    bf16 *out = (bf16 *)out_;
    const bf16 *qkv = (const bf16 *)qkv_;
    struct attention_bf16_shape p =
        attention_bf16_shape_of(positions, B, T, NH, NKV, HS, window, {out, qkv, qkv, qkv});
    if (attention_hopper_forward(out, lse, qkv, p, stream)) return;
    by_width(HS, [&]<int D>() {
        forward_launch<D, D <= 128 ? 2 : 1, D <= 64 ? 64 : 32>(out, lse, qkv, p, stream);
    });
}

void attention_bf16_cached_tiles(void *out, float *partial, const void *qkv, const void *keys,
                                 const void *values, const int32_t *slots, const int32_t *positions,
                                 struct cached_shape c, struct stream *stream)
{
    struct attention_bf16_shape p =
        attention_bf16_shape_of(NULL, 1, c.S, c.NH, c.NKV, c.HS, c.window, {out, qkv, keys, values});
    dim3 grid(block_count((size_t)c.N, (unsigned)c.together) * (unsigned)c.ranges, (unsigned)c.NH);
    by_width(c.HS, [&]<int D>() {
        constexpr int MT = 1, BM = 16 * MT * WARPS, BN = D <= 64 ? 64 : 32;
        constexpr size_t bytes = (size_t)(BM + 4 * BN) * D * sizeof(bf16);
        static_assert(bytes <= SHARED_MOST && BM == ATTENTION_BF16_CACHED_ROWS);
        allow_shared(stream, attention_bf16_cached_tile<D, MT, BN>, bytes);
        LAUNCH((attention_bf16_cached_tile<D, MT, BN>), grid, THREADS, bytes, stream, (bf16 *)out, partial,
               (const bf16 *)qkv, (const bf16 *)keys, (const bf16 *)values, slots, positions, p, c);
    });
}
