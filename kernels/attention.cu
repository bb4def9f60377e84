/* CUDA twin of attention in fp32 and, as a plain reference for other variants, in TF32 (bf16:
 * attention_bf16_*.cu), for head widths up to 256: tiles of TILE queries by TILE keys, 256 threads as 16 ×
 * 16, each with (TILE/16)² scores. Thread (y, x) has rows y + 16·i and columns x + 16·j. A tile's row is
 * padded to an odd number of floats, so that the 16 rows that a half-warp reads at once are in 16 banks.
 * Wider heads use smaller tiles: a block's data must fit in SHARED_MOST.
 *
 * Forward: a block is one tile of queries of one head; it loops over the key tiles from the first that a
 * query sees up to the diagonal with an online softmax whose row statistics are in registers, replicated over
 * the 16 threads of a row. Backward: two passes, so that no sum needs atomics: a block per key tile and
 * key/value head computes dk and dv over the group's query heads, and a block per query tile and head
 * computes dq: 7 products instead of 5. */
#include "kernels/attention_cached.cuh"
#include "kernels/attention_cudnn.cuh"

enum { BLOCK = 256, SIDE = 16 };

/* Floats between two rows of a tile in shared memory. */
__host__ __device__ static constexpr int padded(int HS)
{
    return HS | 1;
}

/* tile (TILE, stride) = TILE rows of HS floats, `step` floats apart; rows past `rows` are zeros. */
template <int TILE>
__device__ static inline void tile_load(shared_pointer<float> tile, const float *from, size_t step, int rows,
                                        int HS, int stride, float scale)
{
    for (int i = (int)threadIdx.x; i < TILE * HS; i += BLOCK) {
        int r = i / HS, c = i - r * HS;
        tile[r * stride + c] = r < rows ? from[(size_t)r * step + (unsigned)c] * scale : 0.0f;
    }
}

/* s[i][j] = row (y + 16·i) of a · row (x + 16·j) of b */
template <int R>
__device__ static inline void tile_scores(float (&s)[R][R], shared_pointer<float> a, shared_pointer<float> b,
                                          int HS, int stride, int y, int x)
{
#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
        for (int j = 0; j < R; j++) s[i][j] = 0;
    for (int k = 0; k < HS; k++) {
        float p[R], q[R];
#pragma unroll
        for (int i = 0; i < R; i++) {
            p[i] = a[(y + SIDE * i) * stride + k];
            q[i] = b[(x + SIDE * i) * stride + k];
        }
#pragma unroll
        for (int i = 0; i < R; i++)
#pragma unroll
            for (int j = 0; j < R; j++) s[i][j] += p[i] * q[j];
    }
}

/* sum[i][j] += Σ_k w(y + 16·i, k) · b[k][x + 16·j]; w is the tile of weights, or its transpose */
template <int R, int D, bool TRANSPOSED>
__device__ static inline void tile_accumulate(float (&sum)[R][D], shared_pointer<float> w,
                                              shared_pointer<float> b, int HS, int stride, int y, int x)
{
    enum { TILE = SIDE * R };
    for (int k = 0; k < TILE; k++) {
        float p[R];
#pragma unroll
        for (int i = 0; i < R; i++)
            p[i] = TRANSPOSED ? w[k * (TILE + 1) + y + SIDE * i] : w[(y + SIDE * i) * (TILE + 1) + k];
#pragma unroll
        for (int j = 0; j < D; j++) {
            if (x + SIDE * j >= HS) continue;
            float v = b[k * stride + x + SIDE * j];
#pragma unroll
            for (int i = 0; i < R; i++) sum[i][j] += p[i] * v;
        }
    }
}

/* The state of the online softmax of a tile after its keys: of row y + 16·i the sum's columns x + 16·j, and
 * the maximum and the total of the scores. */
template <int R, int D> struct tile_state {
    float sum[R][D], max[R], total[R];
};

