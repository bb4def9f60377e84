/* The backward half of attention in bf16 for compute capability 9.0 and head widths 64 and 128, in two passes
 * as that of attention_bf16_backward.cu, so that no sum needs atomics and each has a fixed order: 7 products
 * instead of 5. No weight passes through shared memory: p and ds leave the products as sums in registers, and
 * rounded they are left operands of the next.
 *
 * The pass over keys: a block is 128 keys of one key/value head, a warpgroup 64 of them. It computes scores
 * transposed, keys in rows, over query tiles of STEP rows from the diagonal to the last that sees the keys,
 * for each query head of the group. Registers: dk and dv D / 2 each, scores and their gradients 32 each,
 * rounded 16 each: with STEP 64, 224 at D 128, where the compiler spills 8 bytes a thread: two
 * numbers that only the masks need, stored once and loaded only in tiles that a mask cuts.
 *
 * The pass over queries: a block is 128 queries of one head, a warpgroup 64 of them, over key tiles of STEP
 * rows.
 *
 * Estimate for an H100, not verified on a GPU: 64 × 128 scores take 16·D cycles of the tensor cores in the
 * pass over keys and 12·D in that over queries, 512 of the unit for exponentials, about 512 of fp32
 * arithmetic, and at D 128 shared memory is read for 1,536 of 2,048 cycles. A warpgroup does one after the
 * other, and the other one fills the gaps: at best 80 % of the tensor cores' rate at D 128, 65 % at D 64, of
 * which 5/7 are not recomputation. */
#include "kernels/attention_hopper.cuh"

enum { STEP = 64, STEP_TILES = STEP / 8 };

/* The n-th tile that a block of the pass over keys reads: queries from t0 on of head h. */
struct queries_place {
    int n, h, t0;
    __device__ void advance(int first, int end)
    {
        n++;
        t0 += STEP;
        if (t0 >= end) t0 = first, h++;
    }
};

#if HOPPER_CODE

/* The values of queries from t0 on that belong to the thread's columns. With 0 and rows of zeros, a query
 * that does not exist adds nothing. */
__device__ static inline void columns_load(float (&x)[STEP_TILES][2], const float *of, int t0, int T)
{
#pragma unroll
    for (int c = 0; c < STEP_TILES; c++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            int t = t0 + 8 * c + (int)threadIdx.x % 4 * 2 + j;
            x[c][j] = t < T ? of[t] : 0.0f;
        }
}

#endif

