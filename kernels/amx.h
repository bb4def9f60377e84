/* Products with AMX, the matrix unit of Intel's processors. Private to the CPU twins.
 *
 * A tile is 16 rows of 64 bytes. One instruction adds to 16 x 16 sums in fp32 the products of 16 rows of a,
 * each of 32 steps of k in bf16, and of 16 columns of b, 16 words of two steps each. So b is packed as for
 * vdpbf16ps (pack.h), and a in blocks of AMX_ROWS rows by AMX_WORDS words, row by row. Of the eight tiles
 * four hold sums, 32 rows by 32 columns, two hold a, and two hold b: every tile that is loaded serves two
 * instructions.
 *
 * A thread calls amx_begin before its first product and amx_end after its last. */
#ifndef ANNEAL_KERNELS_AMX_H
#define ANNEAL_KERNELS_AMX_H

#include "kernels/pack.h"

enum { AMX_ROWS = 32, AMX_WORDS = 16 };

#ifdef __AMX_BF16__

static inline void amx_begin(void)
{
    static const struct {
        uint8_t palette, start, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } eight_tiles = {.palette = 1,
                     .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
                     .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
    _tile_loadconfig(&eight_tiles);
}

/* The operating system need not save tiles from here on. */
static inline void amx_end(void)
{
    _tile_release();
}

/* c (AMX_ROWS, 32) = or, with `add`, += the product of packed a and b (words, b_row words). Rows of c and b
 * are `c_row` and `b_row` words apart; words is a multiple of AMX_WORDS. */
__attribute__((always_inline)) static inline void
amx_multiply(float *c, ptrdiff_t c_row, bool add, const void *a, const void *b, ptrdiff_t b_row, int words)
{
    const ptrdiff_t c_bytes = c_row * 4, b_bytes = b_row * 4;
    const char *a_at = a, *b_at = b;
    float *below = c + 16 * c_row;
    if (add) {
        _tile_loadd(0, c, c_bytes);
        _tile_loadd(1, c + 16, c_bytes);
        _tile_loadd(2, below, c_bytes);
        _tile_loadd(3, below + 16, c_bytes);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int k = 0; k < words; k += AMX_WORDS) {
        _tile_loadd(4, a_at, 64);
        _tile_loadd(6, b_at, b_bytes);
        _tile_loadd(7, b_at + 64, b_bytes);
        _tile_loadd(5, a_at + 1024, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
        a_at += 2048, b_at += AMX_WORDS * b_bytes;
    }
    _tile_stored(0, c, c_bytes);
    _tile_stored(1, c + 16, c_bytes);
    _tile_stored(2, below, c_bytes);
    _tile_stored(3, below + 16, c_bytes);
}

/* out (AMX_ROWS, AMX_WORDS) = 16 words of rows whose steps lie one after the other. */
static inline void amx_pack_rows(uint32_t *out, const struct lines *x, int line, int step, int count,
                                 int steps)
{
    __mmask32 there = steps >= 32 ? ~0u : (1u << steps) - 1;
    for (int r = 0; r < AMX_ROWS; r++)
        _mm512_store_si512(out + r * AMX_WORDS,
                           _mm512_maskz_loadu_epi16(r < count ? there : 0, element_at(x, line + r, step)));
}

/* The same of rows of which the elements of a step lie one after the other. Words of two steps are made
 * first, then four words of a row, which are stored together. */
static inline void amx_pack_columns(uint32_t *out, const struct lines *x, int line, int step, int count,
                                    int steps)
{
    __mmask32 there = count >= 32 ? ~0u : (1u << count) - 1;
    for (int w = 0; w < AMX_WORDS; w += 4) {
        __m512i low[4], high[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            int k = 2 * (w + i);
            __m512i even = _mm512_maskz_loadu_epi16(k < steps ? there : 0, element_at(x, line, step + k)),
                    odd = _mm512_maskz_loadu_epi16(k + 1 < steps ? there : 0,
                                                   element_at(x, line, step + k + 1));
            low[i] = _mm512_unpacklo_epi16(even, odd), high[i] = _mm512_unpackhi_epi16(even, odd);
        }
#pragma GCC unroll 2
        for (int half = 0; half < 2; half++) {
            const __m512i *q = half ? high : low;
            __m512i ab = _mm512_unpacklo_epi32(q[0], q[1]), cd = _mm512_unpacklo_epi32(q[2], q[3]);
            __m512i more_ab = _mm512_unpackhi_epi32(q[0], q[1]), more_cd = _mm512_unpackhi_epi32(q[2], q[3]);
            __m512i row[4] = {_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd),
                              _mm512_unpacklo_epi64(more_ab, more_cd),
                              _mm512_unpackhi_epi64(more_ab, more_cd)};
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++) {
                uint32_t *to = out + (4 * half + i) * AMX_WORDS + w;
                _mm_store_si128((__m128i *)to, _mm512_extracti32x4_epi32(row[i], 0));
                _mm_store_si128((__m128i *)(to + 8 * AMX_WORDS), _mm512_extracti32x4_epi32(row[i], 1));
                _mm_store_si128((__m128i *)(to + 16 * AMX_WORDS), _mm512_extracti32x4_epi32(row[i], 2));
                _mm_store_si128((__m128i *)(to + 24 * AMX_WORDS), _mm512_extracti32x4_epi32(row[i], 3));
            }
        }
    }
}

/* Packs `count` lines, at most AMX_ROWS, for amx_multiply. Lines and steps that do not exist are 0. */
static inline void amx_pack(uint32_t *out, const struct lines *x, int line, int step, int count, int steps)
{
    for (int k = 0; k < steps; k += 2 * AMX_WORDS, out += AMX_ROWS * AMX_WORDS)
        if (x->line == x->element_bytes)
            amx_pack_columns(out, x, line, step + k, count, steps - k);
        else
            amx_pack_rows(out, x, line, step + k, count, steps - k);
}

#else

static inline void amx_begin(void)
{
}

static inline void amx_end(void)
{
}

static inline void amx_multiply(float *c, ptrdiff_t c_row, bool add, const void *a, const void *b,
                                ptrdiff_t b_row, int words)
{
    (void)c, (void)c_row, (void)add, (void)a, (void)b, (void)b_row, (void)words;
}

static inline void amx_pack(uint32_t *out, const struct lines *x, int line, int step, int count, int steps)
{
    (void)out, (void)x, (void)line, (void)step, (void)count, (void)steps;
}

#endif
#endif
