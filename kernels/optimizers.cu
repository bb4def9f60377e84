/* CUDA twins of the optimizers and of the average of weights. Memory-bound: per parameter AdamW reads 4
 * floats and writes 3, Lion reads 3 and writes 2, and a bf16 weight if there is one; the average reads 2 and
 * writes 1; 16 bytes per thread and array (8 of bf16) if all addresses are aligned to that. The clipping
 * scale and the factors derived from the learning rate are read on the device. A thread searches the table of
 * ranges once, for its first element; the table, 16 bytes per entry, is read by every thread and stays in the
 * caches. */
#include <float.h>

#include "kernels/element.cuh"
#include "kernels/moment_codes.h"
#include "kernels/moments.h"

enum { BLOCK = 256 };

/* The range of element i, which is before the last end: the first range whose end is behind i. */
__device__ static inline const struct update_range *range_of(const struct update_range *ranges,
                                                             int range_count, size_t i)
{
    int low = 0, high = range_count - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (i < ranges[middle].end)
            high = middle;
        else
            low = middle + 1;
    }
    return ranges + low;
}

/* The share of a weight that remains after decay; in double, as in the CPU twins. */
__device__ static inline float kept(const struct update_range *range, float lr)
{
    return (float)(1.0 - (double)(lr * range->lr_scale) * range->weight_decay);
}

/* The rule of an optimizer for one element, with its parameters and those of the current range. */
struct adamw {
    enum { MOMENTS = 2 };
    float beta1, rest1, beta2, rest2, eps, rate, keep, correct2;
    __device__ void enter(const struct update_range *range, const struct step_control *control)
    {
        rate = control->rate * range->lr_scale, keep = kept(range, control->lr), correct2 = control->root;
    }
    __device__ void update(float *w, float *m, float *v, float g) const
    {
        float mi = beta1 * *m + rest1 * g, vi = beta2 * *v + rest2 * g * g;
        *m = mi;
        *v = vi;
        *w = keep * *w - rate * mi / (sqrtf(vi) * correct2 + eps);
    }
};

struct lion {
    enum { MOMENTS = 1 };
    float beta1, rest1, beta2, rest2, lr, keep;
    __device__ void enter(const struct update_range *range, const struct step_control *control)
    {
        lr = control->lr * range->lr_scale, keep = kept(range, control->lr);
    }
    __device__ void update(float *w, float *m, float *, float g) const
    {
        float c = beta1 * *m + rest1 * g;
        float step = c > 0.0f ? lr : c < 0.0f ? -lr : 0.0f;
        *w = keep * *w - step;
        *m = beta2 * *m + rest2 * g;
    }
};

static struct adamw adamw_of(struct optimizer_params params)
{
    float beta1 = (float)params.beta1, beta2 = (float)params.beta2;
    return adamw{beta1, 1.0f - beta1, beta2, 1.0f - beta2, params.eps, 0, 0, 0};
}

static struct lion lion_of(struct optimizer_params params)
{
    float beta1 = (float)params.beta1, beta2 = (float)params.beta2;
    return lion{beta1, (float)(1.0f - params.beta1), beta2, (float)(1.0f - params.beta2), 0, 0};
}

/* weights (n): w rounded to bf16 if T is bf16, else not written. */
template <typename Rule, typename T, int W>
__global__ void optimizer_update(float *__restrict__ w, T *__restrict__ weights, float *__restrict__ m,
                                 float *__restrict__ v, const float *__restrict__ g, size_t n,
                                 const struct update_range *__restrict__ ranges, int range_count, Rule rule,
                                 const struct step_control *control, const struct clip_state *clip)
{
    constexpr bool TWO = Rule::MOMENTS == 2;
    float scale = clip->scale;
    size_t i = ((size_t)blockIdx.x * BLOCK + threadIdx.x) * W;
    if (scale == 0.0f || i >= n) return;
    const struct update_range *range = range_of(ranges, range_count, i);
    rule.enter(range, control);
    if (i + W <= range->end) {
        floats<W> a = load<W>(w + i), b = load<W>(m + i), c = {}, d = load<W>(g + i);
        if constexpr (TWO) c = load<W>(v + i);
        for (int k = 0; k < W; k++) rule.update(&a.at[k], &b.at[k], &c.at[k], d.at[k] * scale);
        if constexpr (sizeof(T) == 2) store<W>(weights + i, a);
        store<W>(w + i, a);
        store<W>(m + i, b);
        if constexpr (TWO) store<W>(v + i, c);
        return;
    }
    for (size_t stop = i + W < n ? i + W : n; i < stop; i++) { /* the last piece, or a piece of two ranges */
        if (i >= range->end) {
            range = range_of(ranges, range_count, i);
            rule.enter(range, control);
        }
        rule.update(&w[i], &m[i], TWO ? &v[i] : NULL, g[i] * scale);
        if constexpr (sizeof(T) == 2) element_store(weights + i, w[i]);
    }
}

