/* CUDA twin of lion.h. Memory-bound: 3 floats read and 2 written a parameter, and the bf16 weight where
 * there is one; 16 bytes a thread and array (8 of bf16) where all start at such an address. The clipping
 * scale is read on the device.
 *
 * ptxas (CUDA 13.0) for sm_80 and sm_90a: 18 to 37 registers, no spills; the vector path moves 16 bytes an
 * instruction, 8 of bf16. Not yet measured on a GPU. */
#include "kernels/element.cuh"
#include "kernels/lion.h"

enum { BLOCK = 256 };

struct lion_factors {
    float beta1, rest1, beta2, rest2, lr, weight_decay, keep;
    size_t decayed; /* elements from here on do not shrink */
};

__device__ static inline void lion_one(float *w, float *m, float g, size_t i, const struct lion_factors &f)
{
    float c = f.beta1 * *m + f.rest1 * g;
    float step = c > 0.0f ? f.lr : c < 0.0f ? -f.lr : 0.0f;
    *w = (i < f.decayed ? f.keep : 1.0f) * *w - step;
    *m = f.beta2 * *m + f.rest2 * g;
}

/* weights (n): where T is bf16, w as rounded to it; else not touched. */
template <typename T, int W>
__global__ void lion_update(float *__restrict__ w, T *__restrict__ weights, float *__restrict__ m,
                            const float *__restrict__ g, size_t n, struct lion_factors f,
                            const struct step_control *control, const struct clip_state *clip)
{
    float scale = clip->scale;
    size_t i = ((size_t)blockIdx.x * BLOCK + threadIdx.x) * W;
    if (scale == 0.0f) return;
    f.lr = control->lr;
    f.keep = (float)(1.0 - (double)f.lr * (double)f.weight_decay);
    if (i + W <= n) {
        floats<W> a = load<W>(w + i), b = load<W>(m + i), d = load<W>(g + i);
        for (int k = 0; k < W; k++) lion_one(&a.at[k], &b.at[k], d.at[k] * scale, i + k, f);
        if constexpr (sizeof(T) == 2) store<W>(weights + i, a);
        store<W>(w + i, a);
        store<W>(m + i, b);
        return;
    }
    for (; i < n; i++) {
        lion_one(&w[i], &m[i], g[i] * scale, i, f);
        if constexpr (sizeof(T) == 2) element_store(weights + i, w[i]);
    }
}

void lion_step(float *w, void *weights, float *m, const float *g, size_t n, size_t decayed,
               struct lion_params params, const struct step_control *control, const struct clip_state *clip,
               struct stream *stream)
{
    struct lion_factors f = {};
    if (n == 0) return;
    f.beta1 = params.beta1, f.rest1 = 1.0f - params.beta1;
    f.beta2 = params.beta2, f.rest2 = 1.0f - params.beta2;
    f.weight_decay = params.weight_decay;
    f.decayed = decayed;
    dispatch<4>(stream, 0, {w, weights, m, g}, [&]<typename T, int W>() {
        LAUNCH((lion_update<T, W>), block_count((n + W - 1) / W, BLOCK), BLOCK, 0, stream, w, (T *)weights, m,
               g, n, f, control, clip);
    });
}