/* b: the batch row, for p.first_seen. */
template <int R, int D>
__device__ static inline void tile_attend(struct tile_state<R, D> &state, shared_pointer<float> shared,
                                          const struct attention_tile<float> &tile, int b,
                                          const struct attention_shape &p)
{
    enum { TILE = SIDE * R };
    int stride = padded(p.HS), y = (int)threadIdx.x / SIDE, x = (int)threadIdx.x % SIDE;
    shared_pointer<float> queries = shared, keys = shared + TILE * stride,
                          scores = shared + 2 * TILE * stride;
#pragma unroll
    for (int i = 0; i < R; i++) {
        state.max[i] = SCORE_LEAST;
        state.total[i] = 0;
#pragma unroll
        for (int j = 0; j < D; j++) state.sum[i][j] = 0;
    }
    tile_load<TILE>(queries, tile.queries, tile.query_step, tile.rows, p.HS, stride, p.scale);
    for (int u0 = tile.from; u0 < tile.end; u0 += TILE) {
        float s[R][R];
        size_t at = (size_t)u0 * tile.key_step;
        tile_load<TILE>(keys, tile.keys + at, tile.key_step, tile.known - u0, p.HS, stride, 1.0f);
        __syncthreads();
        tile_scores<R>(s, queries, keys, p.HS, stride, y, x);
        __syncthreads();
        tile_load<TILE>(keys, tile.values + at, tile.key_step, tile.known - u0, p.HS, stride, 1.0f);
#pragma unroll
        for (int i = 0; i < R; i++) {
            int t = tile.t0 + y + SIDE * i, first = p.first_seen(b, t);
            float top = state.max[i], more = 0;
#pragma unroll
            for (int j = 0; j < R; j++) {
                int u = u0 + x + SIDE * j;
                if (u > t || u < first) s[i][j] = -INFINITY;
                top = fmaxf(top, s[i][j]);
            }
            top = warp_max<SIDE>(top);
#pragma unroll
            for (int j = 0; j < R; j++) {
                s[i][j] = expf(s[i][j] - top);
                more += s[i][j];
                scores[(y + SIDE * i) * (TILE + 1) + x + SIDE * j] = s[i][j];
            }
            float keep = expf(state.max[i] - top);
            state.max[i] = top;
            state.total[i] = state.total[i] * keep + warp_sum<SIDE>(more);
#pragma unroll
            for (int j = 0; j < D; j++) state.sum[i][j] *= keep;
        }
        __syncthreads();
        tile_accumulate<R, D, false>(state.sum, scores, keys, p.HS, stride, y, x);
        __syncthreads();
    }
}

template <int R, int D>
__global__ void __launch_bounds__(BLOCK, 1)
    attention_tile_forward(float *__restrict__ out, float *__restrict__ lse, const float *__restrict__ qkv,
                           struct attention_shape p)
{
    enum { TILE = SIDE * R };
    SHARED_DYNAMIC(float, shared);
    int y = (int)threadIdx.x / SIDE, x = (int)threadIdx.x % SIDE;
    int h = (int)blockIdx.y, b = (int)blockIdx.z;
    int t0 = (int)(gridDim.x - 1 - blockIdx.x) * TILE; /* longest tiles first */
    struct tile_state<R, D> state;
    tile_attend<R, D>(state, shared, attention_tile_of<TILE, TILE>(qkv, b, h, t0, p), b, p);
#pragma unroll
    for (int i = 0; i < R; i++) {
        int t = t0 + y + SIDE * i;
        if (t >= p.T) continue;
        float inverse = 1.0f / state.total[i];
#pragma unroll
        for (int j = 0; j < D; j++)
            if (x + SIDE * j < p.HS)
                out[p.out(b, t, h) + (unsigned)(x + SIDE * j)] = state.sum[i][j] * inverse;
        if (x == 0) lse[p.lse(b, h) + (unsigned)t] = state.max[i] + logf(state.total[i]);
    }
}

