/* CUDA twin of cross_entropy.h. Memory-bound: a block a row, which it reads once with an online softmax; the
 * fused form reads it again, from the second-level cache, and writes it. Each thread sums at most V / 256
 * exponentials in fp32, the threads' sums are added in fp64. */
#include "kernels/cross_entropy.h"
#include "kernels/cuda_device.cuh"

/* The log-sum-exp of row (V), for every thread. */
__device__ static inline double row_lse(const float *row, int V)
{
    float max = -INFINITY, total = 0;
    for (int i = (int)threadIdx.x; i < V; i += (int)blockDim.x) {
        float x = row[i];
        if (x > max) {
            total = total * expf(max - x) + 1.0f;
            max = x;
        } else if (x != -INFINITY) { /* NaN comes here and stays */
            total += expf(x - max);
        }
    }
    float top = block_max(max);
    /* one infinite logit is no distribution; a thread without a finite one has nothing to add */
    double share = top == INFINITY    ? (double)NAN
                   : max == -INFINITY ? (double)total
                                      : total * exp((double)max - top);
    return log(block_sum(share)) + top;
}

__global__ void cross_entropy_rows(float *losses, const float *__restrict__ logits,
                                   const int32_t *__restrict__ targets, int V)
{
    int n = (int)blockIdx.x, target = targets[n];
    const float *row = logits + (size_t)n * (unsigned)V;
    if (target < 0) {
        if (threadIdx.x == 0) losses[n] = 0;
        return;
    }
    double lse = row_lse(row, V);
    if (threadIdx.x == 0) losses[n] = (float)(lse - row[target]);
}

__global__ void cross_entropy_gradient(float *losses, float *logits, const int32_t *__restrict__ targets,
                                       float loss_scale, int V)
{
    int n = (int)blockIdx.x, target = targets[n];
    float *row = logits + (size_t)n * (unsigned)V;
    if (target < 0) {
        if (threadIdx.x == 0) losses[n] = 0;
        for (int i = (int)threadIdx.x; i < V; i += (int)blockDim.x) row[i] = 0;
        return;
    }
    float aimed = row[target]; /* read by all before the barriers in row_lse, written by one after */
    double lse = row_lse(row, V);
    /* exp(x − lse) from an fp32 difference would lose what lse has beyond fp32: the rest is a factor */
    float base = (float)lse, factor = loss_scale * expf((float)(base - lse));
    for (int i = (int)threadIdx.x; i < V; i += (int)blockDim.x)
        row[i] = factor * expf(row[i] - base) - (i == target ? loss_scale : 0.0f);
    if (threadIdx.x == 0) losses[n] = (float)(lse - aimed);
}

void cross_entropy_forward(float *losses, const void *logits_, const int32_t *targets, int N, int V,
                           struct stream *stream)
{
    const float *logits = (const float *)logits_;
    LAUNCH(cross_entropy_rows, (unsigned)N, row_threads(V), 0, stream, losses, logits, targets, V);
}

void cross_entropy_fused(float *losses, void *logits_dlogits_, const int32_t *targets, float loss_scale,
                         int N, int V, struct stream *stream)
{
    float *logits_dlogits = (float *)logits_dlogits_;
    LAUNCH(cross_entropy_gradient, (unsigned)N, row_threads(V), 0, stream, losses, logits_dlogits, targets,
           loss_scale, V);
}
