/* See product.h.
 *
 * Both operands are copied to where the inner loop reads them one after the other: a in strips of ROWS rows,
 * b in blocks of panels of COLUMNS columns. A tile of ROWS by COLUMNS sums is in registers. A panel of b
 * stays in the first-level cache while all strips of a group are multiplied by it; with AVX-512 it is too
 * wide for that, so a strip of a stays there, and the block of b in the second level. Words of two numbers
 * are for vdpbf16ps, which adds two products at a time. */
#include "kernels/product.h"

#include <stddef.h>
#include <stdint.h>

#include "kernels/pack.h"

/* Of AVX-512 and NEON's 32 registers 28 hold sums, of 16 others 12. */
#if SIMD_LANES == 16 || defined(__aarch64__)
#define ROWS_MAX 14
#else
#define ROWS_MAX 6
#endif

#define INLINE static inline __attribute__((always_inline))

enum {
    LANES = SIMD_LANES,
    ROWS = ROWS_MAX,
    COLUMNS = 2 * LANES,
    WORDS = 256,                                   /* of k at a time, at most: a strip of a is 14 KiB */
    BLOCK = LANES == 16 ? 576 : 1024,              /* columns of b at a time, at most: 576 or 1024 KiB */
    STRIP = (ROWS * WORDS + LANES + 15) / 16 * 16, /* whole vectors are stored, also of the last words */
    GROUP = LANES == 16 ? 1 : 144 / ROWS,          /* strips of a at a time: 14 or 144 KiB */
    BESIDE = LANES == 16 ? 576 : 512, /* columns at a time where sums are kept until all steps are done */
    SUMS = 512 * BESIDE
};

size_t product_bytes(void)
{
    return sizeof(uint32_t) * (BLOCK * WORDS + GROUP * STRIP) + sizeof(float) * SUMS;
}

/* ---- tiles ---- */

/* sums (rows, COLUMNS) = or, with `more`, += the product of `rows` lines of a and COLUMNS lines of b, as
 * packed. */
INLINE void tile_floats(const int rows, float *sums, ptrdiff_t stride, bool more, const float *a,
                        const float *b, int words)
{
    simd_vector sum[ROWS][2];
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int i = 0; i < 2; i++) sum[r][i] = (simd_vector){0};
    for (int k = 0; k < words; k++, a += rows, b += COLUMNS) {
        simd_vector b0 = simd_load(b), b1 = simd_load(b + LANES);
#pragma GCC unroll 14
        for (int r = 0; r < rows; r++) {
            simd_vector x = a[r] - (simd_vector){0};
            sum[r][0] += x * b0;
            sum[r][1] += x * b1;
        }
    }
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int i = 0; i < 2; i++) {
            float *to = sums + r * stride + i * LANES;
            simd_store(to, more ? simd_load(to) + sum[r][i] : sum[r][i]);
        }
}

#ifdef __AVX512BF16__
INLINE void tile_pairs(const int rows, float *sums, ptrdiff_t stride, bool more, const uint32_t *a,
                       const uint32_t *b, int words)
{
    __m512 sum[ROWS][2];
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int i = 0; i < 2; i++) sum[r][i] = _mm512_setzero_ps();
    for (int k = 0; k < words; k++, a += rows, b += COLUMNS) {
        __m512bh b0 = (__m512bh)_mm512_loadu_si512(b), b1 = (__m512bh)_mm512_loadu_si512(b + LANES);
#pragma GCC unroll 14
        for (int r = 0; r < rows; r++) {
            __m512bh x = (__m512bh)_mm512_set1_epi32((int)a[r]);
            sum[r][0] = _mm512_dpbf16_ps(sum[r][0], x, b0);
            sum[r][1] = _mm512_dpbf16_ps(sum[r][1], x, b1);
        }
    }
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int i = 0; i < 2; i++) {
            float *to = sums + r * stride + i * LANES;
            _mm512_storeu_ps(to, more ? _mm512_add_ps(_mm512_loadu_ps(to), sum[r][i]) : sum[r][i]);
        }
}
#endif

/* A function for each number of rows, so that every sum is in a register. */
#if ROWS_MAX == 14
#define EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#else
#define EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#endif

typedef void tile(float *sums, ptrdiff_t stride, bool more, const void *a, const void *b, int words);

#define TILE_FLOATS(rows)                                                                                    \
    static void floats_##rows(float *sums, ptrdiff_t stride, bool more, const void *a, const void *b,        \
                              int words)                                                                     \
    {                                                                                                        \
        tile_floats(rows, sums, stride, more, a, b, words);                                                  \
    }
#define TILE_PAIRS(rows)                                                                                     \
    static void pairs_##rows(float *sums, ptrdiff_t stride, bool more, const void *a, const void *b,         \
                             int words)                                                                      \
    {                                                                                                        \
        tile_pairs(rows, sums, stride, more, a, b, words);                                                   \
    }
#define OF_FLOATS(rows) floats_##rows,
#define OF_PAIRS(rows)  pairs_##rows,

EACH_ROWS(TILE_FLOATS)
static tile *const tiles_of_floats[] = {EACH_ROWS(OF_FLOATS)};
#ifdef __AVX512BF16__
EACH_ROWS(TILE_PAIRS)
static tile *const tiles_of_pairs[] = {EACH_ROWS(OF_PAIRS)};
#endif

/* out (rows, columns) = factor · sums, or +=. */
INLINE void finish(struct matrix out, const enum element element, const float *sums, ptrdiff_t stride,
                   int rows, int columns, const bool add, float factor)
{
    char *at = out.at;
    for (int r = 0; r < rows; r++, sums += stride, at += (size_t)out.stride * element_bytes(element)) {
        float *floats = (float *)(void *)at;
        uint16_t *halves = (uint16_t *)(void *)at;
        int i = 0;
        for (; i + LANES <= columns; i += LANES) {
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
                halves[i] = simd_to_bf16(add ? simd_from_bf16(halves[i]) + x : x);
        }
    }
}

