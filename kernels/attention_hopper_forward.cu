/* The forward half of attention in bf16 for compute capability 9.0 and head widths 64 and 128: a block is 128
 * queries of one head, a warpgroup 64 of them. Keys and values come in tiles of KEYS rows, from the first
 * that a query sees up to the diagonal. The order of all sums is fixed.
 *
 * A warpgroup starts the scores of tile n + 1 and then the weighted sum of tile n; while the tensor cores do
 * the latter, it computes the exponentials of tile n + 1. That needs registers for the scores, the rounded
 * weights and the sums at once: 64 + 32 + D / 2 with KEYS 128.
 *
 * KEYS 128: a product of 64 × 128 × 16 takes at least 64 cycles of a multiprocessor's tensor cores and reads
 * 6 KiB of shared memory, 48 cycles' worth; with 64 keys shared memory would be as busy as the tensor cores.
 *
 * Estimate for an H100 (4,096 operations and 16 exponentials a cycle and multiprocessor), not verified on a
 * GPU. A tile of 128 × 128 scores takes 16·D cycles of the tensor cores and 1,024 of the unit for
 * exponentials, at D 128 2,048 to 1,024, at D 64 1,024 each. With 85 and 70 % of the tensor cores' rate in
 * the loop, 4.5 tiles a block at T 1,024, and 3,000 cycles to fill and drain it, the tensor cores are busy
 * for 67 and 48 % of the time, and 8/9 of that is for scores on this side of the diagonal: 59 and 43 %. */
#include "kernels/attention_hopper.cuh"

enum { KEYS = 128, KEY_TILES = KEYS / 8 /* of eight columns */ };

#if HOPPER_CODE

/* The online softmax of the thread's two rows. */
struct rows_softmax {
    float top[2], total[2], keep[2];
};

/* s becomes its weights; keep: by what the sums so far are to be multiplied. */
__device__ static inline void softmax_step(struct rows_softmax &rows, float (&s)[1][KEY_TILES][4],
                                           float scale)
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float most = rows.top[i], more = 0;
#pragma unroll
        for (int n = 0; n < KEY_TILES; n++) most = fmaxf(most, fmaxf(s[0][n][2 * i], s[0][n][2 * i + 1]));
        most = warp_max<4>(most); /* finite, as it begins finite */
        float shift = most * scale;
        rows.keep[i] = exp2_approx((rows.top[i] - most) * scale);
#pragma unroll
        for (int n = 0; n < KEY_TILES; n++)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                float weight = exp2_approx(s[0][n][2 * i + j] * scale - shift);
                s[0][n][2 * i + j] = weight;
                more += weight;
            }
        rows.top[i] = most;
        rows.total[i] = rows.total[i] * rows.keep[i] + more;
    }
}

#endif

