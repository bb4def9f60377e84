/* A real is an element of a tensor in the precision of the stream: the CPU twins are compiled once for fp32
 * on each instruction set, and once more for bf16 (KERNELS_BF16). Arithmetic is in fp32 in either: a twin
 * widens the reals that it reads and rounds those that it writes. Private to the CPU twins. */
#ifndef ANNEAL_KERNELS_REAL_H
#define ANNEAL_KERNELS_REAL_H

#include "kernels/device/backend.h"
#include "kernels/simd.h"

#ifdef KERNELS_BF16

typedef struct {
    uint16_t bits;
} real;

enum { REAL_IS_FLOAT = 0 };

static inline float widened(real x)
{
    return float_of_bf16(x.bits);
}

static inline real rounded(float x)
{
    return (real){simd_to_bf16(x)};
}

static inline simd_vector real_load(const real *x)
{
    return simd_load_bf16(&x->bits);
}

static inline void real_store(real *x, simd_vector value)
{
    simd_store_bf16(&x->bits, value);
}

/* The first `count` elements; the other lanes are 0. */
static inline simd_vector real_at(const real *x, int count)
{
    return bf16_at(&x->bits, count);
}

static inline void real_put(real *x, simd_vector value, int count)
{
    if (count == SIMD_LANES) {
        real_store(x, value);
        return;
    }
#ifdef __AVX512BF16__
    _mm256_mask_storeu_epi16(x, (__mmask16)((1u << count) - 1), (__m256i)_mm512_cvtneps_pbh((__m512)value));
#else
    uint16_t part[SIMD_LANES];
    simd_store_bf16(part, value);
    memcpy(x, part, (size_t)count * sizeof *x);
#endif
}

#else

typedef float real;

enum { REAL_IS_FLOAT = 1 };

static inline float widened(real x)
{
    return x;
}

static inline real rounded(float x)
{
    return x;
}

static inline simd_vector real_load(const real *x)
{
    return simd_load(x);
}

static inline void real_store(real *x, simd_vector value)
{
    simd_store(x, value);
}

static inline simd_vector real_at(const real *x, int count)
{
    return float_at(x, count);
}

static inline void real_put(real *x, simd_vector value, int count)
{
    float_put(x, value, count);
}

#endif

enum { HEAD_MAX = 1024 }; /* the widest head that a model may have (core/model/model.c) */

static const enum element REAL_ELEMENT = REAL_IS_FLOAT ? ELEMENT_FP32 : ELEMENT_BF16;

/* ---- loops over vectors ----
 *
 *     EACH_VECTOR(n, i, count, body)
 *
 * runs the body for i = 0, SIMD_LANES, ... below n, with count = SIMD_LANES, and once more for the last
 * `count` elements if fewer are left. The body reads with real_at and float_at, and writes with real_put and
 * float_put. In a whole vector count is a constant, so these are one instruction each. */
#define EACH_VECTOR(n, i, count, ...)                                                                        \
    do {                                                                                                     \
        int i = 0;                                                                                           \
        for (; i + SIMD_LANES <= (n); i += SIMD_LANES) {                                                     \
            enum { count = SIMD_LANES };                                                                     \
            __VA_ARGS__                                                                                      \
        }                                                                                                    \
        if (i < (n)) {                                                                                       \
            const int count = (n)-i;                                                                         \
            __VA_ARGS__                                                                                      \
        }                                                                                                    \
    } while (0)

/* out (n) = x (n) */
static inline void real_widen(float *out, const real *x, int n)
{
    EACH_VECTOR(n, i, count, float_put(out + i, real_at(x + i, count), count););
}

/* x (n) += delta (n) */
static inline void real_add(real *x, const real *delta, int n)
{
    EACH_VECTOR(n, i, count, real_put(x + i, real_at(x + i, count) + real_at(delta + i, count), count););
}

/* total (n) += x (n) */
static inline void real_sum(float *total, const real *x, int n)
{
    EACH_VECTOR(n, i, count,
                float_put(total + i, float_at(total + i, count) + real_at(x + i, count), count););
}

/* Fetches n elements that are needed soon into the second-level cache: where a loop computes much for each
 * number, the processor itself does not look far enough ahead. They may lie past the end of an array. */
static inline void real_fetch(const real *x, int n)
{
    for (int i = 0; i < n; i += 64 / (int)sizeof *x) __builtin_prefetch(x + i, 0, 2);
}

/* Two vectors of elements that lie one after the other, in an order that real_store_two undoes. */
static inline void real_load_two(simd_vector out[2], const real *x)
{
#if defined(KERNELS_BF16) && defined(__AVX512BF16__)
    simd_words words = (simd_words)_mm512_loadu_si512(x);
    out[0] = (simd_vector)(words << 16), out[1] = (simd_vector)(words & 0xffff0000);
#else
    out[0] = real_load(x), out[1] = real_load(x + SIMD_LANES);
#endif
}