/* A function for each case: with a choice in its loop, compilers contract multiplying and adding in some of
 * the loop's copies and not in others, and an element's bits depend on where in a tile it is. */
static void tile_finish(struct matrix out, const float *sums, ptrdiff_t stride, int rows, int columns,
                        bool add, float factor)
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

/* ---- blocks ---- */

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

struct plan {
    struct matrix out;
    struct lines a, b;
    int M, N, K;
    int steps; /* of k at a time */
    enum form a_form, b_form;
    bool accumulate, direct; /* direct: tiles are added to out where they are summed */
    float factor;
    tile *const *tiles;
    uint32_t *block, *strip;
    float *sums;      /* of a part of out, until all steps are done; NULL: out has them */
    ptrdiff_t stride; /* of sums */
};

static int words_of(const struct plan *p, int steps)
{
    return p->a_form == FORM_PAIRS ? (steps + 1) / 2 : steps;
}

/* Fetches the rows of out before sums are added to them. */
static void out_prefetch(struct matrix out, int rows)
{
    ptrdiff_t row = out.stride * (ptrdiff_t)element_bytes(out.element);
    for (int r = 0; r < rows; r++) {
        const char *at = (const char *)out.at + r * row;
        __builtin_prefetch(at, 1);
        __builtin_prefetch(at + 64, 1);
    }
}

/* Rows [m0, m1) and columns [n0, n1) of out, with the steps from k on. */
static void multiply_block(const struct plan *p, int m0, int m1, int n0, int n1, int k)
{
    _Alignas(64) float sums[ROWS * COLUMNS];
    int steps = least(p->K - k, p->steps), words = words_of(p, steps);
    bool last = k + steps == p->K;
    for (int n = n0; n < n1; n += COLUMNS)
        pack(p->block + (ptrdiff_t)(n - n0) * words, COLUMNS, &p->b, n, k, p->N - n, steps, p->b_form);
    int strips = (m1 - m0 + ROWS - 1) / ROWS;
    for (int first = 0; first < strips; first += GROUP) {
        int count = least(strips - first, GROUP), at[GROUP + 1];
        for (int s = 0; s <= count; s++) at[s] = m0 + (int)((long)(m1 - m0) * (first + s) / strips);
        for (int s = 0; s < count; s++)
            pack(p->strip + s * STRIP, at[s + 1] - at[s], &p->a, at[s], k, p->M - at[s], steps, p->a_form);
        for (int n = n0; n < n1; n += COLUMNS)
            for (int s = 0; s < count; s++) {
                int m = at[s], rows = at[s + 1] - m;
                int columns = least(n1 - n, COLUMNS);
                struct matrix out = matrix_part(p->out, m, n);
                bool add = p->accumulate || (!p->sums && k > 0);
                if (!p->sums || last) out_prefetch(out, rows);
                const uint32_t *a = p->strip + s * STRIP, *b = p->block + (ptrdiff_t)(n - n0) * words;
                if (p->direct && columns == COLUMNS) {
                    p->tiles[rows - 1](out.at, out.stride, add, a, b, words);
                    continue;
                }
                float *to = p->sums ? p->sums + (m - m0) * p->stride + (n - n0) : sums;
                ptrdiff_t stride = p->sums ? p->stride : COLUMNS;
                p->tiles[rows - 1](to, stride, p->sums && k > 0, a, b, words);
                if (!p->sums || last) tile_finish(out, to, stride, rows, columns, add, p->factor);
            }
    }
}

static struct lines lines_of(struct matrix x, bool columns)
{
    ptrdiff_t one = (ptrdiff_t)element_bytes(x.element), row = x.stride * one;
    return (struct lines){x.at, columns ? one : row, columns ? row : one, (int)one};
}

void product(struct matrix out, struct matrix a, struct matrix b, int M, int N, int K, bool transpose_a,
             bool transpose_b, bool accumulate, float factor, bool dots, void *memory)
{
    struct plan p = {.out = out,
                     .a = lines_of(a, transpose_a),
                     .b = lines_of(b, !transpose_b),
                     .M = M,
                     .N = N,
                     .K = K,
                     .accumulate = accumulate,
                     .factor = factor,
                     .direct = out.element == ELEMENT_FP32 && factor == 1,
                     .tiles = tiles_of_floats};
    p.a_form = a.element == ELEMENT_FP32 ? FORM_FLOATS : FORM_WIDENED;
    p.b_form = b.element == ELEMENT_FP32 ? FORM_FLOATS : FORM_WIDENED;
#ifndef __AVX512BF16__
    dots = false;
#else
    if (dots) p.a_form = p.b_form = FORM_PAIRS, p.tiles = tiles_of_pairs;
#endif
    p.steps = part_size(K, dots ? 2 * WORDS : WORDS, 16);
    p.block = memory;
    p.strip = p.block + BLOCK * WORDS;
    /* An element in bf16 is rounded once, so its sum over several blocks of steps is kept in fp32. */
    bool beside = out.element == ELEMENT_BF16 && p.steps < K;
    int width = part_size(N, beside ? BESIDE : BLOCK, COLUMNS), height = beside ? SUMS / width : M;
    if (beside) p.sums = (float *)(p.strip + GROUP * STRIP), p.stride = width;
    for (int n = 0; n < N; n += width)
        for (int m = 0; m < M; m += height)
            for (int k = 0; k < K; k += p.steps)
                multiply_block(&p, m, least(M, m + height), n, least(N, n + width), k);
}
