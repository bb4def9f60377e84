/* CPU twin of adamw.h. Memory-bound: 4 floats read and 3 written a parameter. */
#include "kernels/adamw.h"

#include <math.h>

#include "kernels/cpu_device.h"

void adamw_step(float *w, float *m, float *v, const float *g, size_t n, struct adamw_params params,
                const struct clip_state *clip, struct stream *stream)
{
    const float scale = clip->scale, beta1 = params.beta1, beta2 = params.beta2, eps = params.eps;
    if (scale == 0.0f) return;
    const float rest1 = 1.0f - beta1, rest2 = 1.0f - beta2;
    const float rate = (float)((double)params.lr / params.bias_correction1);
    const float correct2 = (float)(1.0 / sqrt((double)params.bias_correction2));
    const float keep = (float)(1.0 - (double)params.lr * params.weight_decay);
#pragma omp parallel for simd num_threads(stream->threads) schedule(static)
    for (size_t i = 0; i < n; i++) {
        float gi = g[i] * scale;
        float mi = beta1 * m[i] + rest1 * gi;
        float vi = beta2 * v[i] + rest2 * gi * gi;
        m[i] = mi;
        v[i] = vi;
        w[i] = keep * w[i] - rate * mi / (sqrtf(vi) * correct2 + eps);
    }
}
