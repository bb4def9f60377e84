/* CPU twin of cross-entropy. A row (V elements) is read once and, in the fused form, rewritten while it is
 * still in the second-level cache.
 *
 * The row is processed in blocks. Each block's exponentials are relative to the block's own maximum, so one
 * pass suffices and exp is computed once per element; afterwards a block needs only a factor to become
 * probabilities. */

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "kernels/device/cpu_device.h"
#include "kernels/real.h"

/* AHEAD: bytes from what is read to what is fetched, where the processor's own prefetching is not enough. */
enum { BLOCKS_MAX = 512, TWO = 2 * SIMD_LANES, AHEAD = 8192 };

static inline real *row_of(struct matrix logits, int n)
{
    return (real *)logits.at + (size_t)n * (size_t)logits.stride;
}

static inline int block_length(int V)
{
    int length = (V + BLOCKS_MAX - 1) / BLOCKS_MAX;
    return length < 512 ? 512 : (length + TWO - 1) / TWO * TWO;
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

/* The maximum of x (n) and of `most`, without NaNs. */
static inline float row_max(const real *x, int n, simd_vector most)
{
    int i = 0;
    for (; i + SIMD_LANES <= n; i += SIMD_LANES) most = simd_greater(real_load(x + i), most);
    float max = simd_greatest(most);
    for (; i < n; i++) max = widened(x[i]) > max ? widened(x[i]) : max;
    return max;
}

/* exp(x - base): exactly 1 where both are the same. Errors of smaller ones do not matter: 2^-24 of their
 * logarithm. */
static inline simd_vector exp_from(simd_vector x, float base)
{
    return real_exp2((x - base) * REAL_LOG2_E);
}

/* A block (count), relative to its base: returns Σ exp(x − base). `keep`: x becomes these exponentials. *top
 * = the maximum of the next block (ahead <= count), without NaNs, which is found on the way, so that
 * computing does not wait for memory. */
INLINE float block_sum(real *x, int count, float base, bool keep, int ahead, float *top)
{
    const real *next = x + count;
    const int whole = ahead / TWO * TWO, twos = count / TWO * TWO;
    simd_vector sum[2] = {{0}, {0}}, most[2] = {{0}, {0}};
    most[0] -= INFINITY, most[1] -= INFINITY;
    for (int i = 0; i < twos; i += TWO) {
        simd_vector e[2], soon[2];
        real_load_two(e, x + i);
        e[0] = exp_from(e[0], base), e[1] = exp_from(e[1], base);
        if (keep) real_store_two(x + i, e);
        sum[0] += e[0], sum[1] += e[1];
        if (i >= whole) continue;
        for (int line = 0; line < (int)(TWO * sizeof(real)); line += 64)
            __builtin_prefetch((const char *)(next + i) + AHEAD + line, 0, 2);
        real_load_two(soon, next + i);
        most[0] = simd_greater(soon[0], most[0]), most[1] = simd_greater(soon[1], most[1]);
    }
    EACH_VECTOR(count - twos, i, lanes, {
        simd_vector e = exp_from(real_at(x + twos + i, lanes), base);
        if (keep) real_put(x + twos + i, e, lanes);
        sum[0] += float_at((const float *)&e, lanes);
    });
    *top = row_max(next + whole, ahead - whole, simd_greater(most[0], most[1]));
    return simd_total(sum[0] + sum[1]);
}

/* The log-sum-exp of row (V). bases: the maximum of each block, or NULL. Where reals are floats and bases is
 * not NULL, each block becomes exp(x − its base): in bf16 that would round twice. */
INLINE double row_lse(real *row, int V, float *bases)
{
    int length = block_length(V);
    float max = -INFINITY, top = row_max(row, V < length ? V : length, (simd_vector){0} - INFINITY);
    double total = 0;
    for (int start = 0, block = 0; start < V; start += length, block++) {
        int left = V - start - length, count = left < 0 ? V - start : length;
        int ahead = left < 0 ? 0 : left < length ? left : length;
        float base = top > -INFINITY ? top : 0.0f;
        float part = block_sum(row + start, count, base, REAL_IS_FLOAT && bases, ahead, &top);
        if (bases) bases[block] = base;
        merge(&max, &total, base, part);
    }
    return log(total) + max;
}

void cross_entropy_forward(float *losses, struct matrix logits, const int32_t *targets, int N, int V,
                           struct stream *stream)
{
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (int n = 0; n < N; n++) {
        real *row = row_of(logits, n);
        losses[n] = targets[n] < 0 ? 0 : (float)(row_lse(row, V, NULL) - widened(row[targets[n]]));
    }
}

/* A block of logits, as row_lse left it, becomes softmax · scale. */
static void gradient_block(real *x, int count, float base, double lse, float scale)
{
    const float factor = (float)(scale * exp(base - lse));
    const int twos = count / TWO * TWO;
    for (int i = 0; i < twos; i += TWO) {
        simd_vector e[2];
        real_load_two(e, x + i);
        if (!REAL_IS_FLOAT) e[0] = exp_from(e[0], base), e[1] = exp_from(e[1], base);
        e[0] *= factor, e[1] *= factor;
        real_store_two(x + i, e);
    }
    EACH_VECTOR(count - twos, i, lanes, {
        simd_vector e = real_at(x + twos + i, lanes);
        if (!REAL_IS_FLOAT) e = exp_from(e, base);
        real_put(x + twos + i, e * factor, lanes);
    });
}

void cross_entropy_fused(float *losses, struct matrix logits_dlogits, const int32_t *targets,
                         const struct step_control *control, int N, int V, struct stream *stream)
{
    float loss_scale = control->loss_scale, z_loss = control->z_loss;
    int length = block_length(V);
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (int n = 0; n < N; n++) {
        real *row = row_of(logits_dlogits, n);
        losses[n] = 0;
        if (targets[n] < 0) {
            memset(row, 0, (size_t)V * sizeof(real));
            continue;
        }
        float bases[BLOCKS_MAX], target = widened(row[targets[n]]);
        double lse = row_lse(row, V, bases);
        losses[n] = (float)(lse - target);
        float scale = z_loss > 0 ? (float)(loss_scale * (1 + 2 * z_loss * lse)) : loss_scale;
        for (int start = 0, block = 0; start < V; start += length, block++)
            gradient_block(row + start, V - start < length ? V - start : length, bases[block], lse, scale);
        float gradient = REAL_IS_FLOAT ? widened(row[targets[n]]) : scale * (float)exp(target - lse);
        row[targets[n]] = rounded(gradient - loss_scale);
    }
}

void weigh_classes(float *losses, struct matrix dlogits, const int32_t *targets, const float *weights, int N,
                   int V, struct stream *stream)
{
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (int n = 0; n < N; n++) {
        if (targets[n] < 0) continue;
        float weight = weights[targets[n]];
        real *row = dlogits.at ? row_of(dlogits, n) : NULL;
        losses[n] *= weight;
        if (row) EACH_VECTOR(V, i, count, real_put(row + i, real_at(row + i, count) * weight, count););
    }
}
