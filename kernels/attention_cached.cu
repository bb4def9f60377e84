/* CUDA twin of attention over the KV cache, for head widths up to 256. Bound by memory: a block of 128
 * threads reads the keys and values of one row's range once for up to eight query heads of the group, 16
 * bytes per thread if HS and the addresses allow. A key is read by as many neighbouring threads as have eight
 * of its elements each, so a warp has several keys at once and few shuffles per key. Each such group of
 * threads has an online softmax of its own, in registers; they are merged at the end, first in the warp, then
 * in shared memory. With more than one range the results are partial, and a second kernel combines them.
 *
 * Many rows that follow each other in one sequence, the later pieces of a prompt, are left to the tiles of
 * attention.cu and attention_bf16_forward.cu. */
#include "kernels/attention_cached.cuh"

enum { WARPS = 4, THREADS = 32 * WARPS, EACH = 8, COPY_BLOCK = 256, COMBINE_BLOCK = 64 };

template <typename T, int W>
__global__ void cache_store_rows(T *__restrict__ keys, T *__restrict__ values, const T *__restrict__ qkv,
                                 const int32_t *__restrict__ slots, const int32_t *__restrict__ positions,
                                 struct cached_shape p)
{
    size_t at = ((size_t)blockIdx.x * COPY_BLOCK + threadIdx.x) * W;
    size_t row = (size_t)(unsigned)p.NKV * (unsigned)p.HS;
    int n = (int)(at / row), kv = (int)(at % row / (unsigned)p.HS), i = (int)(at % (unsigned)p.HS);
    if (n >= p.N) return;
    size_t to = p.head(slots[n], kv) + (size_t)positions[n] * (unsigned)p.HS + (unsigned)i;
    store<W>(keys + to, load<W>(qkv + p.query(n, p.NH + kv) + (unsigned)i));
    store<W>(values + to, load<W>(qkv + p.query(n, p.NH + p.NKV + kv) + (unsigned)i));
}

/* The state of an online softmax over some keys for one query; a thread has EACH elements of the sum. */
struct softmax_part {
    float max, total, sum[EACH];
};

/* a becomes the state over the keys of both. Either may have seen none. */
__device__ static inline void softmax_merge(struct softmax_part *a, float max, float total,
                                            const float (&sum)[EACH])
{
    float top = fmaxf(a->max, max), base = top == -INFINITY ? 0.0f : top;
    float keep = expf(a->max - base), add = expf(max - base);
    a->max = top;
    a->total = a->total * keep + total * add;
#pragma unroll
    for (int i = 0; i < EACH; i++) a->sum[i] = a->sum[i] * keep + sum[i] * add;
}

/* This thread's elements of a head: pieces of W, `lanes` pieces apart. */
template <typename T, int W>
__device__ static inline void head_load(float (&x)[EACH], const T *from, int lane, struct cached_shape p)
{
#pragma unroll
    for (int j = 0; j < EACH / W; j++) {
        int i = (lane + j * p.lanes) * W;
        floats<W> piece = {};
        if (i < p.HS) piece = load<W>(from + i);
#pragma unroll
        for (int k = 0; k < W; k++) x[j * W + k] = piece.at[k];
    }
}