template <int D>
__global__ void __launch_bounds__(HOPPER_THREADS, 1)
    attention_hopper_keys_backward(bf16 *__restrict__ dqkv, const float *__restrict__ lse,
                                   const float *__restrict__ products,
                                   const __grid_constant__ CUtensorMap qkv,
                                   const __grid_constant__ CUtensorMap dout, struct attention_bf16_shape p)
{
#if HOPPER_CODE
    SHARED_TILES(shared);
    SHARED_ARRAY(uint64_t, barriers, 1 + 4 * STAGES);
    shared_pointer<bf16> keys = shared, values = keys + BLOCK_ROWS * D, queries = values + BLOCK_ROWS * D,
                         gradients = queries + STAGES * STEP * D;
    shared_pointer<uint64_t> keys_filled = barriers + 4 * STAGES;
    struct ring of_queries = {barriers + 0, barriers + STAGES},
                of_gradients = {barriers + 2 * STAGES, barriers + 3 * STAGES};
    int u0 = (int)blockIdx.x * BLOCK_ROWS, kv = (int)blockIdx.y, b = (int)blockIdx.z, group = p.NH / p.NKV;
    int end = p.queries_end(b, u0 + BLOCK_ROWS), heads_end = (kv + 1) * group;
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    if (threadIdx.x == 0) barriers_start(of_queries, of_gradients, keys_filled);
    __syncthreads();

    if (warp >= GROUPS * GROUP_WARPS) { /* copies */
        registers_give<COPYING_REGISTERS>();
        if (threadIdx.x != COMPUTING) return;
        barrier_expect(keys_filled, 4 * BLOCK_ROWS * D);
        tile_load<D, BLOCK_ROWS>(keys, &qkv, keys_filled, u0, p.NH + kv, b);
        tile_load<D, BLOCK_ROWS>(values, &qkv, keys_filled, u0, p.NH + p.NKV + kv, b);
        for (struct queries_place q = {0, kv * group, u0}; q.h < heads_end; q.advance(u0, end)) {
            of_queries.load<D, STEP>(q.n, queries, &qkv, q.t0, q.h, b);
            of_gradients.load<D, STEP>(q.n, gradients, &dout, q.t0, q.h, b);
        }
        return;
    }

    registers_take<COMPUTING_REGISTERS>();
    int first_row = warp / GROUP_WARPS * GROUP_ROWS, group_row = u0 + first_row,
        row = u0 + warp * 16; /* the group's and the warp's first key */
    float scale = p.scale * LOG2_E;
    float dk[1][D / 8][4], dv[1][D / 8][4], s[1][STEP_TILES][4], ds[1][STEP_TILES][4];
    uint32_t weights[STEP / 16][4], score_gradients[STEP / 16][4];
    zero(dk);
    zero(dv);
    zero(s);
    zero(ds);
    barrier_wait(keys_filled, 0);
    for (struct queries_place q = {0, kv * group, u0}; q.h < heads_end; q.advance(u0, end)) {
        int at = q.n % STAGES * STEP * D;
        of_queries.wait(q.n);
        of_gradients.wait(q.n);
        /* else no query of the tile sees a key of the warpgroup */
        if (q.t0 + STEP > group_row && p.first_seen(b, q.t0) < group_row + GROUP_ROWS) {
            float shift[STEP_TILES][2], product[STEP_TILES][2]; /* of the queries in the thread's columns */
            group_fence(s[0], ds[0]);
            tile_rows<D, BLOCK_ROWS, STEP_TILES>(s, keys, first_row, queries + at);
            group_commit();
            tile_rows<D, BLOCK_ROWS, STEP_TILES>(ds, values, first_row, gradients + at);
            group_commit();
            columns_load(shift, lse + p.lse(b, q.h), q.t0, p.T); /* while the tensor cores work */
            group_wait<1>(s[0]);
            if (q.t0 + 1 < row + 16) causal_mask<true, 1, STEP_TILES>(s, row - q.t0);
            if (p.first_seen(b, q.t0 + STEP - 1) > row) first_mask<true, 1, STEP_TILES>(s, row, q.t0, b, p);
#pragma unroll
            for (int c = 0; c < STEP_TILES; c++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    s[0][c][i] = exp2_approx(s[0][c][i] * scale - shift[c][i % 2] * LOG2_E);
            tile_round(weights, s);
            columns_load(product, products + p.lse(b, q.h), q.t0, p.T);
            group_wait<0>(ds[0]);
#pragma unroll
            for (int c = 0; c < STEP_TILES; c++)
#pragma unroll
                for (int i = 0; i < 4; i++) ds[0][c][i] = s[0][c][i] * (ds[0][c][i] - product[c][i % 2]);
            tile_round(score_gradients, ds);
            group_fence(dv[0], weights, dk[0], score_gradients);
            tile_columns<D, STEP / 16>(dv, weights, gradients + at);
            tile_columns<D, STEP / 16>(dk, score_gradients, queries + at);
            group_commit();
            group_wait<0>(dv[0], weights, dk[0], score_gradients);
        }
        of_queries.release(q.n);
        of_gradients.release(q.n);
    }

#pragma unroll
    for (int i = 0; i < 2; i++) {
        int u = row + 8 * i + lane / 4;
        if (u >= p.T) continue;
        if (p.cos_sin != NULL) row_turn_back<D / 8>(dk[0], i, p.angles(b, u));
        row_store<D / 8>(dqkv + p.qkv(b, u, p.NH + kv), dk[0], i, 0, p.scale, p);
        row_store<D / 8>(dqkv + p.qkv(b, u, p.NH + p.NKV + kv), dv[0], i, 0, 1.0f, p);
    }
#else
    __trap();
#endif
}

template <int D>
__global__ void __launch_bounds__(HOPPER_THREADS, 1)
    attention_hopper_queries_backward(bf16 *__restrict__ dqkv, const float *__restrict__ lse,
                                      const float *__restrict__ products,
                                      const __grid_constant__ CUtensorMap qkv,
                                      const __grid_constant__ CUtensorMap dout, struct attention_bf16_shape p)
{
#if HOPPER_CODE
    SHARED_TILES(shared);
    SHARED_ARRAY(uint64_t, barriers, 1 + 4 * STAGES);
    shared_pointer<bf16> queries = shared, gradients = queries + BLOCK_ROWS * D,
                         keys = gradients + BLOCK_ROWS * D, values = keys + STAGES * STEP * D;
    shared_pointer<uint64_t> queries_filled = barriers + 4 * STAGES;
    struct ring of_keys = {barriers + 0, barriers + STAGES},
                of_values = {barriers + 2 * STAGES, barriers + 3 * STAGES};
    int h = (int)blockIdx.y, b = (int)blockIdx.z, kv = p.NH + h / (p.NH / p.NKV);
    int t0 = (int)(gridDim.x - 1 - blockIdx.x) * BLOCK_ROWS; /* longest tiles first */
    int from = p.first_key<STEP>(b, t0), end = t0 + BLOCK_ROWS < p.T ? t0 + BLOCK_ROWS : p.T;
    int tiles = (end - from + STEP - 1) / STEP, warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    if (threadIdx.x == 0) barriers_start(of_keys, of_values, queries_filled);
    __syncthreads();

    if (warp >= GROUPS * GROUP_WARPS) { /* copies */
        registers_give<COPYING_REGISTERS>();
        if (threadIdx.x != COMPUTING) return;
        barrier_expect(queries_filled, 4 * BLOCK_ROWS * D);
        tile_load<D, BLOCK_ROWS>(queries, &qkv, queries_filled, t0, h, b);
        tile_load<D, BLOCK_ROWS>(gradients, &dout, queries_filled, t0, h, b);
        keys_copy<D, STEP>(of_keys, of_values, keys, values, &qkv, from, tiles, kv, p.NKV, b);
        return;
    }

    registers_take<COMPUTING_REGISTERS>();
    int first_row = warp / GROUP_WARPS * GROUP_ROWS, group_row = t0 + first_row,
        row = t0 + warp * 16; /* the group's and the warp's first query */
    int seen = p.first_seen(b, group_row), seen_by_last = p.first_seen(b, row + 15);
    float scale = p.scale * LOG2_E, shift[2], product[2];
    float dq[1][D / 8][4], s[1][STEP_TILES][4], ds[1][STEP_TILES][4];
    uint32_t score_gradients[STEP / 16][4];
    zero(dq);
    zero(s);
    zero(ds);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int t = row + 8 * i + lane / 4;
        shift[i] = t < p.T ? lse[p.lse(b, h) + (unsigned)t] * LOG2_E : 0.0f;
        product[i] = t < p.T ? products[p.lse(b, h) + (unsigned)t] : 0.0f;
    }
    barrier_wait(queries_filled, 0);
    for (int n = 0; n < tiles; n++) {
        int u0 = from + n * STEP, at = n % STAGES * STEP * D;
        of_keys.wait(n);
        of_values.wait(n);
        /* else no query of the warpgroup sees a key of the tile */
        if (u0 < group_row + GROUP_ROWS && u0 + STEP > seen) {
            group_fence(s[0], ds[0]);
            tile_rows<D, BLOCK_ROWS, STEP_TILES>(s, queries, first_row, keys + at);
            group_commit();
            tile_rows<D, BLOCK_ROWS, STEP_TILES>(ds, gradients, first_row, values + at);
            group_commit();
            group_wait<1>(s[0]);
            if (u0 + STEP > row + 1) causal_mask<false, 1, STEP_TILES>(s, row - u0);
            if (u0 < seen_by_last) first_mask<false, 1, STEP_TILES>(s, row, u0, b, p);
#pragma unroll
            for (int c = 0; c < STEP_TILES; c++)
#pragma unroll
                for (int i = 0; i < 4; i++) s[0][c][i] = exp2_approx(s[0][c][i] * scale - shift[i / 2]);
            group_wait<0>(ds[0]);
#pragma unroll
            for (int c = 0; c < STEP_TILES; c++)
#pragma unroll
                for (int i = 0; i < 4; i++) ds[0][c][i] = s[0][c][i] * (ds[0][c][i] - product[i / 2]);
            tile_round(score_gradients, ds);
            group_fence(dq[0], score_gradients);
            tile_columns<D, STEP / 16>(dq, score_gradients, keys + at);
            group_commit();
            group_wait<0>(dq[0], score_gradients);
        }
        of_keys.release(n);
        of_values.release(n);
    }

#pragma unroll
    for (int i = 0; i < 2; i++) {
        int t = row + 8 * i + lane / 4;
        if (t >= p.T) continue;
        if (p.cos_sin != NULL) row_turn_back<D / 8>(dq[0], i, p.angles(b, t));
        row_store<D / 8>(dqkv + p.qkv(b, t, h), dq[0], i, 0, p.scale, p);
    }
#else
    __trap();
#endif
}

