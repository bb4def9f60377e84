/* Encoding and decoding a block of 8-bit moments (moments.h) on a CPU. Private to kernels/. */
#ifndef ANNEAL_KERNELS_MOMENT_CODES_H
#define ANNEAL_KERNELS_MOMENT_CODES_H

#include <float.h>
#include <string.h>

#include "kernels/dynamic_map.h"
#include "kernels/moments.h"

struct moment_codes {
    float values[DYNAMIC_VALUES];     /* of each code */
    float bounds[DYNAMIC_VALUES - 1]; /* half way between the neighbours of the ascending values */
    int zero;                         /* the place of 0 among those: its code is 0 */
};

static inline struct moment_codes moment_codes_of(bool has_sign)
{
    float ascending[DYNAMIC_VALUES];
    struct moment_codes codes = {.zero = dynamic_zero(has_sign)};
    dynamic_values(ascending, has_sign);
    for (int i = 0; i < DYNAMIC_VALUES; i++) codes.values[(uint8_t)(i - codes.zero)] = ascending[i];
    for (int i = 0; i + 1 < DYNAMIC_VALUES; i++) codes.bounds[i] = (ascending[i] + ascending[i + 1]) / 2;
    if (!has_sign) codes.bounds[0] = 0;
    return codes;
}

/* x (count) of a block, from element `first` on */
static inline void moment_decode(float *x, const struct moment_block *block, int first, int count,
                                 const struct moment_codes *codes)
{
    const float scale = block->scale;
    const uint8_t *code = block->codes + first;
#pragma omp simd
    for (int i = 0; i < count; i++) x[i] = codes->values[code[i]] * scale;
}

/* The block of x (count), which is elsewhere. */
static inline void moment_encode(struct moment_block *block, const float *x, int count,
                                 const struct moment_codes *codes)
{
    float most = 0, least = 0;
#pragma omp simd reduction(max : most) reduction(min : least)
    for (int i = 0; i < count; i++) {
        most = x[i] > most ? x[i] : most;
        least = x[i] < least ? x[i] : least;
    }
    float scale = most >= -least ? fminf(most, FLT_MAX) : fmaxf(least, -FLT_MAX);
    if (fabsf(scale) < MOMENT_SCALE_LEAST) {
        *block = (struct moment_block){0};
        return;
    }
    block->scale = scale;
    memset(block->codes + count, 0, (size_t)(MOMENT_BLOCK - count));
    float at[MOMENT_BLOCK];
    int below[MOMENT_BLOCK]; /* bounds below each */
#pragma omp simd
    for (int i = 0; i < count; i++) at[i] = x[i] / scale, below[i] = 0;
    /* a step for all elements at a time: compilers make gathers of the look-ups */
    for (int step = DYNAMIC_VALUES / 2; step; step /= 2)
#pragma omp simd
        for (int i = 0; i < count; i++) below[i] += at[i] > codes->bounds[below[i] + step - 1] ? step : 0;
#pragma omp simd
    for (int i = 0; i < count; i++) block->codes[i] = (uint8_t)(below[i] - codes->zero);
}

#endif
