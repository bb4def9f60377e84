/* CPU twin of lion.h. Memory-bound: 3 floats read and 2 written a parameter. */
#include "kernels/lion.h"

#include "kernels/cpu_device.h"

void lion_step(float *w, float *m, const float *g, size_t n, struct lion_params params,
               const struct clip_state *clip, struct stream *stream)
{
    const float scale = clip->scale, beta1 = params.beta1, beta2 = params.beta2, lr = params.lr;
    if (scale == 0.0f) return;
    const float rest1 = 1.0f - beta1, rest2 = 1.0f - beta2;
    const float keep = (float)(1.0 - (double)lr * params.weight_decay);
#pragma omp parallel for simd num_threads(stream->threads) schedule(static)
    for (size_t i = 0; i < n; i++) {
        float gi = g[i] * scale;
        float c = beta1 * m[i] + rest1 * gi;
        float step = c > 0.0f ? lr : c < 0.0f ? -lr : 0.0f;
        w[i] = keep * w[i] - step;
        m[i] = beta2 * m[i] + rest2 * gi;
    }
}