/* In bf16 with AVX512-BF16 the elements of both take turns, so that what is stored is words of a pair each.
 */
static inline void real_store_two(real *x, const simd_vector two[2])
{
#if defined(KERNELS_BF16) && defined(__AVX512BF16__)
    const __m512i order = _mm512_add_epi32(
        _mm512_set1_epi32(0x100000), _mm512_mullo_epi32((__m512i)SIMD_COUNT, _mm512_set1_epi32(0x10001)));
    __m512i halves = (__m512i)_mm512_cvtne2ps_pbh((__m512)two[1], (__m512)two[0]);
    _mm512_storeu_si512(x, _mm512_permutexvar_epi16(order, halves));
#else
    real_store(x, two[0]), real_store(x + SIMD_LANES, two[1]);
#endif
}

/* out (n) = x (n), rounded. x may be out itself, where reals are floats. */
static inline void real_round(real *out, const float *x, int n)
{
    if ((const void *)out == x) return;
    EACH_VECTOR(n, i, count, real_put(out + i, float_at(x + i, count), count););
}

/* 2^x for x <= 127, and 0 from -127 down. In bf16 a polynomial of degree 4 (fitted for the least maximum
 * relative error), whose exponent is then raised: exact to 2^-17, as results are rounded to 2^-9, with 10
 * instructions instead of 13. */
static inline simd_vector real_exp2(simd_vector x)
{
#ifdef KERNELS_BF16
    const float round = 12582912.0f; /* 1.5 · 2^23: adding it rounds to an integer in the low bits */
    simd_vector t = simd_greater((simd_vector){0} - 127.0f, x); /* a NaN stays one */
    simd_vector shifted = t + round, r = t - (shifted - round);
    simd_vector p = 9.582852945e-03f * r + 5.590642616e-02f;
    p = p * r + 2.402409911e-01f;
    p = p * r + 6.931241751e-01f;
    p = p * r + 1.0f;
    return (simd_vector)((simd_words)p + ((simd_words)shifted << 23));
#else
    return simd_vector_exp2_softmax(x);
#endif
}

static const float REAL_LOG2_E = 1.44269504088896341f; /* exp(x) = 2^(x · REAL_LOG2_E) */

/* exp(x) for x <= 88. In bf16 exact to 2^-17 where |x| < 8. */
static inline simd_vector real_exp(simd_vector x)
{
    return REAL_IS_FLOAT ? simd_vector_exp_softmax(x) : real_exp2(x * REAL_LOG2_E);
}

/* 1 / (1 + exp(-x)). In bf16 with AVX-512 the quotient is exact to 2^-27 only: a division takes longer than
 * all the rest. */
static inline simd_vector real_sigmoid(simd_vector x)
{
    const simd_words sign = (simd_words){0} + 0x80000000u;
    simd_vector e = real_exp((simd_vector)((simd_words)x | sign)), denominator = e + 1.0f;
    simd_truth negative = x < 0.0f;
    simd_vector numerator =
        (simd_vector)((negative & (simd_truth)e) | (~negative & (simd_truth)((simd_vector){0} + 1.0f)));
#if defined(KERNELS_BF16) && defined(__AVX512F__)
    simd_vector guess = (simd_vector)_mm512_rcp14_ps((__m512)denominator);
    return numerator * guess * (2.0f - denominator * guess);
#else
    return numerator / denominator;
#endif
}

/* Σ a b c, or Σ a b for a NULL c: in fp32 inside blocks of 1,024 elements, in fp64 across them. One copy for
 * all callers: compilers fuse multiplications and additions in one copy and not in another, and a norm
 * computed again must have the same bits. */
__attribute__((noinline, unused)) static double real_dot(const real *a, const real *b, const real *c, int n)
{
    double total = 0;
    for (int start = 0; start < n; start += 1024, a += 1024, b += 1024, c += c != NULL ? 1024 : 0) {
        simd_vector sum[4] = {{0}, {0}, {0}, {0}};
        int end = n - start < 1024 ? n - start : 1024, i = 0;
        for (; i + 4 * SIMD_LANES <= end; i += 4 * SIMD_LANES)
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) {
                int at = i + j * SIMD_LANES;
                simd_vector x = real_load(a + at) * real_load(b + at);
                if (c != NULL) x *= real_load(c + at);
                sum[j] += x;
            }
        EACH_VECTOR(end - i, k, count, {
            simd_vector x = real_at(a + i + k, count) * real_at(b + i + k, count);
            if (c != NULL) x *= real_at(c + i + k, count);
            sum[0] += x;
        });
        total += (double)simd_total((sum[0] + sum[1]) + (sum[2] + sum[3]));
    }
    return total;
}

#endif