/* One block per row and range (blockIdx.x), key/value head and part of its group of G query heads. */
template <typename T, int W, int G>
__global__ void __launch_bounds__(THREADS)
    attention_cached_range(T *__restrict__ out, float *__restrict__ partial, const T *__restrict__ qkv,
                           const T *__restrict__ keys, const T *__restrict__ values,
                           const int32_t *__restrict__ slots, const int32_t *__restrict__ positions,
                           struct cached_shape p)
{
    SHARED_DYNAMIC(float, shared); /* (WARPS, G, HS+2) */
    int n = (int)(blockIdx.x / (unsigned)p.ranges), range = (int)(blockIdx.x % (unsigned)p.ranges);
    if (p.together > 0 && p.rows_together(n / p.together * p.together, slots, positions) > 0) return;
    int group = p.NH / p.NKV, parts = (group + G - 1) / G, kv = (int)blockIdx.y / parts;
    int first = (int)blockIdx.y % parts * G, heads = group - first < G ? group - first : G;
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % p.lanes, together = THREADS / p.lanes;
    int end = positions[n] + 1, from = range * p.range_keys;
    int to = from + p.range_keys < end ? from + p.range_keys : end;
    if (p.window > 0 && from < end - p.window) from = end - p.window;
    size_t head = p.head(slots[n], kv);
    float q[G][EACH];
    struct softmax_part state[G];
#pragma unroll
    for (int g = 0; g < G; g++) {
        int of = kv * group + first + (g < heads ? g : 0);
        head_load<T, W>(q[g], qkv + p.query(n, of), lane, p);
        state[g].max = -INFINITY;
        state[g].total = 0;
#pragma unroll
        for (int i = 0; i < EACH; i++) q[g][i] *= p.scale, state[g].sum[i] = 0;
    }
    for (int u0 = from; u0 < to; u0 += together) { /* every thread shuffles, with or without a key */
        int u = u0 + (int)threadIdx.x / p.lanes;
        bool seen = u < to;
        size_t at = head + (size_t)(seen ? u : from) * (unsigned)p.HS;
        float k[EACH], v[EACH];
        head_load<T, W>(k, keys + at, lane, p);
        head_load<T, W>(v, values + at, lane, p);
#pragma unroll
        for (int g = 0; g < G; g++) {
            float score = 0;
#pragma unroll
            for (int i = 0; i < EACH; i++) score += q[g][i] * k[i];
            for (int step = p.lanes / 2; step > 0; step /= 2)
                score += __shfl_xor_sync(0xffffffffu, score, step);
            if (seen) softmax_merge(&state[g], score, 1.0f, v);
        }
    }
#pragma unroll
    for (int g = 0; g < G; g++)
        for (int step = p.lanes; step < 32; step *= 2) {
            float max = __shfl_xor_sync(0xffffffffu, state[g].max, step);
            float total = __shfl_xor_sync(0xffffffffu, state[g].total, step), sum[EACH];
#pragma unroll
            for (int i = 0; i < EACH; i++) sum[i] = __shfl_xor_sync(0xffffffffu, state[g].sum[i], step);
            softmax_merge(&state[g], max, total, sum);
        }
    if ((int)threadIdx.x % 32 < p.lanes)
#pragma unroll
        for (int g = 0; g < G; g++) {
            int mine = (warp * G + g) * (p.HS + 2);
#pragma unroll
            for (int i = 0; i < EACH; i++) {
                int c = (lane + i / W * p.lanes) * W + i % W;
                if (c < p.HS) shared[mine + c] = state[g].sum[i];
            }
            if (lane == 0) {
                shared[mine + p.HS] = state[g].max;
                shared[mine + p.HS + 1] = state[g].total;
            }
        }
    __syncthreads();
    for (int at = (int)threadIdx.x; at < heads * p.HS; at += THREADS) {
        int g = at / p.HS, c = at % p.HS, of = kv * group + first + g;
        float top = -INFINITY, total = 0, sum = 0;
        for (int w = 0; w < WARPS; w++) top = fmaxf(top, shared[(w * G + g) * (p.HS + 2) + p.HS]);
        float base = top == -INFINITY ? 0.0f : top;
        for (int w = 0; w < WARPS; w++) {
            int mine = (w * G + g) * (p.HS + 2);
            float weight = expf(shared[mine + p.HS] - base);
            total += weight * shared[mine + p.HS + 1];
            sum += weight * shared[mine + c];
        }
        if (p.ranges == 1) {
            element_store(out + p.out(n, of) + (unsigned)c, sum / total);
            continue;
        }
        float *result = partial + p.partial(n, of, range);
        result[c] = sum;
        if (c == 0) result[p.HS] = top, result[p.HS + 1] = total;
    }
}

