/* See nf4.h. Compiled once, not per instruction set: it runs once per weight, while a model is read from a
 * disk, and the plain vectors of every processor keep up with that. */
#include <math.h>

#include "core/base/half.h"
#include "kernels/dynamic_map.h"
#include "kernels/nf4.h"

enum { BOUNDS = NF4_VALUES - 1, STEPS = 65535 };

/* No scale is taken to be smaller, so that its reciprocal is finite: bitsandbytes' number. */
static const float SCALE_LEAST = 1e-38f;

/* Half way between the values of neighbouring codes. */
static void bounds_of(float bounds[BOUNDS])
{
    static const float values[NF4_VALUES] = NF4_CODEBOOK;
    for (int i = 0; i < BOUNDS; i++) bounds[i] = (values[i] + values[i + 1]) / 2;
}

/* The largest magnitude of x (n). Compared as integers, so that NaN is larger than all. */
static float largest(const float *x, int n)
{
    int32_t most = 0;
#pragma omp simd reduction(max : most)
    for (int i = 0; i < n; i++) {
        int32_t magnitude = (int32_t)(float_bits(x[i]) & 0x7fffffffu);
        most = magnitude > most ? magnitude : most;
    }
    return float_of_bits((uint32_t)most);
}

/* The codes of a block of normalised values, of which those from n on are 0; NaN has the last code. */
static void encode(uint8_t *codes, const float normalised[NF4_BLOCK], int n, const float bounds[BOUNDS])
{
    int32_t code[NF4_BLOCK];
#pragma omp simd
    for (int i = 0; i < NF4_BLOCK; i++) {
        int32_t below = 0;
        for (int b = 0; b < BOUNDS; b++) below += !(normalised[i] <= bounds[b]);
        code[i] = below;
    }
    for (int i = 0; i < n; i += 2) codes[i / 2] = (uint8_t)(code[i] << 4 | code[i + 1]);
}

void nf4_quantise(uint8_t *codes, float *scales, const float *x, size_t n)
{
    float bounds[BOUNDS];
    bounds_of(bounds);
    size_t whole = n / NF4_BLOCK;
#pragma omp parallel for schedule(static)
    for (size_t b = 0; b < whole; b++) {
        float normalised[NF4_BLOCK];
        const float *block = x + b * NF4_BLOCK;
        scales[b] = largest(block, NF4_BLOCK);
        float factor = 1.0f / (scales[b] < SCALE_LEAST ? SCALE_LEAST : scales[b]);
        for (int i = 0; i < NF4_BLOCK; i++) normalised[i] = block[i] * factor;
        encode(codes + b * (NF4_BLOCK / 2), normalised, NF4_BLOCK, bounds);
    }
    int rest = (int)(n % NF4_BLOCK);
    if (!rest) return;
    /* a shorter block is divided by its scale, and that is never below the least: as in bitsandbytes */
    float normalised[NF4_BLOCK] = {0}, scale = largest(x + whole * NF4_BLOCK, rest);
    scales[whole] = scale < SCALE_LEAST ? SCALE_LEAST : scale;
    for (int i = 0; i < rest; i++) normalised[i] = x[whole * NF4_BLOCK + (size_t)i] / scales[whole];
    encode(codes + whole * (NF4_BLOCK / 2), normalised, rest, bounds);
}

/* ---- nested scales ---- */

/* The code of v in [−1, 1]. bitsandbytes' CPU version first rounds v to one of STEPS + 1 places, so near the
 * middle between two values this is not always the nearer one. */
static uint8_t scale_code(float v, const float values[DYNAMIC_VALUES])
{
    v = v < -1 ? -1 : v > 1 ? 1 : v;
    int place = (int)fmaf((v + 1) * 0.5f, STEPS, 0.5f), from = 0, to = NF4_SCALE_VALUES - 1;
    float rounded = -1.0f + 2.0f * (float)place / STEPS;
    while (from < to) { /* the number of middles below */
        int middle = (from + to) / 2;
        if (0.5f * (values[middle] + values[middle + 1]) < rounded)
            from = middle + 1;
        else
            to = middle;
    }
    return (uint8_t)from;
}

float nf4_mean(const float *scales, size_t n)
{
    double sum = 0;
    for (size_t b = 0; b < nf4_blocks(n); b++) sum += (double)scales[b];
    return (float)(sum / (double)nf4_blocks(n));
}

void nf4_nest(void *nested, const float *scales, float mean, size_t n)
{
    size_t blocks = nf4_blocks(n), groups = nf4_groups(n);
    float *out = nested, *values = out + NF4_AT_VALUES, *group_scales = out + NF4_AT_GROUPS;
    uint8_t *codes = (uint8_t *)(group_scales + groups);
    out[NF4_AT_MEAN] = mean;
    dynamic_values(values, true);
#pragma omp parallel for schedule(static)
    for (size_t g = 0; g < groups; g++) {
        size_t from = g * NF4_GROUP, to = from + NF4_GROUP < blocks ? from + NF4_GROUP : blocks;
        float most = 0;
        for (size_t b = from; b < to; b++) most = fmaxf(most, fabsf(scales[b] - mean));
        group_scales[g] = most;
        float factor = 1.0f / most;
        for (size_t b = from; b < to; b++) {
            float v = (scales[b] - mean) * factor;
            codes[b] = most > 0 && v == v ? scale_code(v, values) : 0; /* all alike: each is the mean */
        }
    }
}
