/* Products of numbers in fp32 with AMX, which multiplies numbers in bf16. Private to the CPU twins.
 *
 * A number is the sum of three in bf16: the number rounded, what is left of it rounded, and the rest. This is
 * exact from 2^-100 up; the rest of a smaller one is lost, if it is too small for fp32. Of the nine products
 * of the parts of two numbers the six largest are added up. The others are at most 2^-24 of the product of
 * the numbers, half a unit in its last place, of either sign. An infinity gives a NaN. */
#ifndef ANNEAL_KERNELS_AMX_SPLIT_H
#define ANNEAL_KERNELS_AMX_SPLIT_H

#include "kernels/amx.h"

enum {
    SPLIT_PARTS = 3,
    SPLIT_TILE = 16 * 64,                   /* bytes of 16 lines and 32 steps */
    SPLIT_PART = 2 * SPLIT_TILE,            /* of 32 lines, */
    SPLIT_BLOCK = SPLIT_PARTS * SPLIT_PART, /* and of their parts */
    SPLIT_STEPS = 2 * AMX_WORDS
};

#ifdef __AMX_BF16__

/* part[i]: words of part i of first and of second. */
INLINE void split(__m512i part[SPLIT_PARTS], simd_vector first, simd_vector second)
{
    const simd_words half = (simd_words){0} + 0x8000, top = (simd_words){0} + 0xffff0000;
#pragma GCC unroll 2
    for (int i = 0; i < SPLIT_PARTS - 1; i++) {
        simd_words x = ((simd_words)first + half) & top, y = ((simd_words)second + half) & top;
        part[i] = (__m512i)(x >> 16 | y);
        first -= (simd_vector)x, second -= (simd_vector)y;
    }
    part[SPLIT_PARTS - 1] = (__m512i)((simd_words)first >> 16 | ((simd_words)second & top));
}

/* Tiles 4 and 5 = a part of a left block; 6 and 7 = one of a right block. */
INLINE void split_left(const char *block, int part)
{
    _tile_loadd(4, block + part * SPLIT_PART, 64);
    _tile_loadd(5, block + part * SPLIT_PART + SPLIT_TILE, 64);
}

INLINE void split_right(const char *block, int part)
{
    _tile_loadd(6, block + part * SPLIT_PART, 64);
    _tile_loadd(7, block + part * SPLIT_PART + SPLIT_TILE, 64);
}

/* Adds to the sums of amx_load the products of two blocks. The smallest come first; each part is loaded as
 * seldom as can be. MEANWHILE(i) is other work, for i = 0 to 5, that takes no time if it is some 50
 * instructions. */
#define SPLIT_STEP(a, b, MEANWHILE)                                                                          \
    do {                                                                                                     \
        split_left(a, 2);                                                                                    \
        split_right(b, 0);                                                                                   \
        amx_multiply();                                                                                      \
        MEANWHILE(0);                                                                                        \
        split_left(a, 1);                                                                                    \
        amx_multiply();                                                                                      \
        MEANWHILE(1);                                                                                        \
        split_right(b, 1);                                                                                   \
        amx_multiply();                                                                                      \
        MEANWHILE(2);                                                                                        \
        split_left(a, 0);                                                                                    \
        amx_multiply();                                                                                      \
        MEANWHILE(3);                                                                                        \
        split_right(b, 2);                                                                                   \
        amx_multiply();                                                                                      \
        MEANWHILE(4);                                                                                        \
        split_right(b, 0);                                                                                   \
        amx_multiply();                                                                                      \
        MEANWHILE(5);                                                                                        \
    } while (0)

#endif
#endif
