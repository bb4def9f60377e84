/* A real is an element of a tensor in the precision of the stream: the CPU twins are compiled once for fp32
 * on each instruction set, and once for bf16 (KERNELS_BF16). Arithmetic is in fp32 in either: a twin widens
 * the reals that it reads and rounds those that it writes. Private to the CPU twins. */
#ifndef ANNEAL_KERNELS_REAL_H
#define ANNEAL_KERNELS_REAL_H

#include "kernels/device/backend.h"
#include "kernels/simd.h"

typedef float four __attribute__((vector_size(16), aligned(4), may_alias));

#ifdef KERNELS_BF16

typedef struct {
    uint16_t bits;
} real;

enum { REAL_IS_FLOAT = 0 };

static inline float widened(real x)
{
    return simd_from_bf16(x.bits);
}

/* To nearest, ties to even; a NaN stays one. */
static inline real rounded(float x)
{
    uint32_t bits = simd_bits(x), nearest = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, nan = bits >> 16 | 0x40;
    return (real){(uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? nan : nearest)};
}

static inline simd_vector real_load(const real *x)
{
    return simd_load_bf16(&x->bits);
}

static inline four real_four(const real *x)
{
    return (four){widened(x[0]), widened(x[1]), widened(x[2]), widened(x[3])};
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

static inline four real_four(const real *x)
{
    return *(const four *)x;
}

#endif

enum { HEAD_MAX = 1024 }; /* the widest head that a model may have (core/model/model.c) */

static const enum element REAL_ELEMENT = REAL_IS_FLOAT ? ELEMENT_FP32 : ELEMENT_BF16;

/* out (n) = x (n) */
static inline void real_widen(float *out, const real *x, int n)
{
    int i = 0;
    for (; i + SIMD_LANES <= n; i += SIMD_LANES) simd_store(out + i, real_load(x + i));
    for (; i < n; i++) out[i] = widened(x[i]);
}

/* out (n) = x (n), rounded. x may be out itself, where reals are floats. */
static inline void real_round(real *out, const float *x, int n)
{
    if ((const void *)out == x) return;
#pragma omp simd
    for (int i = 0; i < n; i++) out[i] = rounded(x[i]);
}

/* Where to compute the floats that real_round then writes to out: there itself, or in buf. */
static inline float *real_target(float *buf, real *out)
{
#ifdef KERNELS_BF16
    (void)out;
    return buf;
#else
    (void)buf;
    return out;
#endif
}

/* x (n) in fp32: itself, or in buf (n). */
static inline const float *as_floats(float *buf, const real *x, int n)
{
#ifdef KERNELS_BF16
    real_widen(buf, x, n);
    return buf;
#else
    (void)buf, (void)n;
    return x;
#endif
}

/* Σ a b c, or Σ a b for a NULL c: in fp32 inside blocks of 1,024 elements, in fp64 across them. */
static inline double real_dot(const real *a, const real *b, const real *c, int n)
{
    float buf[3][REAL_IS_FLOAT ? 1 : 1024];
    double total = 0;
    for (int i = 0; i < n; i += 1024) {
        int count = n - i < 1024 ? n - i : 1024;
        total += (double)simd_dot_block(as_floats(buf[0], a + i, count), as_floats(buf[1], b + i, count),
                                        c != NULL ? as_floats(buf[2], c + i, count) : NULL, count);
    }
    return total;
}

#endif
