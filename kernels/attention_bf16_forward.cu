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
 * up to D 64. Not used yet: wgmma and TMA on sm_90a. */
#include "kernels/attention_bf16.cuh"

template <int D, int MT, int BN>
__global__ void __launch_bounds__(THREADS)
    attention_bf16_tile_forward(bf16 *__restrict__ out, float *__restrict__ lse, const bf16 *__restrict__ qkv,
                                struct attention_bf16_shape p)
{
    enum { BM = 16 * MT * WARPS, NT = BN / 8, DT = D / 8, IN_REGISTERS = MT * D <= 128 };
    SHARED_DYNAMIC(bf16, shared);
    shared_pointer<bf16> queries = shared, keys = shared + BM * D, values = keys + 2 * BN * D;
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    int tile = (int)(gridDim.x - 1 - blockIdx.x); /* longest tiles first */
    int h = (int)blockIdx.y, b = (int)blockIdx.z, kv = p.NH + h / (p.NH / p.NKV), t0 = tile * BM;
    int end = t0 + BM < p.T ? t0 + BM : p.T, row = t0 + warp * 16 * MT; /* the warp's first row */
    size_t step = p.qkv_step();
    float scale = p.scale * LOG2_E; /* scores in powers of two */
    float sum[MT][DT][4], top[MT][2], total[MT][2];
    zero(sum);
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int i = 0; i < 2; i++) top[m][i] = SCORE_LEAST, total[m][i] = 0;

    tile_copy<D, BM>(queries, qkv + p.qkv(b, t0, h), step, p.T - t0, p);
    int first = p.first_key<BN>(b, t0);
    int seen = p.first_seen(b, row), seen_by_last = p.first_seen(b, row + 16 * MT - 1);
    tile_copy<D, BN>(keys, qkv + p.qkv(b, first, kv), step, p.T - first, p);
    tile_copy<D, BN>(values, qkv + p.qkv(b, first, kv + p.NKV), step, p.T - first, p);
    copy_commit();
    copy_wait<0>();
    __syncthreads();
    uint32_t q[IN_REGISTERS ? D / 16 : 1][MT][4];
    if constexpr (IN_REGISTERS) {
#pragma unroll
        for (int k = 0; k < D / 16; k++)
#pragma unroll
            for (int m = 0; m < MT; m++) fragment_load<D, LEFT>(q[k][m], queries, row - t0 + 16 * m, 16 * k);
    }

    for (int u0 = first, stage = 0; u0 < end; u0 += BN, stage ^= 1) {
        int next = u0 + BN;
        if (next < end) {
            tile_copy<D, BN>(keys + (stage ^ 1) * BN * D, qkv + p.qkv(b, next, kv), step, p.T - next, p);
            tile_copy<D, BN>(values + (stage ^ 1) * BN * D, qkv + p.qkv(b, next, kv + p.NKV), step,
                             p.T - next, p);
            copy_commit();
        }
        if (u0 < row + 16 * MT && u0 + BN > seen) { /* else no row of the warp sees a key of the tile */
            float s[MT][NT][4];
            zero(s);
            if constexpr (IN_REGISTERS)
                rows_product<D, MT, NT>(s, q, keys + stage * BN * D);
            else
                rows_product<D, D / 16, MT, NT>(s, queries, row - t0, keys + stage * BN * D);
            if (u0 + BN > row + 1) causal_mask<false, MT, NT>(s, row - u0);
            if (u0 < seen_by_last) first_mask<false, MT, NT>(s, row, u0, b, p);
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    float most = top[m][i];
#pragma unroll
                    for (int n = 0; n < NT; n++)
                        most = fmaxf(most, fmaxf(s[m][n][2 * i], s[m][n][2 * i + 1]));
                    most = warp_max<4>(most); /* finite, as it begins finite */
                    float keep = exp2_approx((top[m][i] - most) * scale), shift = most * scale, more = 0;
#pragma unroll
                    for (int n = 0; n < NT; n++)
#pragma unroll
                        for (int j = 0; j < 2; j++) {
                            float weight = exp2_approx(s[m][n][2 * i + j] * scale - shift);
                            s[m][n][2 * i + j] = weight;
                            more += weight;
                        }
                    top[m][i] = most;
                    total[m][i] = total[m][i] * keep + more; /* over the thread's columns */
#pragma unroll
                    for (int d = 0; d < DT; d++) sum[m][d][2 * i] *= keep, sum[m][d][2 * i + 1] *= keep;
                }
            weighted_sum<D, MT, NT, DT>(sum, s, values + stage * BN * D, 0);
        }
        copy_wait<0>();
        __syncthreads();
    }

#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int t = row + 16 * m + 8 * i + lane / 4;
            float all = warp_sum<4>(total[m][i]);
            if (t >= p.T) continue;
            row_store<DT>(out + p.out(b, t, h), sum[m], i, 0, 1.0f / all, p);
            if (lane % 4 == 0) lse[p.lse(b, h) + (unsigned)t] = top[m][i] * p.scale + logf(all);
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
    by_width(HS, [&]<int D>() {
        forward_launch<D, D <= 128 ? 2 : 1, D <= 64 ? 64 : 32>(out, lse, qkv, p, stream);
    });
}
