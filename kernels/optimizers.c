/* CPU twins of the optimizers and of the average of weights. Memory-bound: per parameter AdamW reads 4 floats
 * and writes 3, Lion reads 3 and writes 2, and in bf16 one of 2 bytes more; the average reads 2 and writes 1.
 * In fp32 `weights` is w itself and is not written. Moments in 8 bits take a fourth of the memory; each block
 * is decoded to the stack, updated there and encoded again. Either takes one look-up for an element. */
#include "kernels/optimizers.h"

#include <math.h>

#include "kernels/device/cpu_device.h"
#include "kernels/moment_codes.h"
#include "kernels/real.h"

/* The parameters of a rule for single elements, in one range. */
struct rule {
    float beta1, rest1, beta2, rest2, eps, lr, keep, scale;
    float rate, root; /* AdamW's: lr and the factor of sqrt(v), with their corrections */
};

static struct rule rule_of(struct optimizer_params params, const struct step_control *control,
                           const struct update_range *range, float scale)
{
    const float beta1 = (float)params.beta1, beta2 = (float)params.beta2, lr = control->lr * range->lr_scale;
    return (struct rule){.beta1 = beta1,
                         .rest1 = 1.0f - beta1,
                         .beta2 = beta2,
                         .rest2 = 1.0f - beta2,
                         .eps = params.eps,
                         .lr = lr,
                         .keep = (float)(1.0 - (double)lr * range->weight_decay),
                         .scale = scale,
                         .rate = control->rate * range->lr_scale,
                         .root = control->root};
}

/* Once per step: computing powers in double for each parameter is too slow. */
static void adamw_prepare(struct step_control *control, struct optimizer_params params,
                          const struct clip_state *clip)
{
    double t = (double)clip->updates;
    control->rate = (float)((double)control->lr / (float)(1 - pow(params.beta1, t)));
    control->root = (float)(1.0 / sqrt((double)(float)(1 - pow(params.beta2, t))));
}

static inline void adamw_update(struct rule a, float *w, real *weights, float *m, float *v, float g)
{
    float gi = g * a.scale;
    float mi = a.beta1 * *m + a.rest1 * gi;
    float vi = a.beta2 * *v + a.rest2 * gi * gi;
    *m = mi;
    *v = vi;
    *w = a.keep * *w - a.rate * mi / (sqrtf(vi) * a.root + a.eps);
    if (!REAL_IS_FLOAT) *weights = rounded(*w);
}

void adamw_step(float *w, void *weights_, float *m, float *v, const float *g, size_t n,
                const struct update_range *ranges, int range_count, struct optimizer_params params,
                struct step_control *control, const struct clip_state *clip, struct stream *stream)
{
    real *weights = weights_;
    size_t from = 0;
    if (clip->scale == 0.0f) return;
    adamw_prepare(control, params, clip);
    for (int r = 0; r < range_count; from = ranges[r++].end) {
        const struct rule a = rule_of(params, control, &ranges[r], clip->scale);
        const size_t to = ranges[r].end;
#pragma omp parallel for simd num_threads(stream->threads) schedule(static)
        for (size_t i = from; i < to; i++) adamw_update(a, &w[i], &weights[i], &m[i], &v[i], g[i]);
    }
}

static inline void lion_update(struct rule l, float *w, real *weights, float *m, float g)
{
    float gi = g * l.scale;
    float c = l.beta1 * *m + l.rest1 * gi;
    float step = c > 0.0f ? l.lr : c < 0.0f ? -l.lr : 0.0f;
    *w = l.keep * *w - step;
    if (!REAL_IS_FLOAT) *weights = rounded(*w);
    *m = l.beta2 * *m + l.rest2 * gi;
}

