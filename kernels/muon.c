/* CPU twins of Muon's operations around its matrix products. Memory-bound: the momentum reads two floats per
 * element and writes two, the update reads a float and an element and writes a float and, in bf16, an
 * element. */
#include <math.h>

#include "kernels/device/cpu_device.h"
#include "kernels/real.h"

void muon_momentum(float *m, float *g, size_t n, float momentum, bool nesterov, const struct clip_state *clip,
                   struct stream *stream)
{
    const float scale = clip->scale, rest = 1.0f - momentum;
    if (scale == 0.0f) return;
#pragma omp parallel for simd num_threads(stream->threads) schedule(static)
    for (size_t i = 0; i < n; i++) {
        float gi = g[i] * scale, mi = momentum * m[i] + rest * gi;
        m[i] = mi;
        g[i] = nesterov ? momentum * mi + rest * gi : mi;
    }
}

void muon_normalise(void *out_, const float *x, const double *squares, size_t n, float least,
                    struct stream *stream)
{
    real *out = out_;
    const float scale = (float)(1.0 / fmax(sqrt(*squares), least));
#pragma omp parallel for simd num_threads(stream->threads) schedule(static)
    for (size_t i = 0; i < n; i++) out[i] = rounded(x[i] * scale);
}

void muon_polynomial(void *x_, const void *gram_, int n, float a, float b, struct stream *stream)
{
    real *x = x_;
    const real *gram = gram_;
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (int r = 0; r < n; r++) {
        real *row = x + (size_t)r * n;
        const real *of = gram + (size_t)r * n;
        float diagonal = widened(row[r]) + b * widened(of[r]) + a;
#pragma omp simd
        for (int c = 0; c < n; c++) row[c] = rounded(widened(row[c]) + b * widened(of[c]));
        row[r] = rounded(diagonal);
    }
}

void muon_update(float *w, void *weights_, const void *x_, size_t n, size_t at,
                 const struct update_range *ranges, int range_count, float scale,
                 const struct step_control *control, const struct clip_state *clip, struct stream *stream)
{
    real *weights = weights_;
    const real *x = x_;
    int k = 0;
    if (clip->scale == 0.0f) return;
    while (k + 1 < range_count && ranges[k].end <= at) k++;
    const float lr = control->lr * ranges[k].lr_scale, rate = lr * scale;
    const float keep = (float)(1.0 - (double)lr * ranges[k].weight_decay);
#pragma omp parallel for simd num_threads(stream->threads) schedule(static)
    for (size_t i = 0; i < n; i++) {
        w[i] = keep * w[i] - rate * widened(x[i]);
        if (!REAL_IS_FLOAT) weights[i] = rounded(w[i]);
    }
}
