/* CUDA twin of lion.h. Memory-bound: 3 floats read and 2 written a parameter, and the bf16 weight where
 * there is one; 16 bytes a thread and array (8 of bf16) where all start at such an address. The clipping
 * scale is read on the device.
 *
 * ptxas (CUDA 13.0) for sm_80 and sm_90a: 32 to 40 registers, no spills; the vector path moves 16 bytes an
 * instruction, 8 of bf16. Not yet measured on a GPU. */
#include "kernels/element.cuh"
#include "kernels/lion.h"
#include "kernels/update_range.cuh"

enum { BLOCK = 256 };

struct lion_factors {
    float beta1, rest1, beta2, rest2;
};

/* `lr` and `keep` are of the element's range. */
__device__ static inline void lion_one(float *w, float *m, float g, float lr, float keep,
                                       const struct lion_factors &f)
{
    float c = f.beta1 * *m + f.rest1 * g;
    float step = c > 0.0f ? lr : c < 0.0f ? -lr : 0.0f;
    *w = keep * *w - step;
    *m = f.beta2 * *m + f.rest2 * g;
}

/* weights (n): where T is bf16, w as rounded to it; else not touched. */
template <typename T, int W>
__global__ void lion_update(float *__restrict__ w, T *__restrict__ weights, float *__restrict__ m,
                            const float *__restrict__ g, size_t n,
                            const struct update_range *__restrict__ ranges, int range_count,
                            struct lion_factors f, const struct step_control *control,
                            const struct clip_state *clip)
{
    float scale = clip->scale, base = control->lr;
    size_t i = ((size_t)blockIdx.x * BLOCK + threadIdx.x) * W;
    if (scale == 0.0f || i >= n) return;
    const struct update_range *range = update_range_of(ranges, range_count, i);
    float lr = base * range->lr_scale, keep = update_range_keep(range, base);
    if (i + W <= range->end) {
        floats<W> a = load<W>(w + i), b = load<W>(m + i), d = load<W>(g + i);
        for (int k = 0; k < W; k++) lion_one(&a.at[k], &b.at[k], d.at[k] * scale, lr, keep, f);
        if constexpr (sizeof(T) == 2) store<W>(weights + i, a);
        store<W>(w + i, a);
        store<W>(m + i, b);
        return;
    }
    for (size_t stop = i + W < n ? i + W : n; i < stop; i++) { /* the last piece, or one of two ranges */
        if (i >= range->end) {
            range = update_range_of(ranges, range_count, i);
            lr = base * range->lr_scale, keep = update_range_keep(range, base);
        }
        lion_one(&w[i], &m[i], g[i] * scale, lr, keep, f);
        if constexpr (sizeof(T) == 2) element_store(weights + i, w[i]);
    }
}

void lion_step(float *w, void *weights, float *m, float *v, const float *g, size_t n,
               const struct update_range *ranges, int range_count, struct optimizer_params params,
               struct step_control *control, const struct clip_state *clip, struct stream *stream)
{
    struct lion_factors f = {};
    (void)v; /* there is one moment */
    if (n == 0) return;
    f.beta1 = (float)params.beta1, f.rest1 = 1.0f - params.beta1;
    f.beta2 = (float)params.beta2, f.rest2 = 1.0f - params.beta2;
    dispatch<4>(stream, 0, {w, weights, m, g}, [&]<typename T, int W>() {
        LAUNCH((lion_update<T, W>), block_count((n + W - 1) / W, BLOCK), BLOCK, 0, stream, w, (T *)weights, m,
               g, n, ranges, range_count, f, control, clip);
    });
}
