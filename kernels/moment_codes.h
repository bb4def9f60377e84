/* Encoding and decoding 8-bit moments (moments.h): the search of a code, which CUDA shares, and blocks on a
 * CPU. Private to kernels/. */
#ifndef ANNEAL_KERNELS_MOMENT_CODES_H
#define ANNEAL_KERNELS_MOMENT_CODES_H

#include <float.h>
#include <string.h>

#include "kernels/dynamic_map.h"
#include "kernels/moments.h"
#ifdef __AVX512F__
#include <immintrin.h>
#endif

#ifdef __CUDACC__
#define MOMENT_FN static __host__ __device__ inline
#else
#define MOMENT_FN static inline
#endif

enum { DECADES = 7, MOMENT_EDGES = DYNAMIC_VALUES + 1 };

struct moment_codes {
    float values[DYNAMIC_VALUES]; /* of each code */
    /* of the ascending values: value i is the nearest between edges i and i + 1 */
    float edges[MOMENT_EDGES];
    int zero;                             /* the place of 0 among those: its code is 0 */
    float slope[DECADES], start[DECADES]; /* see moment_near_edge */
};

static inline struct moment_codes moment_codes_of(bool has_sign)
{
    float ascending[DYNAMIC_VALUES];
    struct moment_codes codes;
    codes.zero = dynamic_zero(has_sign);
    dynamic_values(ascending, has_sign);
    for (int i = 0; i < DYNAMIC_VALUES; i++) codes.values[(uint8_t)(i - codes.zero)] = ascending[i];
    codes.edges[0] = -INFINITY, codes.edges[DYNAMIC_VALUES] = INFINITY;
    for (int i = 1; i < DYNAMIC_VALUES; i++) codes.edges[i] = (ascending[i - 1] + ascending[i]) / 2;
    if (!has_sign) codes.edges[1] = 0;
    const double parts = has_sign ? 1 : 2; /* of the lowest decade; each further one has twice as many */
    for (int e = 0; e < DECADES; e++) {
        codes.slope[e] = (float)(parts / 0.9 * pow(2, e) * pow(10, 6 - e));
        codes.start[e] = (float)(1 - parts + parts * 8 / 9 * pow(2, e) - 0.21);
    }
    return codes;
}

/* The edge between two of the ascending values, one of which is the nearest: the upper one if `at` is above
 * the edge. The values of a decade lie evenly, so a line leads from a magnitude to their number, counted from
 * 0, and as each line is less steep than the one before, the lowest of the seven counts. They meet at powers
 * of 10, the edge between two decades is a fifth of a value further. So a fifth is taken off, and the number
 * is the right one or the one before it. */
MOMENT_FN int moment_near_edge(float at, const struct moment_codes *codes)
{
    float size = fabsf(at), number = DYNAMIC_VALUES;
    for (int e = 0; e < DECADES; e++) {
        float line = codes->slope[e] * size + codes->start[e];
        number = line < number ? line : number;
    }
    int above = at > 0, place = codes->zero + (2 * above - 1) * (int)number;
    place = place < 0 ? 0 : place < DYNAMIC_VALUES ? place : DYNAMIC_VALUES - 1;
    return place + above;
}

#ifndef __cplusplus
/* out (MOMENT_BLOCK): of each element table[index]. AVX-512 chooses among 32 numbers at once; compilers look
 * up one after the other. */
static inline void moment_look_up(float *out, const float table[DYNAMIC_VALUES], const uint8_t *index)
{
#ifdef __AVX512F__
    for (int i = 0; i < MOMENT_BLOCK; i += 16) {
        const __m512i at = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(index + i)));
        __m512 found[8];
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++)
            found[j] = _mm512_permutex2var_ps(_mm512_loadu_ps(table + 32 * j), at,
                                              _mm512_loadu_ps(table + 32 * j + 16));
        const __mmask16 upper_32 = _mm512_test_epi32_mask(at, _mm512_set1_epi32(32)),
                        upper_64 = _mm512_test_epi32_mask(at, _mm512_set1_epi32(64)),
                        upper_128 = _mm512_test_epi32_mask(at, _mm512_set1_epi32(128));
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) found[j] = _mm512_mask_blend_ps(upper_32, found[2 * j], found[2 * j + 1]);
#pragma GCC unroll 2
        for (int j = 0; j < 2; j++) found[j] = _mm512_mask_blend_ps(upper_64, found[2 * j], found[2 * j + 1]);
        _mm512_storeu_ps(out + i, _mm512_mask_blend_ps(upper_128, found[0], found[1]));
    }
#else
    for (int i = 0; i < MOMENT_BLOCK; i++) out[i] = table[index[i]];
#endif
}

/* x (MOMENT_BLOCK); those behind the last element are 0. */
static inline void moment_decode(float *x, const struct moment_block *block, const struct moment_codes *codes)
{
    moment_look_up(x, codes->values, block->codes);
#pragma omp simd
    for (int i = 0; i < MOMENT_BLOCK; i++) x[i] *= block->scale;
}

/* The block of x (MOMENT_BLOCK), which is elsewhere. */
static inline void moment_encode(struct moment_block *block, const float *x, const struct moment_codes *codes)
{
    float most = 0, least = 0;
#pragma omp simd reduction(max : most) reduction(min : least)
    for (int i = 0; i < MOMENT_BLOCK; i++) {
        most = x[i] > most ? x[i] : most;
        least = x[i] < least ? x[i] : least;
    }
    float scale = most >= -least ? fminf(most, FLT_MAX) : fmaxf(least, -FLT_MAX);
    if (fabsf(scale) < MOMENT_SCALE_LEAST) {
        *block = (struct moment_block){0};
        return;
    }
    block->scale = scale;
    float at[MOMENT_BLOCK], edges[MOMENT_BLOCK];
    uint8_t near[MOMENT_BLOCK];
#pragma omp simd
    for (int i = 0; i < MOMENT_BLOCK; i++) {
        at[i] = x[i] / scale;
        int edge = moment_near_edge(at[i], codes);
        near[i] = (uint8_t)(edge < DYNAMIC_VALUES ? edge : DYNAMIC_VALUES - 1); /* the last one is infinite */
    }
    moment_look_up(edges, codes->edges, near);
#pragma omp simd
    for (int i = 0; i < MOMENT_BLOCK; i++)
        block->codes[i] = (uint8_t)(near[i] - 1 + (at[i] > edges[i]) - codes->zero);
}
#endif

#endif
