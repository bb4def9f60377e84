/* CUDA twin of cross-entropy. Memory-bound: one block per row, which it reads once with an online softmax;
 * the fused form reads it again, from the second-level cache, and writes it; 16 bytes per thread if V and the
 * addresses allow. Each thread sums at most V / 256 exponentials in fp32; the threads' sums are added in
 * fp64. */
#include "kernels/element.cuh"

/* The log-sum-exp of row (V), for every thread. */
template <int W, typename T> __device__ static inline double row_lse(const T *row, int V)
{
    float max = -INFINITY, total = 0;
    for (int i = (int)threadIdx.x * W; i < V; i += (int)blockDim.x * W) {
        floats<W> x = load<W>(row + i);
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
                                   const struct step_control *control, int V)
{
    int n = (int)blockIdx.x, target = targets[n];
    T *row = logits + (size_t)n * (unsigned)V;
    if (target < 0) {
        if (threadIdx.x == 0) losses[n] = 0;
        for (int i = (int)threadIdx.x * W; GRADIENT && i < V; i += (int)blockDim.x * W)
            store<W>(row + i, floats<W>{});
        return;
    }
    float aimed = element_load(row + target);
    __syncwarp(); /* if a block is one warp, row_lse has no barrier between this and the first write */
    double lse = row_lse<W>(row, V);
    if (threadIdx.x == 0) losses[n] = (float)(lse - aimed);
    if constexpr (!GRADIENT) return;
    /* lse has more bits than fp32: the part beyond fp32 becomes a factor of exp(x − lse) */
    float loss_scale = control->loss_scale, base = (float)lse,
          factor = loss_scale * expf((float)(base - lse));
    for (int i = (int)threadIdx.x * W; i < V; i += (int)blockDim.x * W) {
        floats<W> x = load<W>(row + i);
        for (int k = 0; k < W; k++)
            x.at[k] = factor * expf(x.at[k] - base) - (i + k == target ? loss_scale : 0.0f);
        store<W>(row + i, x);
    }
}

void cross_entropy_forward(float *losses, const void *logits, const int32_t *targets, int N, int V,
                           struct stream *stream)
{
    dispatch(stream, V, {logits}, [&]<typename T, int W>() {
        LAUNCH((cross_entropy_rows<false, T, W>), (unsigned)N, row_threads(V, W), 0, stream, losses,
               (T *)logits, targets, (const struct step_control *)NULL, V);
    });
}

void cross_entropy_fused(float *losses, void *logits_dlogits, const int32_t *targets,
                         const struct step_control *control, int N, int V, struct stream *stream)
{
    dispatch(stream, V, {logits_dlogits}, [&]<typename T, int W>() {
        LAUNCH((cross_entropy_rows<true, T, W>), (unsigned)N, row_threads(V, W), 0, stream, losses,
               (T *)logits_dlogits, targets, control, V);
    });
}

/* A block per row; a model has few classes. */
template <typename T>
__global__ void weigh_rows(float *losses, T *dlogits, const int32_t *__restrict__ targets,
                           const float *__restrict__ weights, int V)
{
    int n = (int)blockIdx.x, target = targets[n];
    if (target < 0) return;
    float weight = weights[target];
    if (threadIdx.x == 0) losses[n] *= weight;
    if (!dlogits) return;
    T *row = dlogits + (size_t)n * (unsigned)V;
    for (int i = (int)threadIdx.x; i < V; i += (int)blockDim.x)
        element_store(row + i, element_load(row + i) * weight);
}

void weigh_classes(float *losses, void *dlogits, const int32_t *targets, const float *weights, int N, int V,
                   struct stream *stream)
{
    dispatch_scalar(stream, [&]<typename T>() {
        LAUNCH((weigh_rows<T>), (unsigned)N, 32, 0, stream, losses, (T *)dlogits, targets, weights, V);
    });
}
