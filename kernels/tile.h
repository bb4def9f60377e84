/* Products of small tiles that are in the first- or second-level cache: the inner loops of attention. Private
 * to the CPU twins. Operands are words of 32 bits, as in pack.h: a number in fp32, or two steps of k in bf16
 * for vdpbf16ps.
 *
 * tile_multiply computes four rows by TILE_VECTORS vectors of the result at a time: 16 sums with the 32
 * registers of AVX-512 or NEON, 12 with the 16 of AVX2, whose other four hold three vectors of b and a word
 * of a; without fused multiply-adds, which need a register more, 8. Two multiply-adds per cycle, each with a
 * latency of four cycles, need 8. Per step it loads TILE_VECTORS vectors of b and four words of a. */
#ifndef ANNEAL_KERNELS_TILE_H
#define ANNEAL_KERNELS_TILE_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/device/cpu_device.h"
#include "kernels/pack.h"
#include "kernels/real.h"

#define TILE ATTENTION_TILE /* 64 x 64 floats are 16 KiB: three tiles share a first-level cache */

/* Rows that are computed together. A tile has TILE_GROUPS of them. */
enum { TILE_ROWS = 4, TILE_GROUPS = TILE / TILE_ROWS };

#if SIMD_LANES == 16 || defined(__aarch64__)
#define TILE_VECTORS 4
#elif SIMD_LANES == 8
#define TILE_VECTORS 3
#else
#define TILE_VECTORS 2
#endif

/* One operand a: word (r, k) is data[r * row_step + k * k_step]; rows from `rows` on repeat the last. */
struct tile_operand {
    const tile_word *data;
    ptrdiff_t row_step, k_step;
    int rows;
};

/* Columns or steps [from, to). */
struct tile_span {
    int from, to;
};

/* `count` rows of `bytes`, `step` bytes from each other. */
struct tile_ahead {
    const char *rows;
    ptrdiff_t step;
    int count, bytes;
};

/* Rows that are needed soon: products fetch them into the second-level cache, a line every second step, as
 * many at once would hold up their own loads. Rows of a head are far from each other in memory, so the
 * processor does not guess them. */
struct tile_soon {
    struct tile_ahead of[6];
    int count, now; /* of `of` */
    int row;        /* of of[now] */
    int lines;      /* that are left of this row, from `line` on; 0: no row is left */
    const char *line;
};

static inline int row_lines(const struct tile_ahead *rows)
{
    return (rows->bytes + 63) / 64;
}

static inline void tile_need_soon(struct tile_soon *soon, struct tile_ahead rows)
{
    if (rows.count == 0) return;
    if (soon->lines == 0) soon->line = rows.rows, soon->lines = row_lines(&rows);
    soon->of[soon->count++] = rows;
}

static inline void tile_next_row(struct tile_soon *soon)
{
    if (++soon->row == soon->of[soon->now].count) soon->row = 0, soon->now++;
    if (soon->now == soon->count) return;
    const struct tile_ahead *rows = &soon->of[soon->now];
    soon->line = rows->rows + soon->row * rows->step;
    soon->lines = row_lines(rows);
}

INLINE void tile_fetch(struct tile_soon *soon)
{
    if (soon->lines == 0) return;
    __builtin_prefetch(soon->line, 0, 2);
    soon->line += 64;
    if (--soon->lines == 0) tile_next_row(soon);
}

/* How a product is computed. */
struct tile_how {
    bool pairs;                      /* a word of a and b is two steps */
    bool add;                        /* to what is in c */
    const float *keep;               /* with add: the factor of what is in each row of c; NULL: 1 */
    const struct tile_span *columns; /* of each group of rows, those needed; NULL: all */
    const struct tile_span *steps;   /* of each group of rows, those that are not 0; NULL: all */
    struct tile_soon *soon;          /* rows that it fetches; NULL: none */
};