/* One block per row and query head (blockIdx.x). */
template <typename T>
__global__ void attention_cached_combine(T *__restrict__ out, const float *__restrict__ partial,
                                         struct cached_shape p)
{
    const float *of = partial + p.partial((int)blockIdx.x / p.NH, (int)blockIdx.x % p.NH, 0);
    float top = -INFINITY, total = 0;
    for (int r = 0; r < p.ranges; r++)
        top = fmaxf(top, of[(size_t)r * (unsigned)(p.HS + 2) + (unsigned)p.HS]);
    for (int r = 0; r < p.ranges; r++) {
        const float *range = of + (size_t)r * (unsigned)(p.HS + 2);
        total += expf(range[p.HS] - top) * range[p.HS + 1];
    }
    for (int c = (int)threadIdx.x; c < p.HS; c += COMBINE_BLOCK) {
        float sum = 0;
        for (int r = 0; r < p.ranges; r++) {
            const float *range = of + (size_t)r * (unsigned)(p.HS + 2);
            sum += expf(range[p.HS] - top) * range[c];
        }
        element_store(out + (size_t)blockIdx.x * (unsigned)p.HS + (unsigned)c, sum / total);
    }
}

static struct cached_shape shape_of(int N, int longest, int S, int NH, int NKV, int HS, int window)
{
    int ranges = attention_ranges(N, longest, NKV), lanes = 1;
    while (lanes * EACH < HS) lanes *= 2;
    return {N,     longest, window,
            S,     NH,      NKV,
            HS,    ranges,  attention_range_keys(ranges, longest),
            lanes, 0,       (float)(1.0 / sqrt((double)HS))};
}

void cache_store(void *keys, void *values, const void *qkv, const int32_t *slots, const int32_t *positions,
                 int N, int S, int NH, int NKV, int HS, struct stream *stream)
{
    struct cached_shape p = shape_of(N, 1, S, NH, NKV, HS, 0);
    size_t count = (size_t)N * (size_t)NKV * (size_t)HS;
    dispatch(stream, HS, {keys, values, qkv}, [&]<typename T, int W>() {
        LAUNCH((cache_store_rows<T, W>), block_count(count / W, COPY_BLOCK), COPY_BLOCK, 0, stream, (T *)keys,
               (T *)values, (const T *)qkv, slots, positions, p);
    });
}

template <typename T, int W, int G>
static void range_launch(void *out, float *partial, const void *qkv, const void *keys, const void *values,
                         const int32_t *slots, const int32_t *positions, struct cached_shape p,
                         struct stream *stream)
{
    int parts = (p.NH / p.NKV + G - 1) / G;
    dim3 grid((unsigned)p.N * (unsigned)p.ranges, (unsigned)(p.NKV * parts));
    LAUNCH((attention_cached_range<T, W, G>), grid, THREADS, (size_t)(WARPS * G * (p.HS + 2)) * sizeof(float),
           stream, (T *)out, partial, (const T *)qkv, (const T *)keys, (const T *)values, slots, positions,
           p);
}

void attention_cached(void *out, const void *qkv, const void *keys, const void *values, const int32_t *slots,
                      const int32_t *positions, void *workspace, int N, int longest, int S, int NH, int NKV,
                      int HS, int window, struct stream *stream)
{
    struct cached_shape p = shape_of(N, longest, S, NH, NKV, HS, window);
    float *partial = (float *)workspace;
    int group = NH / NKV;
    if (!head_width_ok(HS, stream)) return;
    if (N >= ATTENTION_TOGETHER_LEAST) p.together = attention_tile_rows(HS, stream);
    dispatch(stream, HS, {qkv, keys, values}, [&]<typename T, int W>() {
        auto launch = group == 1   ? range_launch<T, W, 1>
                      : group == 2 ? range_launch<T, W, 2>
                      : group <= 4 ? range_launch<T, W, 4>
                                   : range_launch<T, W, 8>;
        launch(out, partial, qkv, keys, values, slots, positions, p, stream);
    });
    if (p.together > 0) attention_cached_tiles(out, partial, qkv, keys, values, slots, positions, p, stream);
    if (p.ranges == 1) return;
    dispatch_scalar(stream, [&]<typename T>() {
        LAUNCH(attention_cached_combine<T>, (unsigned)N * (unsigned)NH, COMBINE_BLOCK, 0, stream, (T *)out,
               partial, p);
    });
}