/* ---- moments in 8 bits ---- */

enum { WARPS = BLOCK / 32, LANE_ELEMENTS = MOMENT_BLOCK / 32 };

/* The values of the codes and the edges between neighbours in shared memory. */
struct moment_table {
    shared_pointer<float> values, edges;
    __device__ void fill(const struct moment_codes &codes)
    {
        for (int i = (int)threadIdx.x; i < MOMENT_EDGES; i += BLOCK) {
            if (i < DYNAMIC_VALUES) values[i] = codes.values[i];
            edges[i] = codes.edges[i];
        }
    }
    __device__ float decode(const struct moment_block *block, int i) const
    {
        return values[block->codes[i]] * block->scale;
    }
    /* By a whole warp, of which a lane has the elements lane + 32 k; 0 behind the last one of the arena. */
    __device__ void encode(struct moment_block *block, const float *x, int lane,
                           const struct moment_codes &codes) const
    {
        float most = 0, least = 0;
#pragma unroll
        for (int k = 0; k < LANE_ELEMENTS; k++) most = fmaxf(most, x[k]), least = fminf(least, x[k]);
        most = warp_max(most), least = -warp_max(-least);
        float scale = most >= -least ? fminf(most, FLT_MAX) : fmaxf(least, -FLT_MAX);
        if (fabsf(scale) < MOMENT_SCALE_LEAST) scale = 0;
#pragma unroll
        for (int k = 0; k < LANE_ELEMENTS; k++) {
            float at = x[k] / scale;
            int edge = scale != 0 ? moment_near_edge(at, &codes) : 0;
            block->codes[lane + 32 * k] =
                scale != 0 ? (uint8_t)(edge - 1 + (at > edges[edge]) - codes.zero) : 0;
        }
        if (lane == 0) block->scale = scale;
    }
};

/* A warp updates a block of moments, whose elements it reads and writes in stretches of 32. */
template <typename Rule, typename T>
__global__ void optimizer_update8(float *__restrict__ w, T *__restrict__ weights,
                                  struct moment_block *__restrict__ m, struct moment_block *__restrict__ v,
                                  const float *__restrict__ g, size_t n,
                                  const struct update_range *__restrict__ ranges, int range_count, Rule rule,
                                  const struct moment_codes first, const struct moment_codes second,
                                  const struct step_control *control, const struct clip_state *clip)
{
    constexpr bool TWO = Rule::MOMENTS == 2;
    SHARED_ARRAY(float, values, 2 * DYNAMIC_VALUES);
    SHARED_ARRAY(float, edges, 2 * MOMENT_EDGES);
    struct moment_table firsts = {values, edges}, seconds = {values + DYNAMIC_VALUES, edges + MOMENT_EDGES};
    float scale = clip->scale, mi[LANE_ELEMENTS], vi[LANE_ELEMENTS];
    int lane = (int)threadIdx.x % 32;
    size_t b = (size_t)blockIdx.x * WARPS + threadIdx.x / 32, from = b * MOMENT_BLOCK + (size_t)lane;
    if (scale == 0.0f) return;
    firsts.fill(first);
    if constexpr (TWO) seconds.fill(second);
    __syncthreads();
    if (b * MOMENT_BLOCK >= n) return;
    const struct update_range *range = NULL;
#pragma unroll
    for (int k = 0; k < LANE_ELEMENTS; k++) {
        size_t i = from + 32 * (size_t)k;
        mi[k] = vi[k] = 0;
        if (i >= n) continue;
        if (!range || i >= range->end) {
            range = range_of(ranges, range_count, i);
            rule.enter(range, control);
        }
        float wi = w[i];
        mi[k] = firsts.decode(&m[b], lane + 32 * k);
        if constexpr (TWO) vi[k] = seconds.decode(&v[b], lane + 32 * k);
        rule.update(&wi, &mi[k], &vi[k], g[i] * scale);
        w[i] = wi;
        if constexpr (sizeof(T) == 2) element_store(weights + i, wi);
    }
    __syncwarp(); /* all lanes have read the old scale */
    firsts.encode(&m[b], mi, lane, first);
    if constexpr (TWO) seconds.encode(&v[b], vi, lane, second);
}

template <typename Rule>
static void optimizer_launch8(float *w, void *weights, struct moment_block *m, struct moment_block *v,
                              const float *g, size_t n, const struct update_range *ranges, int range_count,
                              Rule rule, const struct step_control *control, const struct clip_state *clip,
                              struct stream *stream)
{
    const struct moment_codes first = moment_codes_of(true), second = moment_codes_of(false);
    dispatch<1>(stream, 1, {}, [&]<typename T, int W>() {
        LAUNCH((optimizer_update8<Rule, T>), block_count(moment_blocks(n), WARPS), BLOCK, 0, stream, w,
               (T *)weights, m, v, g, n, ranges, range_count, rule, first, second, control, clip);
    });
}