INLINE void tile_block(const int count, const int vectors, const bool pairs, float *c, ptrdiff_t ldc,
                       const tile_word *const a[TILE_ROWS], ptrdiff_t k_step, const float *b, ptrdiff_t ldb,
                       int words, bool add, const float *keep, struct tile_soon *soon)
{
    simd_vector sum[TILE_ROWS][TILE_VECTORS];
#pragma GCC unroll 4
    for (int r = 0; r < count; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            sum[r][v] = add ? simd_load(c + r * ldc + v * SIMD_LANES) : (simd_vector){0};
            if (keep) sum[r][v] *= keep[r];
        }
    for (int k = 0; k < words; k++) {
        if (soon && k % 2) tile_fetch(soon);
        const float *bk = b + k * ldb;
        ptrdiff_t at = k * k_step;
        simd_vector y[TILE_VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) y[v] = simd_load(bk + v * SIMD_LANES);
#pragma GCC unroll 4
        for (int r = 0; r < count; r++) {
            float x = a[r][at];
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) sum[r][v] = tile_step(sum[r][v], x, y[v], pairs);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < count; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) simd_store(c + r * ldc + v * SIMD_LANES, sum[r][v]);
}

/* c (M,N) = or += a (M,K) b (K,N). M > 1 is rounded up to whole groups and N to whole vectors, which c (row
 * length ldc) and b (row length ldb) must have room for; K and `steps` to whole words. */
static inline void tile_multiply(float *c, int ldc, struct tile_operand a, const float *b, int ldb, int M,
                                 int N, int K, struct tile_how how)
{
    const bool pairs = TILE_PAIRS && how.pairs;
    for (int r = 0; r < M; r += TILE_ROWS) {
        struct tile_span n = how.columns ? how.columns[r / TILE_ROWS] : (struct tile_span){0, N};
        struct tile_span k = how.steps ? how.steps[r / TILE_ROWS] : (struct tile_span){0, K};
        if (pairs) k = (struct tile_span){k.from / 2, (k.to + 1) / 2};
        const tile_word *rows[TILE_ROWS];
        const float *keep = how.keep ? how.keep + r : NULL;
        for (int i = 0; i < TILE_ROWS; i++)
            rows[i] = a.data + (r + i < a.rows ? r + i : a.rows - 1) * a.row_step + k.from * a.k_step;
        float *out = c + (ptrdiff_t)r * ldc;
        const float *steps = b + (ptrdiff_t)k.from * ldb;
        int at = n.from / SIMD_LANES * SIMD_LANES;
        for (int left; (left = (n.to - at + SIMD_LANES - 1) / SIMD_LANES) > 0;) {
            /* few vectors do not hide the latency: rather three and two than four and one */
            int vectors = left >= 2 * TILE_VECTORS || left == TILE_VECTORS ? TILE_VECTORS
                          : left > TILE_VECTORS                            ? (left + 1) / 2
                                                                           : left;
#define TILE_BLOCK(count, vectors, pairs)                                                                    \
    tile_block(count, vectors, pairs, out + at, ldc, rows, a.k_step, steps + at, ldb, k.to - k.from,         \
               how.add, keep, how.soon)
#define TILE_CASE(vectors)                                                                                   \
    case vectors:                                                                                            \
        if (M == 1)                                                                                          \
            pairs ? TILE_BLOCK(1, vectors, true) : TILE_BLOCK(1, vectors, false);                            \
        else                                                                                                 \
            pairs ? TILE_BLOCK(TILE_ROWS, vectors, true) : TILE_BLOCK(TILE_ROWS, vectors, false);            \
        break;
            switch (vectors) {
                TILE_CASE(1)
                TILE_CASE(2)
#if TILE_VECTORS > 2
                TILE_CASE(3)
#endif
#if TILE_VECTORS > 3
                TILE_CASE(4)
#endif
            }
#undef TILE_BLOCK
#undef TILE_CASE
            at += vectors * SIMD_LANES;
        }
    }
}

/* to (rows, width) = from (rows, HS; row length `step`), with zeros in columns [HS, width). */
static inline void tile_copy(float *to, int width, const real *from, ptrdiff_t step, int rows, int HS)
{
    for (int r = 0; r < rows; r++, to += width, from += step) {
        int i = 0;
        for (; i + SIMD_LANES <= HS; i += SIMD_LANES) simd_store(to + i, real_load(from + i));
        for (; i < width; i++) to[i] = i < HS ? widened(from[i]) : 0.0f;
    }
}

