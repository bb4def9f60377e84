/* CPU twins of the optimizers and of the average of weights. Memory-bound: per parameter AdamW reads 4 floats
 * and writes 3, Lion reads 3 and writes 2, and in bf16 one of 2 bytes more; the average reads 2 and writes 1.
 * In fp32 `weights` is w itself and is not written. */
#include "kernels/optimizers.h"

#include <math.h>

#include "kernels/device/cpu_device.h"
#include "kernels/real.h"

static void adamw_range(float *w, real *weights, float *m, float *v, const float *g, size_t from, size_t to,
                        struct optimizer_params params, const struct step_control *control,
                        const struct update_range *range, float scale, struct stream *stream)
{
    const float beta1 = (float)params.beta1, beta2 = (float)params.beta2, eps = params.eps;
    const float rest1 = 1.0f - beta1, rest2 = 1.0f - beta2, correct2 = control->root;
    const float rate = control->rate * range->lr_scale;
    const float keep = (float)(1.0 - (double)(control->lr * range->lr_scale) * range->weight_decay);
#pragma omp parallel for simd num_threads(stream->threads) schedule(static)
    for (size_t i = from; i < to; i++) {
        float gi = g[i] * scale;
        float mi = beta1 * m[i] + rest1 * gi;
        float vi = beta2 * v[i] + rest2 * gi * gi;
        m[i] = mi;
        v[i] = vi;
        w[i] = keep * w[i] - rate * mi / (sqrtf(vi) * correct2 + eps);
        if (!REAL_IS_FLOAT) weights[i] = rounded(w[i]);
    }
}

void adamw_step(float *w, void *weights, float *m, float *v, const float *g, size_t n,
                const struct update_range *ranges, int range_count, struct optimizer_params params,
                struct step_control *control, const struct clip_state *clip, struct stream *stream)
{
    size_t from = 0;
    if (clip->scale == 0.0f) return;
    double t = (double)clip->updates;
    control->rate = (float)((double)control->lr / (float)(1 - pow(params.beta1, t)));
    control->root = (float)(1.0 / sqrt((double)(float)(1 - pow(params.beta2, t))));
    for (int i = 0; i < range_count; from = ranges[i++].end)
        adamw_range(w, weights, m, v, g, from, ranges[i].end, params, control, &ranges[i], clip->scale,
                    stream);
}

static void lion_range(float *w, real *weights, float *m, const float *g, size_t from, size_t to,
                       struct optimizer_params params, float base, const struct update_range *range,
                       float scale, struct stream *stream)
{
    const float beta1 = (float)params.beta1, beta2 = (float)params.beta2, lr = base * range->lr_scale;
    const float rest1 = 1.0f - beta1, rest2 = 1.0f - beta2;
    const float keep = (float)(1.0 - (double)lr * range->weight_decay);
#pragma omp parallel for simd num_threads(stream->threads) schedule(static)
    for (size_t i = from; i < to; i++) {
        float gi = g[i] * scale;
        float c = beta1 * m[i] + rest1 * gi;
        float step = c > 0.0f ? lr : c < 0.0f ? -lr : 0.0f;
        w[i] = keep * w[i] - step;
        if (!REAL_IS_FLOAT) weights[i] = rounded(w[i]);
        m[i] = beta2 * m[i] + rest2 * gi;
    }
}

void lion_step(float *w, void *weights, float *m, float *v, const float *g, size_t n,
               const struct update_range *ranges, int range_count, struct optimizer_params params,
               struct step_control *control, const struct clip_state *clip, struct stream *stream)
{
    size_t from = 0;
    if (clip->scale == 0.0f) return;
    for (int i = 0; i < range_count; from = ranges[i++].end)
        lion_range(w, weights, m, g, from, ranges[i].end, params, control->lr, &ranges[i], clip->scale,
                   stream);
}

void average_weights(float *average, const float *w, size_t n, double decay, const struct clip_state *clip,
                     struct stream *stream)
{
    if (clip->scale == 0.0f) return;
    const float share = (float)((1 - decay) / (1 - pow(decay, (double)clip->updates)));
#pragma omp parallel for simd num_threads(stream->threads) schedule(static)
    for (size_t i = 0; i < n; i++) average[i] += share * (w[i] - average[i]);
}