template <int D>
__global__ void __launch_bounds__(HOPPER_THREADS, 1)
    attention_hopper_tile_forward(bf16 *__restrict__ out, float *__restrict__ lse,
                                  const __grid_constant__ CUtensorMap qkv, struct attention_bf16_shape p)
{
#if HOPPER_CODE
    SHARED_TILES(shared);
    SHARED_ARRAY(uint64_t, barriers, 1 + 4 * STAGES);
    shared_pointer<bf16> queries = shared, keys = queries + BLOCK_ROWS * D, values = keys + STAGES * KEYS * D;
    shared_pointer<uint64_t> queries_filled = barriers + 4 * STAGES;
    struct ring of_keys = {barriers + 0, barriers + STAGES},
                of_values = {barriers + 2 * STAGES, barriers + 3 * STAGES};
    int h = (int)blockIdx.y, b = (int)blockIdx.z, kv = p.NH + h / (p.NH / p.NKV);
    int t0 = (int)(gridDim.x - 1 - blockIdx.x) * BLOCK_ROWS; /* longest tiles first */
    int from = p.first_key<KEYS>(b, t0), end = t0 + BLOCK_ROWS < p.T ? t0 + BLOCK_ROWS : p.T;
    int tiles = (end - from + KEYS - 1) / KEYS, warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    if (threadIdx.x == 0) barriers_start(of_keys, of_values, queries_filled);
    __syncthreads();

    if (warp >= GROUPS * GROUP_WARPS) { /* copies */
        registers_give<COPYING_REGISTERS>();
        if (threadIdx.x != COMPUTING) return;
        barrier_expect(queries_filled, 2 * BLOCK_ROWS * D);
        tile_load<D, BLOCK_ROWS>(queries, &qkv, queries_filled, t0, h, b);
        keys_copy<D, KEYS>(of_keys, of_values, keys, values, &qkv, from, tiles, kv, p.NKV, b);
        return;
    }

    registers_take<COMPUTING_REGISTERS>();
    int first_row = warp / GROUP_WARPS * GROUP_ROWS, row = t0 + warp * 16; /* the warp's first */
    int seen_by_last = p.first_seen(b, row + 15);
    float scale = p.scale * LOG2_E; /* scores in powers of two */
    float s[1][KEY_TILES][4], sum[1][D / 8][4];
    uint32_t weights[KEYS / 16][4];
    struct rows_softmax rows = {{SCORE_LEAST, SCORE_LEAST}, {0, 0}, {0, 0}};
    zero(s);
    zero(sum);

    auto scores_begin = [&](int n) {
        of_keys.wait(n);
        group_fence(s[0]);
        tile_rows<D, BLOCK_ROWS, KEY_TILES>(s, queries, first_row, keys + n % STAGES * KEYS * D);
        group_commit();
    };
    auto sum_begin = [&](int n) {
        of_values.wait(n);
        group_fence(sum[0], weights);
        tile_columns<D, KEYS / 16>(sum, weights, values + n % STAGES * KEYS * D);
        group_commit();
    };
    auto softmax = [&](int n) {
        int u0 = from + n * KEYS;
        if (u0 + KEYS > row + 1) causal_mask<false, 1, KEY_TILES>(s, row - u0);
        if (u0 < seen_by_last) first_mask<false, 1, KEY_TILES>(s, row, u0, b, p);
        softmax_step(rows, s, scale);
    };

    barrier_wait(queries_filled, 0);
    scores_begin(0);
    group_wait<0>(s[0]);
    of_keys.release(0);
    softmax(0);
    tile_round(weights, s);
    for (int n = 1; n < tiles; n++) {
        scores_begin(n);
        sum_begin(n - 1);
        group_wait<1>(s[0]);
        of_keys.release(n);
        softmax(n);
        group_wait<0>(sum[0], weights);
        of_values.release(n - 1);
#pragma unroll
        for (int d = 0; d < D / 8; d++)
#pragma unroll
            for (int i = 0; i < 4; i++) sum[0][d][i] *= rows.keep[i / 2];
        tile_round(weights, s);
    }
    sum_begin(tiles - 1);
    group_wait<0>(sum[0], weights);

#pragma unroll
    for (int i = 0; i < 2; i++) {
        int t = row + 8 * i + lane / 4;
        float all = warp_sum<4>(rows.total[i]);
        if (t >= p.T) continue;
        row_store<D / 8>(out + p.out(b, t, h), sum[0], i, 0, 1.0f / all, p);
        if (lane % 4 == 0) lse[p.lse(b, h) + (unsigned)t] = rows.top[i] * p.scale + logf(all);
    }
#else
    __trap();
#endif
}

bool attention_hopper_forward(bf16 *out, float *lse, const bf16 *qkv, const struct attention_bf16_shape &p,
                              struct stream *stream)
{
    CUtensorMap tensor;
    if (!attention_hopper_takes(p, stream) ||
        !tensor_describe(&tensor, qkv, p.B, p.T, p.NH + 2 * p.NKV, p.HS))
        return false;
    by_hopper_width(p.HS, [&]<int D>() {
        constexpr size_t bytes = (size_t)(BLOCK_ROWS * D + 2 * STAGES * KEYS * D) * sizeof(bf16);
        static_assert(bytes + 1024 <= HOPPER_SHARED_MOST);
        dim3 grid(block_count((size_t)p.T, BLOCK_ROWS), (unsigned)p.NH, (unsigned)p.B);
        allow_shared(stream, attention_hopper_tile_forward<D>, bytes);
        LAUNCH((attention_hopper_tile_forward<D>), grid, HOPPER_THREADS, bytes, stream, out, lse, tensor, p);
    });
    return true;
}
