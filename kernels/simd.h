/* Vectors for the CPU twins, as wide as the instruction set has them: loading and storing, sums and maxima
 * across lanes, and exponentials. Private to kernels/.
 *
 * NaN in gives NaN out; nothing here relies on -ffast-math. */
#ifndef ANNEAL_KERNELS_SIMD_H
#define ANNEAL_KERNELS_SIMD_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE__
#include <immintrin.h>
#endif

#include "core/base/half.h"

/* For functions that each caller needs a copy of, for constant arguments or to keep vectors in registers. */
#define INLINE static inline __attribute__((always_inline))

/* ---- vectors ---- */

#if defined(__AVX512F__)
#define SIMD_LANES 16
#elif defined(__AVX__)
#define SIMD_LANES 8
#else
#define SIMD_LANES 4
#endif

typedef float simd_vector __attribute__((vector_size(SIMD_LANES * 4)));
/* Also for pairs of bf16, which may begin at any of them. */
typedef float simd_unaligned __attribute__((vector_size(SIMD_LANES * 4), aligned(2), may_alias));
typedef uint32_t simd_words __attribute__((vector_size(SIMD_LANES * 4)));
typedef int32_t simd_truth
    __attribute__((vector_size(SIMD_LANES * 4))); /* of a comparison: all bits or none */
typedef uint16_t simd_halves __attribute__((vector_size(SIMD_LANES * 2)));
typedef uint16_t simd_unaligned_halves __attribute__((vector_size(SIMD_LANES * 2), aligned(2), may_alias));

/* The number of each lane. */
#if SIMD_LANES == 16
#define SIMD_COUNT ((simd_truth){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
#elif SIMD_LANES == 8
#define SIMD_COUNT ((simd_truth){0, 1, 2, 3, 4, 5, 6, 7})
#else
#define SIMD_COUNT ((simd_truth){0, 1, 2, 3})
#endif

/* ---- loading and storing ---- */

static inline simd_vector simd_load(const float *x)
{
    return *(const simd_unaligned *)x;
}

static inline void simd_store(float *x, simd_vector value)
{
    *(simd_unaligned *)x = value;
}

/* The first `count` numbers; the other lanes are 0. */
static inline simd_vector float_at(const float *x, int count)
{
    if (count == SIMD_LANES) return simd_load(x);
#if defined(__AVX512F__)
    return (simd_vector)_mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1), x);
#elif defined(__AVX__)
    return (simd_vector)_mm256_maskload_ps(x, (__m256i)(SIMD_COUNT < count));
#else
    simd_vector part = {0};
    memcpy(&part, x, (size_t)count * sizeof *x);
    return part;
#endif
}

static inline void float_put(float *x, simd_vector value, int count)
{
    if (count == SIMD_LANES)
        simd_store(x, value);
    else
        memcpy(x, &value, (size_t)count * sizeof *x);
}

/* SIMD_LANES numbers of bf16, widened exactly. Compilers take five instructions for 16 lanes, not two. */
static inline simd_vector simd_load_bf16(const uint16_t *x)
{
#ifdef __AVX512F__
    __m512i words = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)x));
    return (simd_vector)_mm512_slli_epi32(words, 16);
#else
    simd_halves halves = *(const simd_unaligned_halves *)x;
    return (simd_vector)(__builtin_convertvector(halves, simd_words) << 16);
#endif
}

/* The first `count` of them; the other lanes are 0. */
static inline simd_vector bf16_at(const uint16_t *x, int count)
{
    if (count == SIMD_LANES) return simd_load_bf16(x);
#ifdef __AVX512F__
    __m256i halves = _mm256_maskz_loadu_epi16((__mmask16)((1u << count) - 1), x);
    return (simd_vector)_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16);
#else
    uint16_t part[SIMD_LANES] = {0};
    memcpy(part, x, (size_t)count * sizeof *x);
    return simd_load_bf16(part);
#endif
}

/* To nearest, ties to even; a NaN stays one. As by the processor's instruction, numbers below 2^-126 become
 * 0. */
static inline uint16_t simd_to_bf16(float x)
{
    uint32_t bits = float_bits(x), nearest = (bits + 0x7fff + (bits >> 16 & 1)) >> 16,
             nan = bits >> 16 | 0x40;
    if ((bits & 0x7f800000) == 0) nearest = bits >> 16 & 0x8000;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? nan : nearest);
}

/* The same of SIMD_LANES numbers. */
static inline void simd_store_bf16(uint16_t *x, simd_vector value)
{
#ifdef __AVX512BF16__
    _mm256_storeu_si256((__m256i_u *)x, (__m256i)_mm512_cvtneps_pbh((__m512)value));
#else
    simd_words bits = (simd_words)value, nearest = bits + 0x7fff + (bits >> 16 & 1);
    simd_words tiny = (simd_words)((bits & 0x7f800000) == 0),
               nan = (simd_words)((simd_truth)(bits & 0x7fffffff) > 0x7f800000);
    nearest = (tiny & bits & 0x80000000) | (~tiny & nearest);
    simd_words halves = ((nan & (bits | 0x400000)) | (~nan & nearest)) >> 16;
    *(simd_unaligned_halves *)x = __builtin_convertvector(halves, simd_halves);
#endif
}

/* out (n) = x (n), bf16 */
static inline void simd_widen(float *out, const uint16_t *x, int n)
{
    int i = 0;
    for (; i + SIMD_LANES <= n; i += SIMD_LANES) simd_store(out + i, simd_load_bf16(x + i));
    for (; i < n; i++) out[i] = float_of_bf16(x[i]);
}

