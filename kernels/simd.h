/* Elementary functions written so that `#pragma omp simd` loops over them become vector code on every
 * instruction set: no branches, no calls, no tables. Private to the CPU twins.
 *
 * Always: NaN in gives NaN out; nothing here relies on -ffast-math. */
#ifndef ANNEAL_KERNELS_SIMD_H
#define ANNEAL_KERNELS_SIMD_H

#include <stdint.h>
#include <string.h>

static inline uint32_t simd_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float simd_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* exp(x) to within 1.5 ulp, subnormal results and overflow to infinity included. x = n ln2 + r with |r| <=
 * ln2/2 (Cody and Waite's two-part ln2), a polynomial of degree 6 for exp(r) (fitted for least greatest
 * relative error), and 2^n applied in two halves so that neither factor overflows. */
static inline float simd_exp(float x)
{
    const float round = 12582912.0f; /* 1.5 · 2^23: adding it rounds to an integer in the low bits */
    x = x < -104.0f ? -104.0f : x;
    x = x > 89.0f ? 89.0f : x;
    float shifted = x * 1.44269504088896341f + round;
    float n = shifted - round;
    float r = x - n * 0.693145751953125f;
    r = r - n * 1.428606765330187e-6f;
    float p = 1.381453942e-3f;
    p = p * r + 8.368745446e-3f;
    p = p * r + 4.166838899e-2f;
    p = p * r + 1.666652113e-1f;
    p = p * r + 4.999999404e-1f;
    p = p * (r * r) + r;
    p = p + 1.0f;
    int32_t exponent = (int32_t)(simd_bits(shifted) - simd_bits(round));
    int32_t half = exponent >> 1;
    float scale1 = simd_float((uint32_t)(half + 127) << 23);
    float scale2 = simd_float((uint32_t)((int32_t)((uint32_t)exponent - (uint32_t)half) + 127) << 23);
    return p * scale1 * scale2;
}

/* 1 / (1 + exp(-x)) */
static inline float simd_sigmoid(float x)
{
    return 1.0f / (1.0f + simd_exp(-x));
}

/* Σ x² over n elements; fp32 inside blocks of 1,024 elements, fp64 across them. */
static inline double simd_sum_squares(const float *x, int n)
{
    double total = 0;
    for (int start = 0; start < n; start += 1024) {
        int end = n - start < 1024 ? n : start + 1024;
        float part = 0;
#pragma omp simd reduction(+ : part)
        for (int i = start; i < end; i++) part += x[i] * x[i];
        total += part;
    }
    return total;
}

#endif