/* The tile of rows that are together, of range and head: see attention_cached.cuh. */
template <int R, int D>
__global__ void __launch_bounds__(BLOCK, 1)
    attention_cached_tile(float *__restrict__ out, float *__restrict__ partial, const float *__restrict__ qkv,
                          const float *__restrict__ keys, const float *__restrict__ values,
                          const int32_t *__restrict__ slots, const int32_t *__restrict__ positions,
                          struct attention_shape p, struct cached_shape c)
{
    SHARED_DYNAMIC(float, shared);
    int y = (int)threadIdx.x / SIDE, x = (int)threadIdx.x % SIDE, h = (int)blockIdx.y;
    int n0 = (int)(blockIdx.x / (unsigned)c.ranges) * c.together,
        range = (int)(blockIdx.x % (unsigned)c.ranges), rows = c.rows_together(n0, slots, positions);
    if (rows == 0) return;
    struct tile_state<R, D> state;
    tile_attend<R, D>(state, shared,
                      cached_tile_of(qkv, keys, values, n0, rows, h, range, slots, positions, p, c), 0, p);
#pragma unroll
    for (int i = 0; i < R; i++) {
        int n = n0 + y + SIDE * i;
        if (n >= n0 + rows) continue;
        bool whole = c.ranges == 1;
        float *to = whole ? out + c.out(n, h) : partial + c.partial(n, h, range);
        float factor = whole ? 1.0f / state.total[i] : 1.0f;
#pragma unroll
        for (int j = 0; j < D; j++)
            if (x + SIDE * j < p.HS) to[x + SIDE * j] = state.sum[i][j] * factor;
        if (x == 0 && !whole) to[p.HS] = state.max[i], to[p.HS + 1] = state.total[i];
    }
}

/* The shared memory of a backward block. */
struct backward_tiles {
    shared_pointer<float> q, dout, keys, values, weights; /* (TILE, stride) each; weights (TILE, TILE + 1) */
};

/* probability and ds of the thread's scores; 0 where the row does not see the column */
template <int R>
__device__ static inline void
score_gradients(float (&prob)[R][R], float (&ds)[R][R], const struct backward_tiles &tiles, const float *lse,
                const float *products, int b, int t0, int u0, int y, int x, struct attention_shape p)
{
    tile_scores<R>(prob, tiles.q, tiles.keys, p.HS, padded(p.HS), y, x);
    tile_scores<R>(ds, tiles.dout, tiles.values, p.HS, padded(p.HS), y, x);
#pragma unroll
    for (int i = 0; i < R; i++) {
        int t = t0 + y + SIDE * i, first = p.first_seen(b, t);
        float l = t < p.T ? lse[t] : 0.0f, D = t < p.T ? products[t] : 0.0f;
#pragma unroll
        for (int j = 0; j < R; j++) {
            int u = u0 + x + SIDE * j;
            bool seen = t < p.T && u <= t && u >= first;
            prob[i][j] = seen ? expf(prob[i][j] * p.scale - l) : 0.0f;
            ds[i][j] = seen ? prob[i][j] * (ds[i][j] - D) * p.scale : 0.0f;
        }
    }
}

template <int R>
__device__ static inline void weights_store(shared_pointer<float> weights, const float (&s)[R][R], int y,
                                            int x)
{
#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
        for (int j = 0; j < R; j++) weights[(y + SIDE * i) * (SIDE * R + 1) + x + SIDE * j] = s[i][j];
}

/* Rotates the sums of rows t0 + y + 16·i back. A head is 16·D wide, so a thread has both elements of a pair.
 */
template <int R, int D>
__device__ static inline void sums_turn_back(float (&sum)[R][D], int b, int t0, int y, int x,
                                             const struct attention_shape &p)
{
#pragma unroll
    for (int i = 0; i < R; i++) {
        int t = t0 + y + SIDE * i;
        if (t >= p.T) continue;
        const float *angles = p.angles(b, t) + 2 * x;
#pragma unroll
        for (int j = 0; j < D / 2; j++)
            turn_back(sum[i][j], sum[i][j + D / 2], angles[2 * SIDE * j], angles[2 * SIDE * j + 1]);
    }
}