void lion_step(float *w, void *weights_, float *m, float *v, const float *g, size_t n,
               const struct update_range *ranges, int range_count, struct optimizer_params params,
               struct step_control *control, const struct clip_state *clip, struct stream *stream)
{
    real *weights = weights_;
    size_t from = 0;
    if (clip->scale == 0.0f) return;
    for (int r = 0; r < range_count; from = ranges[r++].end) {
        const struct rule l = rule_of(params, control, &ranges[r], clip->scale);
        const size_t to = ranges[r].end;
#pragma omp parallel for simd num_threads(stream->threads) schedule(static)
        for (size_t i = from; i < to; i++) lion_update(l, &w[i], &weights[i], &m[i], g[i]);
    }
}

/* ---- moments in 8 bits ---- */

/* Elements [at, end) of an arena: the part of a block that is in one range. */
struct part {
    size_t at, end;
    const struct update_range *range;
};

/* The next part of [at, to), from `range` on, which may end before `at`. */
static inline struct part part_of(size_t at, size_t to, const struct update_range *range)
{
    while (range->end <= at) range++;
    return (struct part){at, range->end < to ? range->end : to, range};
}

void adamw8_step(float *w, void *weights_, struct moment_block *m, struct moment_block *v, const float *g,
                 size_t n, const struct update_range *ranges, int range_count, struct optimizer_params params,
                 struct step_control *control, const struct clip_state *clip, struct stream *stream)
{
    real *weights = weights_;
    if (clip->scale == 0.0f) return;
    adamw_prepare(control, params, clip);
    const struct moment_codes first = moment_codes_of(true), second = moment_codes_of(false);
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (size_t b = 0; b < moment_blocks(n); b++) {
        float mb[MOMENT_BLOCK], vb[MOMENT_BLOCK];
        const size_t from = b * MOMENT_BLOCK, to = n - from < MOMENT_BLOCK ? n : from + MOMENT_BLOCK;
        moment_decode(mb, &m[b], &first);
        moment_decode(vb, &v[b], &second);
        struct part part = {.end = from, .range = ranges};
        while (part.end < to) {
            part = part_of(part.end, to, part.range);
            const struct rule a = rule_of(params, control, part.range, clip->scale);
#pragma omp simd
            for (size_t i = part.at; i < part.end; i++)
                adamw_update(a, &w[i], &weights[i], &mb[i - from], &vb[i - from], g[i]);
        }
        moment_encode(&m[b], mb, &first);
        moment_encode(&v[b], vb, &second);
    }
}

void lion8_step(float *w, void *weights_, struct moment_block *m, struct moment_block *v, const float *g,
                size_t n, const struct update_range *ranges, int range_count, struct optimizer_params params,
                struct step_control *control, const struct clip_state *clip, struct stream *stream)
{
    real *weights = weights_;
    if (clip->scale == 0.0f) return;
    const struct moment_codes first = moment_codes_of(true);
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (size_t b = 0; b < moment_blocks(n); b++) {
        float mb[MOMENT_BLOCK];
        const size_t from = b * MOMENT_BLOCK, to = n - from < MOMENT_BLOCK ? n : from + MOMENT_BLOCK;
        moment_decode(mb, &m[b], &first);
        struct part part = {.end = from, .range = ranges};
        while (part.end < to) {
            part = part_of(part.end, to, part.range);
            const struct rule l = rule_of(params, control, part.range, clip->scale);
#pragma omp simd
            for (size_t i = part.at; i < part.end; i++)
                lion_update(l, &w[i], &weights[i], &mb[i - from], g[i]);
        }
        moment_encode(&m[b], mb, &first);
    }
}

void average_weights(float *average, const float *w, size_t n, double decay, const struct clip_state *clip,
                     struct stream *stream)
{
    if (clip->scale == 0.0f) return;
    const float share = (float)((1 - decay) / (1 - pow(decay, (double)clip->updates)));
#pragma omp parallel for simd num_threads(stream->threads) schedule(static)
    for (size_t i = 0; i < n; i++) average[i] += share * (w[i] - average[i]);
}
