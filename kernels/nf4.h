/* NF4, "4-bit NormalFloat": weights in 4 bits (Dettmers, Pagnoni, Holtzman and Zettlemoyer, "QLoRA", 2023),
 * with the codes and scales of bitsandbytes' CPU version, bit for bit. (Its mean of scales, see below, is a
 * sum in fp32 whose order depends on processor and threads; ours is a sum in fp64, the same everywhere.)
 *
 * A tensor of n elements is quantised as one row, in blocks of NF4_BLOCK elements; the last one may be
 * shorter. A block's scale is its largest magnitude, and an element's code is the number of the nearest of 16
 * values between −1 and 1, of x / scale; the smaller one of two that are equally near. The value of a code is
 * the product of both in fp32, rounded once more where the result is bf16.
 *
 * Nested ("double quantisation"): the scales, less their mean, are themselves quantised to 8 bits, in groups
 * of NF4_GROUP, with 256 values that are denser near zero (Dettmers, "8-Bit Approximations for Parallelism in
 * Deep Learning", 2015). Then 4.13 bits an element instead of 4.5.
 *
 * In memory, one after the other:
 *
 *     codes          two to a byte, the first one in the upper four bits; then up to a multiple of 16 bytes
 *     scales         (blocks) fp32
 *     or, nested:
 *     mean           fp32
 *     values         (256) fp32, ascending
 *     group scales   (groups) fp32
 *     scale codes    (blocks) bytes: scale = values[code] · group scale, rounded to fp32, + mean */
#ifndef ANNEAL_KERNELS_NF4_H
#define ANNEAL_KERNELS_NF4_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NF4_BLOCK = 64, NF4_GROUP = 256, NF4_VALUES = 16, NF4_SCALE_VALUES = 256 };

/* Places of the nested scales, in floats behind the codes. */
enum { NF4_AT_MEAN = 0, NF4_AT_VALUES = 1, NF4_AT_GROUPS = NF4_AT_VALUES + NF4_SCALE_VALUES };

/* The values of the codes. A macro, so that each twin has them where it reads fastest. */
#define NF4_CODEBOOK                                                                                         \
    {                                                                                                        \
        -1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f,     \
            -0.18477343022823334f, -0.09105003625154495f, 0.0f, 0.07958029955625534f, 0.16093020141124725f,  \
            0.24611230194568634f, 0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f,           \
            0.7229568362236023f, 1.0f                                                                        \
    }

static inline size_t nf4_blocks(size_t n)
{
    return (n + NF4_BLOCK - 1) / NF4_BLOCK;
}

static inline size_t nf4_groups(size_t n)
{
    return (nf4_blocks(n) + NF4_GROUP - 1) / NF4_GROUP;
}

/* Bytes of the codes, and so where the scales begin. */
static inline size_t nf4_code_bytes(size_t n)
{
    return ((n + 1) / 2 + 15) & ~(size_t)15;
}

static inline size_t nf4_scale_bytes(size_t n, bool nested)
{
    return nested ? (NF4_AT_GROUPS + nf4_groups(n)) * sizeof(float) + nf4_blocks(n)
                  : nf4_blocks(n) * sizeof(float);
}

/* All bytes of n elements. */
static inline size_t nf4_bytes(size_t n, bool nested)
{
    return nf4_code_bytes(n) + nf4_scale_bytes(n, nested);
}

/* ---- quantising, on the host: in parallel, with the threads that OpenMP has by default ---- */

/* codes ((n + 1) / 2 bytes) and scales (blocks) of x (n), which begins at a block of its tensor; n is a
 * multiple of NF4_BLOCK unless x ends the tensor. A block with a NaN, or with an infinity, becomes all NaN.
 */
void nf4_quantise(uint8_t *codes, float *scales, const float *x, size_t n);

/* The mean of the scales of n elements, and their nested form (nf4_scale_bytes). */
float nf4_mean(const float *scales, size_t n);
void nf4_nest(void *nested, const float *scales, float mean, size_t n);

#endif