/* to: row 0 of the tile; rows are `step` floats apart, and only `rows` of them exist */
template <int R, int D>
__device__ static inline void sums_store(float *to, size_t step, int rows, const float (&sum)[R][D], int HS,
                                         int y, int x)
{
#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
        for (int j = 0; j < D; j++)
            if (y + SIDE * i < rows && x + SIDE * j < HS)
                to[(size_t)(y + SIDE * i) * step + (unsigned)(x + SIDE * j)] = sum[i][j];
}

template <int TILE>
__device__ static inline struct backward_tiles carve(shared_pointer<float> shared, int stride)
{
    return {shared, shared + TILE * stride, shared + 2 * TILE * stride, shared + 3 * TILE * stride,
            shared + 4 * TILE * stride};
}

template <int R, int D>
__global__ void __launch_bounds__(BLOCK, 1)
    attention_keys_backward(float *__restrict__ dqkv, const float *__restrict__ dout,
                            const float *__restrict__ lse, const float *__restrict__ products,
                            const float *__restrict__ qkv, struct attention_shape p)
{
    enum { TILE = SIDE * R };
    SHARED_DYNAMIC(float, shared);
    int stride = padded(p.HS), y = (int)threadIdx.x / SIDE, x = (int)threadIdx.x % SIDE;
    struct backward_tiles tiles = carve<TILE>(shared, stride);
    int u0 = (int)blockIdx.x * TILE, kv = (int)blockIdx.y, b = (int)blockIdx.z, group = p.NH / p.NKV;
    int end = p.queries_end(b, u0 + TILE);
    size_t step = p.qkv_step(), out_step = p.out_step();
    float dk[R][D] = {}, dv[R][D] = {};
    tile_load<TILE>(tiles.keys, qkv + p.qkv(b, u0, p.NH + kv), step, p.T - u0, p.HS, stride, 1.0f);
    tile_load<TILE>(tiles.values, qkv + p.qkv(b, u0, p.NH + p.NKV + kv), step, p.T - u0, p.HS, stride, 1.0f);
    for (int h = kv * group; h < (kv + 1) * group; h++)
        for (int t0 = u0; t0 < end; t0 += TILE) {
            float prob[R][R], ds[R][R];
            tile_load<TILE>(tiles.q, qkv + p.qkv(b, t0, h), step, p.T - t0, p.HS, stride, 1.0f);
            tile_load<TILE>(tiles.dout, dout + p.out(b, t0, h), out_step, p.T - t0, p.HS, stride, 1.0f);
            __syncthreads();
            score_gradients<R>(prob, ds, tiles, lse + p.lse(b, h), products + p.lse(b, h), b, t0, u0, y, x,
                               p);
            weights_store<R>(tiles.weights, prob, y, x);
            __syncthreads();
            tile_accumulate<R, D, true>(dv, tiles.weights, tiles.dout, p.HS, stride, y, x);
            __syncthreads();
            weights_store<R>(tiles.weights, ds, y, x);
            __syncthreads();
            tile_accumulate<R, D, true>(dk, tiles.weights, tiles.q, p.HS, stride, y, x);
            __syncthreads();
        }
    if (p.cos_sin != NULL) sums_turn_back<R, D>(dk, b, u0, y, x, p);
    sums_store<R, D>(dqkv + p.qkv(b, u0, p.NH + kv), step, p.T - u0, dk, p.HS, y, x);
    sums_store<R, D>(dqkv + p.qkv(b, u0, p.NH + p.NKV + kv), step, p.T - u0, dv, p.HS, y, x);
}

