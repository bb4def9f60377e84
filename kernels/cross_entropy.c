/* CPU twin of cross-entropy. A row (V floats) is read once and, in the fused form, rewritten while it is
 * still in the second-level cache.
 *
 * The row is processed in blocks. Each block's exponentials are relative to the block's own maximum, so one
 * pass suffices and exp is computed once per element; afterwards a block needs only a factor to become
 * probabilities. */

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "kernels/device/cpu_device.h"
#include "kernels/simd.h"

#define BLOCKS_MAX 512

static inline int block_length(int V)
{
    int length = (V + BLOCKS_MAX - 1) / BLOCKS_MAX;
    return length < 512 ? 512 : (length + 15) / 16 * 16;
}

/* Adds a block to the running (max, total): total counts in units of exp(max). */
static inline void merge(float *max, double *total, float more_max, float more)
{
    if (more_max > *max) {
        *total = *total * exp((double)*max - more_max);
        *max = more_max;
    }
    *total += more * exp((double)more_max - *max);
}

/* The log-sum-exp of row (V). keep: each block becomes exp(x − its base), for which bases has room. */
__attribute__((always_inline)) static inline double row_lse(float *row, int V, bool keep, float *bases)
{
    int length = block_length(V);
    float max = -INFINITY;
    double total = 0;
    for (int start = 0, block = 0; start < V; start += length, block++) {
        int count = V - start < length ? V - start : length;
        float *x = row + start;
        float top = simd_max(x, count), part = 0;
        float base = top > -INFINITY ? top : 0.0f;
#pragma omp simd reduction(+ : part)
        for (int i = 0; i < count; i++) {
            float e = simd_exp_softmax(x[i] - base);
            if (keep) x[i] = e;
            part += e;
        }
        if (keep) bases[block] = base;
        merge(&max, &total, base, part);
    }
    return log(total) + max;
}

void cross_entropy_forward(float *losses, const void *logits_, const int32_t *targets, int N, int V,
                           struct stream *stream)
{
    const float *logits = logits_;
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (int n = 0; n < N; n++) {
        const float *row = logits + (size_t)n * V;
        losses[n] = targets[n] < 0 ? 0 : (float)(row_lse((float *)row, V, false, NULL) - row[targets[n]]);
    }
}

void cross_entropy_fused(float *losses, void *logits_dlogits_, const int32_t *targets,
                         const struct step_control *control, int N, int V, struct stream *stream)
{
    float *logits_dlogits = logits_dlogits_, loss_scale = control->loss_scale;
    int length = block_length(V);
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (int n = 0; n < N; n++) {
        float *row = logits_dlogits + (size_t)n * V;
        losses[n] = 0;
        if (targets[n] < 0) {
            memset(row, 0, (size_t)V * sizeof(float));
            continue;
        }
        float bases[BLOCKS_MAX], target = row[targets[n]];
        double lse = row_lse(row, V, true, bases);
        losses[n] = (float)(lse - target);
        for (int start = 0, block = 0; start < V; start += length, block++) {
            int count = V - start < length ? V - start : length;
            float *x = row + start, factor = (float)(loss_scale * exp(bases[block] - lse));
#pragma omp simd
            for (int i = 0; i < count; i++) x[i] *= factor;
        }
        row[targets[n]] -= loss_scale;
    }
}

void weigh_classes(float *losses, void *dlogits_, const int32_t *targets, const float *weights, int N, int V,
                   struct stream *stream)
{
    float *dlogits = dlogits_;
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (int n = 0; n < N; n++) {
        if (targets[n] < 0) continue;
        float weight = weights[targets[n]], *row = dlogits ? dlogits + (size_t)n * V : NULL;
        losses[n] *= weight;
        for (int i = 0; row && i < V; i++) row[i] *= weight;
    }
}
