/* Shared by product.c and product_amx.c: dividing a product into parts, and writing sums to out. Private to
 * the CPU twins. */
#ifndef ANNEAL_KERNELS_PRODUCT_FINISH_H
#define ANNEAL_KERNELS_PRODUCT_FINISH_H

#include <stdbool.h>

#include "kernels/device/backend.h"
#include "kernels/simd.h"

static inline int least(int a, int b)
{
    return a < b ? a : b;
}

/* n in the fewest parts of at most `most`, which differ by one `unit` at most: the size of the larger ones.
 */
static inline int part_size(int n, int most, int unit)
{
    int parts = (n + most - 1) / most, each = (n + parts - 1) / parts;
    return (each + unit - 1) / unit * unit;
}

/* out (rows, columns) = factor · sums, or +=. */
INLINE void finish(struct matrix out, const enum element element, const float *sums, ptrdiff_t stride,
                   int rows, int columns, const bool add, float factor)
{
    char *at = out.at;
    for (int r = 0; r < rows; r++, sums += stride, at += (size_t)out.stride * element_bytes(element)) {
        float *floats = (float *)(void *)at;
        uint16_t *halves = (uint16_t *)(void *)at;
        int i = 0;
        for (; i + SIMD_LANES <= columns; i += SIMD_LANES) {
            simd_vector x = simd_load(sums + i) * factor;
            if (element == ELEMENT_FP32)
                simd_store(floats + i, add ? simd_load(floats + i) + x : x);
            else
                simd_store_bf16(halves + i, add ? simd_load_bf16(halves + i) + x : x);
        }
        for (; i < columns; i++) {
            float x = sums[i] * factor;
            if (element == ELEMENT_FP32)
                floats[i] = add ? floats[i] + x : x;
            else
                halves[i] = simd_to_bf16(add ? float_of_bf16(halves[i]) + x : x);
        }
    }
}

/* A function for each case: with a choice in its loop, compilers contract multiplying and adding in some of
 * the loop's copies and not in others, and an element's bits depend on where in a tile it is. */
__attribute__((noinline, unused)) static void tile_finish(struct matrix out, const float *sums,
                                                          ptrdiff_t stride, int rows, int columns, bool add,
                                                          float factor)
{
    if (out.element == ELEMENT_FP32 && add)
        finish(out, ELEMENT_FP32, sums, stride, rows, columns, true, factor);
    else if (out.element == ELEMENT_FP32)
        finish(out, ELEMENT_FP32, sums, stride, rows, columns, false, factor);
    else if (add)
        finish(out, ELEMENT_BF16, sums, stride, rows, columns, true, factor);
    else
        finish(out, ELEMENT_BF16, sums, stride, rows, columns, false, factor);
}

#endif