template <int R, int D>
__global__ void __launch_bounds__(BLOCK, 1)
    attention_queries_backward(float *__restrict__ dqkv, const float *__restrict__ dout,
                               const float *__restrict__ lse, const float *__restrict__ products,
                               const float *__restrict__ qkv, struct attention_shape p)
{
    enum { TILE = SIDE * R };
    SHARED_DYNAMIC(float, shared);
    int stride = padded(p.HS), y = (int)threadIdx.x / SIDE, x = (int)threadIdx.x % SIDE;
    struct backward_tiles tiles = carve<TILE>(shared, stride);
    int t0 = (int)(gridDim.x - 1 - blockIdx.x) * TILE, h = (int)blockIdx.y, b = (int)blockIdx.z,
        kv = p.NH + h / (p.NH / p.NKV);
    size_t step = p.qkv_step(), out_step = p.out_step();
    float dq[R][D] = {};
    tile_load<TILE>(tiles.q, qkv + p.qkv(b, t0, h), step, p.T - t0, p.HS, stride, 1.0f);
    tile_load<TILE>(tiles.dout, dout + p.out(b, t0, h), out_step, p.T - t0, p.HS, stride, 1.0f);
    for (int u0 = p.first_key<TILE>(b, t0); u0 <= t0; u0 += TILE) {
        float prob[R][R], ds[R][R];
        tile_load<TILE>(tiles.keys, qkv + p.qkv(b, u0, kv), step, p.T - u0, p.HS, stride, 1.0f);
        tile_load<TILE>(tiles.values, qkv + p.qkv(b, u0, kv + p.NKV), step, p.T - u0, p.HS, stride, 1.0f);
        __syncthreads();
        score_gradients<R>(prob, ds, tiles, lse + p.lse(b, h), products + p.lse(b, h), b, t0, u0, y, x, p);
        weights_store<R>(tiles.weights, ds, y, x);
        __syncthreads();
        tile_accumulate<R, D, false>(dq, tiles.weights, tiles.keys, p.HS, stride, y, x);
        __syncthreads();
    }
    if (p.cos_sin != NULL) sums_turn_back<R, D>(dq, b, t0, y, x, p);
    sums_store<R, D>(dqkv + p.qkv(b, t0, h), step, p.T - t0, dq, p.HS, y, x);
}

/* Bytes of shared memory per block: `tiles` tiles of rows and the tile of weights. */
static constexpr size_t shared_bytes(int tiles, int tile, int stride)
{
    return (size_t)(tiles * tile * stride + tile * (tile + 1)) * sizeof(float);
}

/* Heads up to 16·D wide are computed in tiles of 16·R; the most that fits. */
template <typename Launch> static void by_width(int HS, Launch launch)
{
    if (HS <= 64)
        launch.template operator()<4, 4>();
    else if (HS <= 128)
        launch.template operator()<4, 8>();
    else
        launch.template operator()<2, 16>();
}

template <int R, int D>
static void forward_launch(float *out, float *lse, const float *qkv, struct attention_shape p,
                           struct stream *stream)
{
    constexpr int TILE = SIDE * R;
    static_assert(shared_bytes(2, TILE, padded(SIDE * D)) <= SHARED_MOST);
    size_t bytes = shared_bytes(2, TILE, padded(p.HS));
    dim3 grid(block_count((size_t)p.T, TILE), (unsigned)p.NH, (unsigned)p.B);
    allow_shared(stream, attention_tile_forward<R, D>, bytes);
    LAUNCH((attention_tile_forward<R, D>), grid, BLOCK, bytes, stream, out, lse, qkv, p);
}

int attention_tile_rows(int HS, struct stream *stream)
{
    int rows = 0;
    if (stream->precision == PRECISION_BF16) return ATTENTION_BF16_CACHED_ROWS;
    by_width(HS, [&]<int R, int D>() { rows = SIDE * R; });
    return rows;
}

void attention_cached_tiles(void *out, float *partial, const void *qkv, const void *keys, const void *values,
                            const int32_t *slots, const int32_t *positions, struct cached_shape c,
                            struct stream *stream)
{
    if (stream->precision == PRECISION_BF16) {
        attention_bf16_cached_tiles(out, partial, qkv, keys, values, slots, positions, c, stream);
        return;
    }
    struct attention_shape p = attention_shape_of(NULL, 1, c.S, c.NH, c.NKV, c.HS, c.window);
    dim3 grid(block_count((size_t)c.N, (unsigned)c.together) * (unsigned)c.ranges, (unsigned)c.NH);
    by_width(c.HS, [&]<int R, int D>() {
        size_t bytes = shared_bytes(2, SIDE * R, padded(p.HS));
        allow_shared(stream, attention_cached_tile<R, D>, bytes);
        LAUNCH((attention_cached_tile<R, D>), grid, BLOCK, bytes, stream, (float *)out, partial,
               (const float *)qkv, (const float *)keys, (const float *)values, slots, positions, p, c);
    });
}

