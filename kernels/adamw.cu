/* CUDA twin of adamw.h. Memory-bound: 4 floats read and 3 written a parameter, and the bf16 weight where
 * there is one; 16 bytes a thread and array (8 of bf16) where all start at such an address. The clipping
 * scale and what follows from the learning rate are read on the device.
 *
 * ptxas (CUDA 13.0) for sm_80 and sm_90a: 30 to 44 registers, no spills; the vector path moves 16 bytes an
 * instruction, 8 of bf16. Not yet measured on a GPU. */
#include "kernels/adamw.h"
#include "kernels/element.cuh"
#include "kernels/update_range.cuh"

enum { BLOCK = 256 };

/* What the update needs of its parameters; the rest of the control. */
struct adamw_factors {
    float beta1, rest1, beta2, rest2, lr, rate, correct2, eps;
};

/* Once, as the CPU twin does it: powers in double are too dear for each of them. */
__global__ static void adamw_prepare(struct step_control *control, const struct clip_state *clip,
                                     double beta1, double beta2)
{
    double t = (double)clip->updates, lr = (double)control->lr;
    if (threadIdx.x != 0 || clip->scale == 0.0f) return;
    control->rate = (float)(lr / (double)(float)(1 - pow(beta1, t)));
    control->root = (float)(1.0 / sqrt((double)(float)(1 - pow(beta2, t))));
}

/* `rate` and `keep` are of the element's range. */
__device__ static inline void adamw_one(float *w, float *m, float *v, float g, float rate, float keep,
                                        const struct adamw_factors &f)
{
    float mi = f.beta1 * *m + f.rest1 * g, vi = f.beta2 * *v + f.rest2 * g * g;
    *m = mi;
    *v = vi;
    *w = keep * *w - rate * mi / (sqrtf(vi) * f.correct2 + f.eps);
}

/* weights (n): where T is bf16, w as rounded to it; else not touched. */
template <typename T, int W>
__global__ void adamw_update(float *__restrict__ w, T *__restrict__ weights, float *__restrict__ m,
                             float *__restrict__ v, const float *__restrict__ g, size_t n,
                             const struct update_range *__restrict__ ranges, int range_count,
                             struct adamw_factors f, const struct step_control *control,
                             const struct clip_state *clip)
{
    float scale = clip->scale;
    size_t i = ((size_t)blockIdx.x * BLOCK + threadIdx.x) * W;
    if (scale == 0.0f || i >= n) return;
    f.lr = control->lr, f.rate = control->rate, f.correct2 = control->root;
    const struct update_range *range = update_range_of(ranges, range_count, i);
    float rate = f.rate * range->lr_scale, keep = update_range_keep(range, f.lr);
    if (i + W <= range->end) {
        floats<W> a = load<W>(w + i), b = load<W>(m + i), c = load<W>(v + i), d = load<W>(g + i);
        for (int k = 0; k < W; k++) adamw_one(&a.at[k], &b.at[k], &c.at[k], d.at[k] * scale, rate, keep, f);
        if constexpr (sizeof(T) == 2) store<W>(weights + i, a);
        store<W>(w + i, a);
        store<W>(m + i, b);
        store<W>(v + i, c);
        return;
    }
    for (size_t stop = i + W < n ? i + W : n; i < stop; i++) { /* the last piece, or one of two ranges */
        if (i >= range->end) {
            range = update_range_of(ranges, range_count, i);
            rate = f.rate * range->lr_scale, keep = update_range_keep(range, f.lr);
        }
        adamw_one(&w[i], &m[i], &v[i], g[i] * scale, rate, keep, f);
        if constexpr (sizeof(T) == 2) element_store(weights + i, w[i]);
    }
}

void adamw_step(float *w, void *weights, float *m, float *v, const float *g, size_t n,
                const struct update_range *ranges, int range_count, struct optimizer_params params,
                struct step_control *control, const struct clip_state *clip, struct stream *stream)
{
    struct adamw_factors f = {};
    if (n == 0) return;
    f.beta1 = (float)params.beta1, f.rest1 = 1.0f - f.beta1;
    f.beta2 = (float)params.beta2, f.rest2 = 1.0f - f.beta2;
    f.eps = params.eps;
    LAUNCH(adamw_prepare, 1, 32, 0, stream, control, clip, params.beta1, params.beta2);
    dispatch<4>(stream, 0, {w, weights, m, v, g}, [&]<typename T, int W>() {
        LAUNCH((adamw_update<T, W>), block_count((n + W - 1) / W, BLOCK), BLOCK, 0, stream, w, (T *)weights,
               m, v, g, n, ranges, range_count, f, control, clip);
    });
}
