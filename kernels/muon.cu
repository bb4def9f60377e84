/* CUDA twins of Muon's operations around its matrix products. Memory-bound: every element is read and written
 * once, 16 bytes per thread if the addresses allow. The clipping scale, the norm and the learning rate are
 * read on the device. */
#include "kernels/element.cuh"

enum { BLOCK = 256 };

template <int W>
__global__ void momentum_elements(float *__restrict__ m, float *__restrict__ g, size_t n, float momentum,
                                  float rest, bool nesterov, const struct clip_state *clip)
{
    float scale = clip->scale;
    size_t i = ((size_t)blockIdx.x * BLOCK + threadIdx.x) * W;
    if (scale == 0.0f) return;
    auto next = [=](float *mi, float *gi) {
        float scaled = *gi * scale;
        *mi = momentum * *mi + rest * scaled;
        *gi = nesterov ? momentum * *mi + rest * scaled : *mi;
    };
    if (i + W <= n) {
        floats<W> a = load<W>(m + i), b = load<W>(g + i);
        for (int k = 0; k < W; k++) next(&a.at[k], &b.at[k]);
        store<W>(m + i, a);
        store<W>(g + i, b);
        return;
    }
    for (; i < n; i++) next(&m[i], &g[i]);
}

void muon_momentum(float *m, float *g, size_t n, float momentum, bool nesterov, const struct clip_state *clip,
                   struct stream *stream)
{
    float rest = 1.0f - momentum;
    if (n == 0) return;
    if (all_aligned16({m, g}))
        LAUNCH((momentum_elements<4>), block_count((n + 3) / 4, BLOCK), BLOCK, 0, stream, m, g, n, momentum,
               rest, nesterov, clip);
    else
        LAUNCH((momentum_elements<1>), block_count(n, BLOCK), BLOCK, 0, stream, m, g, n, momentum, rest,
               nesterov, clip);
}

template <typename T, int W>
__global__ void normalise_elements(T *__restrict__ out, const float *__restrict__ x,
                                   const double *__restrict__ squares, size_t n, float least)
{
    size_t i = ((size_t)blockIdx.x * BLOCK + threadIdx.x) * W;
    double norm = sqrt(*squares);
    float scale = (float)(1.0 / (norm > least ? norm : (double)least));
    if (i + W <= n) {
        floats<W> a = load<W>(x + i);
        for (int k = 0; k < W; k++) a.at[k] *= scale;
        store<W>(out + i, a);
        return;
    }
    for (; i < n; i++) element_store(out + i, x[i] * scale);
}

void muon_normalise(void *out, const float *x, const double *squares, size_t n, float least,
                    struct stream *stream)
{
    if (n == 0) return;
    dispatch<4>(stream, 0, {out, x}, [&]<typename T, int W>() {
        LAUNCH((normalise_elements<T, W>), block_count((n + W - 1) / W, BLOCK), BLOCK, 0, stream, (T *)out, x,
               squares, n, least);
    });
}

/* Rows of a multiple of W elements. */
template <typename T, int W>
__global__ void polynomial_elements(T *__restrict__ x, const T *__restrict__ gram, int n, float a, float b)
{
    size_t i = ((size_t)blockIdx.x * BLOCK + threadIdx.x) * W;
    if (i >= (size_t)n * (unsigned)n) return;
    int diagonal = (int)(i / (unsigned)n) - (int)(i % (unsigned)n); /* its place in this piece, if it is in it */
    floats<W> at = load<W>(x + i), of = load<W>(gram + i);
#pragma unroll
    for (int k = 0; k < W; k++) /* with a branch the compiler would index the registers, and so spill them */
        at.at[k] = at.at[k] + b * of.at[k] + (k == diagonal ? a : 0.0f);
    store<W>(x + i, at);
}

void muon_polynomial(void *x, const void *gram, int n, float a, float b, struct stream *stream)
{
    dispatch(stream, n, {x, gram}, [&]<typename T, int W>() {
        LAUNCH((polynomial_elements<T, W>), block_count((size_t)n * (size_t)n / W, BLOCK), BLOCK, 0, stream,
               (T *)x, (const T *)gram, n, a, b);
    });
}

template <typename T, int W>
__global__ void update_elements(float *__restrict__ w, T *__restrict__ weights, const T *__restrict__ x,
                                size_t n, size_t at, const struct update_range *__restrict__ ranges,
                                int range_count, float scale, const struct step_control *control,
                                const struct clip_state *clip)
{
    size_t i = ((size_t)blockIdx.x * BLOCK + threadIdx.x) * W;
    int k = 0;
    if (clip->scale == 0.0f || i >= n) return;
    while (k + 1 < range_count && ranges[k].end <= at) k++;
    float lr = control->lr * ranges[k].lr_scale, rate = lr * scale;
    float keep = (float)(1.0 - (double)lr * ranges[k].weight_decay); /* in double, as in the CPU twin */
    if (i + W <= n) {
        floats<W> a = load<W>(w + i), b = load<W>(x + i);
        for (int j = 0; j < W; j++) a.at[j] = keep * a.at[j] - rate * b.at[j];
        store<W>(w + i, a);
        if constexpr (sizeof(T) == 2) store<W>(weights + i, a);
        return;
    }
    for (; i < n; i++) {
        w[i] = keep * w[i] - rate * element_load(x + i);
        if constexpr (sizeof(T) == 2) element_store(weights + i, w[i]);
    }
}

void muon_update(float *w, void *weights, const void *x, size_t n, size_t at,
                 const struct update_range *ranges, int range_count, float scale,
                 const struct step_control *control, const struct clip_state *clip, struct stream *stream)
{
    if (n == 0) return;
    dispatch<4>(stream, 0, {w, weights, x}, [&]<typename T, int W>() {
        LAUNCH((update_elements<T, W>), block_count((n + W - 1) / W, BLOCK), BLOCK, 0, stream, w,
               (T *)weights, (const T *)x, n, at, ranges, range_count, scale, control, clip);
    });
}