template <int R, int D>
static void backward_launch(float *dqkv, const float *dout, const float *lse, const float *products,
                            const float *qkv, struct attention_shape p, struct stream *stream)
{
    constexpr int TILE = SIDE * R;
    static_assert(shared_bytes(4, TILE, padded(SIDE * D)) <= SHARED_MOST);
    size_t bytes = shared_bytes(4, TILE, padded(p.HS));
    unsigned tiles = block_count((size_t)p.T, TILE);
    allow_shared(stream, attention_keys_backward<R, D>, bytes);
    allow_shared(stream, attention_queries_backward<R, D>, bytes);
    LAUNCH((attention_keys_backward<R, D>), dim3(tiles, (unsigned)p.NKV, (unsigned)p.B), BLOCK, bytes, stream,
           dqkv, dout, lse, products, qkv, p);
    LAUNCH((attention_queries_backward<R, D>), dim3(tiles, (unsigned)p.NH, (unsigned)p.B), BLOCK, bytes,
           stream, dqkv, dout, lse, products, qkv, p);
}

void attention_forward(void *out_, float *lse, const void *qkv_, const int32_t *positions, void *, int B,
                       int T, int NH, int NKV, int HS, int window, struct stream *stream)
{
    float *out = (float *)out_;
    const float *qkv = (const float *)qkv_;
    struct attention_shape p = attention_shape_of(positions, B, T, NH, NKV, HS, window);
    if (!head_width_ok(HS, stream)) return;
    struct attention_problem problem = {B, T, NH, NKV, HS, window, false};
    if (stream->precision == PRECISION_BF16) {
        if (positions == NULL && attention_cudnn_forward(out_, lse, qkv_, &problem, stream)) return;
        attention_bf16_forward(out_, lse, qkv_, positions, B, T, NH, NKV, HS, window, stream);
    } else
        by_width(HS, [&]<int R, int D>() { forward_launch<R, D>(out, lse, qkv, p, stream); });
}

void attention_backward(void *dqkv_, const void *dout_, const void *out, const float *lse, const void *qkv_,
                        const int32_t *positions, const float *cos_sin, void *workspace, int B, int T, int NH,
                        int NKV, int HS, int window, struct stream *stream)
{
    float *dqkv = (float *)dqkv_, *products = (float *)workspace; /* (B,NH,T) */
    const float *dout = (const float *)dout_, *qkv = (const float *)qkv_;
    struct attention_shape p = attention_shape_of(positions, B, T, NH, NKV, HS, window);
    struct attention_problem problem = {B, T, NH, NKV, HS, window, true};
    if (!head_width_ok(HS, stream)) return;
    if (stream->precision == PRECISION_BF16 && positions == NULL &&
        attention_cudnn_backward(dqkv_, dout_, out, lse, qkv_, &problem, stream)) {
        if (cos_sin != NULL) rope(dqkv_, cos_sin, positions, B, T, NH, NKV, HS, true, stream);
        return;
    }
    attention_products(products, dout_, out, p, stream);
    if (stream->precision == PRECISION_BF16) {
        if (attention_bf16_backward(dqkv_, dout_, out, lse, qkv_, positions, cos_sin, workspace, B, T, NH,
                                    NKV, HS, window, stream))
            return;
    } else if (HS <= 64) {
        if (HS == 64) p.cos_sin = cos_sin;
        backward_launch<4, 4>(dqkv, dout, lse, products, qkv, p, stream);
    } else if (HS <= 128) {
        if (HS == 128) p.cos_sin = cos_sin;
        backward_launch<2, 8>(dqkv, dout, lse, products, qkv, p, stream);
    } else {
        if (HS == 256) p.cos_sin = cos_sin;
        backward_launch<1, 16>(dqkv, dout, lse, products, qkv, p, stream);
    }
    if (cos_sin != p.cos_sin) rope(dqkv_, cos_sin, positions, B, T, NH, NKV, HS, true, stream);
}
