/* Products with AMX, the matrix unit of Intel's processors. Private to the CPU twins.
 *
 * A tile is 16 rows of 64 bytes. One instruction adds to 16 x 16 sums in fp32 the products of 16 rows of a,
 * each of 32 steps of k in bf16, and of 16 columns of b, 16 words of two steps each. So b is packed as for
 * vdpbf16ps (pack.h), and a is read row by row. Of the eight tiles four hold sums, 32 rows by 32 columns, two
 * hold a, and two hold b: every tile that is loaded serves two instructions.
 *
 * A thread calls amx_begin before its first product and amx_end after its last. */
#ifndef ANNEAL_KERNELS_AMX_H
#define ANNEAL_KERNELS_AMX_H

#include "kernels/device/backend.h"
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

/* The sums of AMX_ROWS rows and 32 columns: those of c, whose rows are `row` words apart, or zero. */
INLINE void amx_load(const float *c, ptrdiff_t row, bool zero)
{
    const float *below = c + 16 * row;
    if (zero) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    } else {
        _tile_loadd(0, c, row * 4);
        _tile_loadd(1, c + 16, row * 4);
        _tile_loadd(2, below, row * 4);
        _tile_loadd(3, below + 16, row * 4);
    }
}

INLINE void amx_store(float *c, ptrdiff_t row)
{
    float *below = c + 16 * row;
    _tile_stored(0, c, row * 4);
    _tile_stored(1, c + 16, row * 4);
    _tile_stored(2, below, row * 4);
    _tile_stored(3, below + 16, row * 4);
}

/* Adds to them the products of tiles 4 and 5, the rows of a, and 6 and 7, the columns of b. */
INLINE void amx_multiply(void)
{
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
}

/* Adds to them the products of AMX_ROWS rows of a, `a_row` bytes apart, of AMX_WORDS words each, and as many
 * words of packed b, `b_row` bytes apart. */
INLINE void amx_step(const char *a, ptrdiff_t a_row, const char *b, ptrdiff_t b_row)
{
    _tile_loadd(4, a, a_row);
    _tile_loadd(6, b, b_row);
    _tile_loadd(7, b + 64, b_row);
    _tile_loadd(5, a + 16 * a_row, a_row);
    amx_multiply();
}

/* Stores four words of each of 16 rows that lie `pitch` bytes apart. q[i]: word i of all rows; the four that
 * share a quarter of a vector follow each other, those of the next are `apart` rows on. */
INLINE void amx_store_words(void *to, ptrdiff_t pitch, const int apart, const __m512i q[4])
{
    __m512i a = _mm512_unpacklo_epi32(q[0], q[1]), b = _mm512_unpacklo_epi32(q[2], q[3]),
            c = _mm512_unpackhi_epi32(q[0], q[1]), d = _mm512_unpackhi_epi32(q[2], q[3]);
    __m512i row[4] = {_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b), _mm512_unpacklo_epi64(c, d),
                      _mm512_unpackhi_epi64(c, d)};
    char *at = to;
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++, at += pitch) {
        _mm_storeu_si128((__m128i_u *)at, _mm512_extracti32x4_epi32(row[i], 0));
        _mm_storeu_si128((__m128i_u *)(at + apart * pitch), _mm512_extracti32x4_epi32(row[i], 1));
        _mm_storeu_si128((__m128i_u *)(at + 2 * apart * pitch), _mm512_extracti32x4_epi32(row[i], 2));
        _mm_storeu_si128((__m128i_u *)(at + 3 * apart * pitch), _mm512_extracti32x4_epi32(row[i], 3));
    }
}

/* out: AMX_ROWS rows, `pitch` bytes apart, of AMX_WORDS words each, of lines whose elements of a step lie one
 * after the other. Lines and steps that do not exist are 0. */
static inline void amx_transpose(void *out, ptrdiff_t pitch, const struct lines *x, int line, int step,
                                 int count, int steps)
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
        amx_store_words((char *)out + 4 * w, pitch, 8, low);
        amx_store_words((char *)out + 4 * w + 4 * pitch, pitch, 8, high);
    }
}

#else

static inline void amx_begin(void)
{
}

static inline void amx_end(void)
{
}

#endif

/* product() with AMX, of lines of a and b: in a table for bf16 both in bf16 (product_amx.c); in one for fp32
 * in fp32, b also in bf16 (product_split.c). memory: AMX_PRODUCT_BYTES. */
enum { AMX_PRODUCT_BYTES = (512 * 512 / 2 + 4 * 32 * 1024 / 2 + 512 * 512) * 4 };
void amx_product(struct matrix out, struct lines a, struct lines b, int M, int N, int K, bool accumulate,
                 float factor, void *memory);

#endif