bool attention_hopper_backward(bf16 *dqkv, const bf16 *dout, const float *lse, const float *products,
                               const bf16 *qkv, const struct attention_bf16_shape &p, struct stream *stream)
{
    CUtensorMap of_qkv, of_dout;
    if (!attention_hopper_takes(p, stream) ||
        !tensor_describe(&of_qkv, qkv, p.B, p.T, p.NH + 2 * p.NKV, p.HS) ||
        !tensor_describe(&of_dout, dout, p.B, p.T, p.NH, p.HS))
        return false;
    by_hopper_width(p.HS, [&]<int D>() {
        constexpr size_t bytes = (size_t)(2 * BLOCK_ROWS * D + 2 * STAGES * STEP * D) * sizeof(bf16);
        static_assert(bytes + 1024 <= HOPPER_SHARED_MOST);
        unsigned tiles = block_count((size_t)p.T, BLOCK_ROWS);
        allow_shared(stream, attention_hopper_keys_backward<D>, bytes);
        allow_shared(stream, attention_hopper_queries_backward<D>, bytes);
        LAUNCH((attention_hopper_keys_backward<D>), dim3(tiles, (unsigned)p.NKV, (unsigned)p.B),
               HOPPER_THREADS, bytes, stream, dqkv, lse, products, of_qkv, of_dout, p);
        LAUNCH((attention_hopper_queries_backward<D>), dim3(tiles, (unsigned)p.NH, (unsigned)p.B),
               HOPPER_THREADS, bytes, stream, dqkv, lse, products, of_qkv, of_dout, p);
    });
    return true;
}
