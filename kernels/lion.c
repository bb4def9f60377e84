/* CPU twin of lion.h. Memory-bound: 3 floats read and 2 written a parameter. */
#include "kernels/lion.h"

#include "kernels/device/cpu_device.h"

static void update_range(float *w, float *m, const float *g, size_t from, size_t to,
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
        m[i] = beta2 * m[i] + rest2 * gi;
    }
}

void lion_step(float *w, void *weights, float *m, float *v, const float *g, size_t n,
               const struct update_range *ranges, int range_count, struct optimizer_params params,
               struct step_control *control, const struct clip_state *clip, struct stream *stream)
{
    size_t from = 0;
    (void)v;       /* there is one moment */
    (void)weights; /* the stream is fp32: w itself */
    (void)n;       /* where the last range ends */
    if (clip->scale == 0.0f) return;
    for (int i = 0; i < range_count; from = ranges[i++].end)
        update_range(w, m, g, from, ranges[i].end, params, control->lr, &ranges[i], clip->scale, stream);
}