/* The same in words of two rows; a missing one is zeros. HS rounded up to 16 is `width`. */
static inline void tile_copy_pairs(float *to, int width, const real *from, ptrdiff_t step, int rows, int HS)
{
#ifdef __AVX512BF16__
    const __m512i first =
                      _mm512_add_epi32(_mm512_set1_epi32(0x200000),
                                       _mm512_mullo_epi32((__m512i)SIMD_COUNT, _mm512_set1_epi32(0x10001))),
                  second = _mm512_add_epi16(first, _mm512_set1_epi16(16));
    for (int r = 0; r < rows; r += 2, to += width, from += 2 * step) {
        bool both = r + 1 < rows;
        for (int i = 0; i < HS; i += 32) {
            bool whole = HS - i >= 32;
            __mmask32 there = whole ? ~0u : (1u << (HS - i)) - 1, other = both ? there : 0;
            __m512i even = _mm512_maskz_loadu_epi16(there, from + i),
                    odd = _mm512_maskz_loadu_epi16(other, from + step + i);
            simd_store(to + i, (simd_vector)_mm512_permutex2var_epi16(even, first, odd));
            if (whole || i + SIMD_LANES < width)
                simd_store(to + i + SIMD_LANES, (simd_vector)_mm512_permutex2var_epi16(even, second, odd));
        }
    }
#else
    (void)to, (void)width, (void)from, (void)step, (void)rows, (void)HS;
#endif
}

/* Queries in lanes of an online softmax. A maximum begins with -FLT_MAX, not minus infinity: a query may see
 * none of the first keys. */
struct tile_queries {
    float max[TILE], total[TILE], keep[TILE]; /* keep: the factor for earlier sums */
};

/* One step of it over scores (to, TILE), keys in rows, for the lanes from `lane` on: rows from `from` on
 * become 2^(unit · (score − max)): 1 for the largest, also where unit · score is too large to be exact. */
static inline void tile_softmax(float *scores, float unit, struct tile_queries *q, int lane, int from, int to)
{
    const simd_vector least = (simd_vector){0} - INFINITY;
    float *column = scores + lane;
    simd_vector before = simd_load(q->max + lane), top[TILE_ROWS] = {least, least, least, least};
    int c = from;
    for (; c + TILE_ROWS <= to; c += TILE_ROWS)
#pragma GCC unroll 4
        for (int v = 0; v < TILE_ROWS; v++)
            top[v] = simd_greater(simd_load(column + (ptrdiff_t)(c + v) * TILE), top[v]);
    for (; c < to; c++) top[0] = simd_greater(simd_load(column + (ptrdiff_t)c * TILE), top[0]);
    top[0] = simd_greater(simd_greater(top[0], top[1]), simd_greater(top[2], top[3]));
    simd_vector max = simd_greater(top[0], before), keep = real_exp2((before - max) * unit),
                total = simd_load(q->total + lane) * keep;
#pragma GCC unroll 4
    for (c = from; c < to; c++) {
        simd_vector e = real_exp2((simd_load(column + (ptrdiff_t)c * TILE) - max) * unit);
        simd_store(column + (ptrdiff_t)c * TILE, e);
        total += e;
    }
    simd_store(q->keep + lane, keep);
    simd_store(q->max + lane, max);
    simd_store(q->total + lane, total);
}

/* x (TILE, TILE) becomes words of two rows, (TILE/2, TILE), rounded; rows from `rows` on are zeros. plain:
 * the rows in bf16, too, if it is not NULL. */
static inline void tile_round_pairs(float *x, real *plain, int rows)
{
#ifdef __AVX512BF16__
    for (int r = 0; r < rows; r += 2)
        for (int i = 0; i < TILE; i += SIMD_LANES) {
            const float *at = x + (ptrdiff_t)r * TILE + i;
            simd_vector two[2] = {simd_load(at), r + 1 < rows ? simd_load(at + TILE) : (simd_vector){0}};
            real_store_two((real *)(x + (ptrdiff_t)(r / 2) * TILE + i), two);
            if (!plain) continue;
            real_store(plain + (ptrdiff_t)r * TILE + i, two[0]);
            real_store(plain + (ptrdiff_t)(r + 1) * TILE + i, two[1]);
        }
#else
    (void)x, (void)plain, (void)rows;
#endif
}

#endif