template <typename Rule>
static void optimizer_launch(float *w, void *weights, float *m, float *v, const float *g, size_t n,
                             const struct update_range *ranges, int range_count, Rule rule,
                             const struct step_control *control, const struct clip_state *clip,
                             struct stream *stream)
{
    dispatch<4>(stream, 0, {w, weights, m, v, g}, [&]<typename T, int W>() {
        LAUNCH((optimizer_update<Rule, T, W>), block_count((n + W - 1) / W, BLOCK), BLOCK, 0, stream, w,
               (T *)weights, m, v, g, n, ranges, range_count, rule, control, clip);
    });
}

/* Once per step, like the CPU twin: computing powers in double for each parameter is too slow. */
__global__ static void adamw_prepare(struct step_control *control, const struct clip_state *clip,
                                     double beta1, double beta2)
{
    double t = (double)clip->updates, lr = (double)control->lr;
    if (threadIdx.x != 0 || clip->scale == 0.0f) return;
    control->rate = (float)(lr / (double)(float)(1 - pow(beta1, t)));
    control->root = (float)(1.0 / sqrt((double)(float)(1 - pow(beta2, t))));
}

void adamw_step(float *w, void *weights, float *m, float *v, const float *g, size_t n,
                const struct update_range *ranges, int range_count, struct optimizer_params params,
                struct step_control *control, const struct clip_state *clip, struct stream *stream)
{
    if (n == 0) return;
    LAUNCH(adamw_prepare, 1, 32, 0, stream, control, clip, params.beta1, params.beta2);
    optimizer_launch(w, weights, m, v, g, n, ranges, range_count, adamw_of(params), control, clip, stream);
}

void lion_step(float *w, void *weights, float *m, float *, const float *g, size_t n,
               const struct update_range *ranges, int range_count, struct optimizer_params params,
               struct step_control *control, const struct clip_state *clip, struct stream *stream)
{
    if (n == 0) return;
    optimizer_launch(w, weights, m, (float *)NULL, g, n, ranges, range_count, lion_of(params), control, clip,
                     stream);
}

void adamw8_step(float *w, void *weights, struct moment_block *m, struct moment_block *v, const float *g,
                 size_t n, const struct update_range *ranges, int range_count, struct optimizer_params params,
                 struct step_control *control, const struct clip_state *clip, struct stream *stream)
{
    if (n == 0) return;
    LAUNCH(adamw_prepare, 1, 32, 0, stream, control, clip, params.beta1, params.beta2);
    optimizer_launch8(w, weights, m, v, g, n, ranges, range_count, adamw_of(params), control, clip, stream);
}

void lion8_step(float *w, void *weights, struct moment_block *m, struct moment_block *, const float *g,
                size_t n, const struct update_range *ranges, int range_count, struct optimizer_params params,
                struct step_control *control, const struct clip_state *clip, struct stream *stream)
{
    if (n == 0) return;
    optimizer_launch8(w, weights, m, (struct moment_block *)NULL, g, n, ranges, range_count, lion_of(params),
                      control, clip, stream);
}

/* One thread of a block computes the power in double, while the others load. */
template <int W>
__global__ void average_elements(float *__restrict__ average, const float *__restrict__ w, size_t n,
                                 double decay, const struct clip_state *clip)
{
    SHARED_ARRAY(float, shared, 1);
    size_t i = ((size_t)blockIdx.x * BLOCK + threadIdx.x) * W;
    if (clip->scale == 0.0f) return;
    if (threadIdx.x == 0) shared[0] = (float)((1 - decay) / (1 - pow(decay, (double)clip->updates)));
    bool whole = i + W <= n;
    floats<W> a = {}, b = {};
    if (whole) a = load<W>(average + i), b = load<W>(w + i);
    __syncthreads();
    float share = shared[0];
    if (whole) {
        for (int k = 0; k < W; k++) a.at[k] += share * (b.at[k] - a.at[k]);
        store<W>(average + i, a);
        return;
    }
    for (; i < n; i++) average[i] += share * (w[i] - average[i]);
}

void average_weights(float *average, const float *w, size_t n, double decay, const struct clip_state *clip,
                     struct stream *stream)
{
    if (n == 0) return;
    if (all_aligned16({average, w}))
        LAUNCH((average_elements<4>), block_count((n + 3) / 4, BLOCK), BLOCK, 0, stream, average, w, n, decay,
               clip);
    else
        LAUNCH((average_elements<1>), block_count(n, BLOCK), BLOCK, 0, stream, average, w, n, decay, clip);
}