/* ---- sums and maxima across lanes ----
 *
 * Written with vectors, because compilers add the lanes of an `omp simd reduction` one after the other, and
 * the rows here are short: a head has 64 elements. */

static inline float simd_total(simd_vector x)
{
#if SIMD_LANES == 16
    x += __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
    x += __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
    x += __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
#elif SIMD_LANES == 8
    x += __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3);
    x += __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5);
#else
    x += __builtin_shufflevector(x, x, 2, 3, 0, 1);
#endif
    return x[0] + x[1];
}

/* Lane i: simd_total(x[i]), with the same bits. Two vectors become one, of half as many parts of each sum. */
static inline simd_vector simd_totals(const simd_vector x[SIMD_LANES])
{
    simd_vector y[SIMD_LANES];
    memcpy(y, x, sizeof y);
#define SIMD_KEPT(i, far)     ((i) & (far) ? (i) + SIMD_LANES : (i))
#define SIMD_MOVED(i, far)    ((i) & (far) ? ((i) ^ (far)) + SIMD_LANES : (i) ^ (far))
#define SIMD_FOUR(of, i, far) of(i, far), of((i) + 1, far), of((i) + 2, far), of((i) + 3, far)
#if SIMD_LANES == 16
#define SIMD_ALL(of, far)                                                                                    \
    SIMD_FOUR(of, 0, far), SIMD_FOUR(of, 4, far), SIMD_FOUR(of, 8, far), SIMD_FOUR(of, 12, far)
#elif SIMD_LANES == 8
#define SIMD_ALL(of, far) SIMD_FOUR(of, 0, far), SIMD_FOUR(of, 4, far)
#else
#define SIMD_ALL(of, far) SIMD_FOUR(of, 0, far)
#endif
#define SIMD_HALVE(far)                                                                                      \
    for (int i = 0; i < (far); i++)                                                                          \
        y[i] = __builtin_shufflevector(y[i], y[i + (far)], SIMD_ALL(SIMD_KEPT, far)) +                       \
               __builtin_shufflevector(y[i], y[i + (far)], SIMD_ALL(SIMD_MOVED, far));
#if SIMD_LANES == 16
    SIMD_HALVE(8)
#endif
#if SIMD_LANES >= 8
    SIMD_HALVE(4)
#endif
    SIMD_HALVE(2)
    SIMD_HALVE(1)
#undef SIMD_KEPT
#undef SIMD_MOVED
#undef SIMD_FOUR
#undef SIMD_ALL
#undef SIMD_HALVE
    return y[0];
}

/* Lane by lane a > b ? a : b, so b where a is not a number. Compilers make three instructions of a choice by
 * mask. */
static inline simd_vector simd_greater(simd_vector a, simd_vector b)
{
#if defined(__AVX512F__)
    return (simd_vector)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX__)
    return (simd_vector)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__SSE__)
    return (simd_vector)_mm_max_ps((__m128)a, (__m128)b);
#else
    simd_truth wins = a > b;
    return (simd_vector)((wins & (simd_truth)a) | (~wins & (simd_truth)b));
#endif
}

static inline float simd_greatest(simd_vector x)
{
#if SIMD_LANES == 16
    x = simd_greater(x, __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
    x = simd_greater(x, __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
    x = simd_greater(x, __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
#elif SIMD_LANES == 8
    x = simd_greater(x, __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3));
    x = simd_greater(x, __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5));
#else
    x = simd_greater(x, __builtin_shufflevector(x, x, 2, 3, 0, 1));
#endif
    return x[0] > x[1] ? x[0] : x[1];
}

/* ---- exponentials ---- */

/* exp(x) to within 1.5 ulp for x <= 88: 0 below -87, where exp is under 2e-38. For x = n ln2 + r with |r| <=
 * ln2/2 (Cody and Waite's two-part ln2), exp(r) · 2^n: a polynomial of degree 6, fitted for the least maximum
 * relative error. */
static inline simd_vector simd_vector_exp_softmax(simd_vector x)
{
    const float round = 12582912.0f; /* 1.5 · 2^23: adding it rounds to an integer in the low bits */
    simd_vector shifted = x * 1.44269504088896341f + round, n = shifted - round;
    simd_vector r = x - n * 0.693145751953125f;
    r = r - n * 1.428606765330187e-6f;
    simd_vector p = 1.381453942e-3f * r + 8.368745446e-3f;
    p = p * r + 4.166838899e-2f;
    p = p * r + 1.666652113e-1f;
    p = p * r + 4.999999404e-1f;
    p = p * (r * r) + r;
    simd_vector y = (p + 1.0f) * (simd_vector)(((simd_words)shifted << 23) + 0x3f800000u);
    simd_truth vanishes = x < -87.0f;
    return (simd_vector)(~vanishes & (simd_truth)y);
}

/* 2^x to within 1.5 ulp for x <= 127, for a softmax: 0 from -127 down. A polynomial of degree 6, fitted for
 * the least maximum relative error. */
static inline simd_vector simd_vector_exp2_softmax(simd_vector x)
{
    const float round = 12582912.0f; /* as in simd_vector_exp_softmax */
    x = simd_greater((simd_vector){0} - 127.0f, x);
    simd_vector shifted = x + round, r = x - (shifted - round);
    simd_vector p = 1.535336196e-4f * r + 1.339887502e-3f;
    p = p * r + 9.618436918e-3f;
    p = p * r + 5.550332367e-2f;
    p = p * r + 2.402264774e-1f;
    p = p * r + 6.931471825e-1f;
    p = p * r + 1.0f;
    return p * (simd_vector)(((simd_words)shifted << 23) + 0x3f800000u);
}

#endif
