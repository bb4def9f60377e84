/* CUDA twin of cross-entropy. Memory-bound: one block per row, which it reads once with an online softmax;
 * the fused form reads it again, from the second-level cache, and writes it; 16 bytes per thread if the
 * stride and the address allow, whatever V is. Each thread sums at most V / 256 exponentials in fp32; the
 * threads' sums are added in fp64. */
#include "kernels/element.cuh"

/* Elements [i, i + W) of a row (V); −infinity behind its end, which adds nothing to a sum of exponentials. */
template <int W, typename T> __device__ static inline floats<W> row_load(const T *row, int i, int V)
{
    if constexpr (W > 1)
        if (i + W > V) {
            floats<W> x;
            for (int k = 0; k < W; k++) x.at[k] = i + k < V ? element_load(row + i + k) : -INFINITY;
            return x;
        }
    return load<W>(row + i);
}

template <int W, typename T> __device__ static inline void row_store(T *row, int i, int V, const floats<W> &x)
{
    if constexpr (W > 1)
        if (i + W > V) {
            for (int k = 0; k < W; k++)
                if (i + k < V) element_store(row + i + k, x.at[k]);
            return;
        }
    store<W>(row + i, x);
}

/* The log-sum-exp of row (V), for every thread. */
template <int W, typename T> __device__ static inline double row_lse(const T *row, int V)
{
    float max = -INFINITY, total = 0;
    for (int i = (int)threadIdx.x * W; i < V; i += (int)blockDim.x * W) {
        floats<W> x = row_load<W>(row, i, V);
        float top = x.at[0];
        for (int k = 1; k < W; k++) top = fmaxf(top, x.at[k]);
        if (top > max) {
            total *= expf(max - top);
            max = top;
        }
        for (int k = 0; k < W; k++)
            if (x.at[k] != -INFINITY) total += expf(x.at[k] - max); /* NaN propagates */
    }
    float top = block_max(max);
    /* an infinite logit gives NaN; a thread without a finite logit adds nothing */
    double share = top == INFINITY    ? (double)NAN
                   : max == -INFINITY ? (double)total
                                      : total * exp((double)max - top);
    return log(block_sum(share)) + top;
}

/* The losses; if GRADIENT, also the gradient, which overwrites the logits. */
template <bool GRADIENT, typename T, int W>
__global__ void cross_entropy_rows(float *losses, T *logits, const int32_t *__restrict__ targets,
                                   const struct step_control *control, int V, int stride)
{
    int n = (int)blockIdx.x, target = targets[n];
    T *row = logits + (size_t)n * (unsigned)stride;
    if (target < 0) {
        if (threadIdx.x == 0) losses[n] = 0;
        for (int i = (int)threadIdx.x * W; GRADIENT && i < V; i += (int)blockDim.x * W)
            row_store<W>(row, i, V, floats<W>{});
        return;
    }
    float aimed = element_load(row + target);
    __syncwarp(); /* if a block is one warp, row_lse has no barrier between this and the first write */
    double lse = row_lse<W>(row, V);
    if (threadIdx.x == 0) losses[n] = (float)(lse - aimed);
    if constexpr (!GRADIENT) return;
    /* lse has more bits than fp32: the part beyond fp32 becomes a factor of exp(x − lse) */
    float loss_scale = control->loss_scale, z_loss = control->z_loss, base = (float)lse,
          scale = z_loss > 0 ? (float)(loss_scale * (1 + 2 * z_loss * lse)) : loss_scale,
          factor = scale * expf((float)(base - lse));
    for (int i = (int)threadIdx.x * W; i < V; i += (int)blockDim.x * W) {
        floats<W> x = row_load<W>(row, i, V);
        for (int k = 0; k < W; k++)
            x.at[k] = factor * expf(x.at[k] - base) - (i + k == target ? loss_scale : 0.0f);
        row_store<W>(row, i, V, x);
    }
}

void cross_entropy_forward(float *losses, struct matrix logits, const int32_t *targets, int N, int V,
                           struct stream *stream)
{
    dispatch(stream, logits.stride, {logits.at}, [&]<typename T, int W>() {
        LAUNCH((cross_entropy_rows<false, T, W>), (unsigned)N, row_threads(V, W), 0, stream, losses,
               (T *)logits.at, targets, (const struct step_control *)NULL, V, logits.stride);
    });
}

void cross_entropy_fused(float *losses, struct matrix logits_dlogits, const int32_t *targets,
                         const struct step_control *control, int N, int V, struct stream *stream)
{
    dispatch(stream, logits_dlogits.stride, {logits_dlogits.at}, [&]<typename T, int W>() {
        LAUNCH((cross_entropy_rows<true, T, W>), (unsigned)N, row_threads(V, W), 0, stream, losses,
               (T *)logits_dlogits.at, targets, control, V, logits_dlogits.stride);
    });
}

/* A block per row; a model has few classes. */
template <typename T>
__global__ void weigh_rows(float *losses, T *dlogits, const int32_t *__restrict__ targets,
                           const float *__restrict__ weights, int V, int stride)
{
    int n = (int)blockIdx.x, target = targets[n];
    if (target < 0) return;
    float weight = weights[target];
    if (threadIdx.x == 0) losses[n] *= weight;
    if (!dlogits) return;
    T *row = dlogits + (size_t)n * (unsigned)stride;
    for (int i = (int)threadIdx.x; i < V; i += (int)blockDim.x)
        element_store(row + i, element_load(row + i) * weight);
}

void weigh_classes(float *losses, struct matrix dlogits, const int32_t *targets, const float *weights, int N,
                   int V, struct stream *stream)
{
    dispatch_scalar(stream, [&]<typename T>() {
        LAUNCH((weigh_rows<T>), (unsigned)N, 32, 0, stream, losses, (T *)dlogits.at, targets, weights, V,
               dlogits.stride);
    });
}
