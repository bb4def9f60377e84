/* Products of small tiles that are in the first- or second-level cache: the inner loops of attention. Private
 * to the CPU twins.
 *
 * tile_multiply computes four rows by TILE_VECTORS vectors of the result at a time: 16 sums in registers with
 * the 32 registers of AVX-512 or NEON, 8 sums with 16 registers, enough to hide a latency of four cycles with
 * two multiply-adds per cycle. Per step it loads TILE_VECTORS vectors of b and four numbers of a. */
#ifndef ANNEAL_KERNELS_TILE_H
#define ANNEAL_KERNELS_TILE_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/device/cpu_device.h"
#include "kernels/real.h"

#define TILE ATTENTION_TILE /* 64 x 64 floats are 16 KiB: three tiles share a first-level cache */

/* Rows that are computed together. A tile has TILE_GROUPS of them. */
enum { TILE_ROWS = 4, TILE_GROUPS = TILE / TILE_ROWS };

#if SIMD_LANES == 16 || defined(__aarch64__)
#define TILE_VECTORS 4
#else
#define TILE_VECTORS 2
#endif

/* One operand a: element (r, k) is data[r * row_step + k * k_step]; rows from `rows` on repeat the last. */
struct tile_operand {
    const float *data;
    ptrdiff_t row_step, k_step;
    int rows;
};

/* Columns or steps [from, to). */
struct tile_span {
    int from, to;
};

/* `count` rows of `bytes` that are needed soon: each group of rows of a product fetches as many of them into
 * the second-level cache. Rows of a head are far from each other in memory, so the processor does not guess
 * them. */
struct tile_ahead {
    const void *rows;
    ptrdiff_t step; /* bytes from a row to the next */
    int count, bytes;
};

/* How a product is computed. */
struct tile_how {
    bool add;                        /* to what is in c */
    const float *keep;               /* with add: the factor of what is in each row of c; NULL: 1 */
    const struct tile_span *columns; /* of each group of rows, those needed; NULL: all */
    const struct tile_span *steps;   /* of each group of rows, those that are not 0; NULL: all */
    const struct tile_ahead *ahead;  /* two; NULL: none */
};

__attribute__((always_inline)) static inline void tile_block(int vectors, float *c, ptrdiff_t ldc,
                                                             const float *const a[TILE_ROWS],
                                                             ptrdiff_t k_step, const float *b, ptrdiff_t ldb,
                                                             int K, bool add, const float *keep)
{
    simd_vector sum[TILE_ROWS][TILE_VECTORS];
#pragma GCC unroll 4
    for (int r = 0; r < TILE_ROWS; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            sum[r][v] = add ? simd_load(c + r * ldc + v * SIMD_LANES) : (simd_vector){0};
            if (keep) sum[r][v] *= keep[r];
        }
    const float *a0 = a[0], *a1 = a[1], *a2 = a[2], *a3 = a[3];
    for (int k = 0; k < K; k++) {
        const float *bk = b + k * ldb;
        ptrdiff_t at = k * k_step;
        float x0 = a0[at], x1 = a1[at], x2 = a2[at], x3 = a3[at];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            simd_vector y = simd_load(bk + v * SIMD_LANES);
            sum[0][v] += x0 * y;
            sum[1][v] += x1 * y;
            sum[2][v] += x2 * y;
            sum[3][v] += x3 * y;
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < TILE_ROWS; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) simd_store(c + r * ldc + v * SIMD_LANES, sum[r][v]);
}

static inline void tile_fetch(const struct tile_ahead *ahead, int row)
{
    for (int i = 0; ahead && i < 2; i++, ahead++)
        for (int r = row; r < row + TILE_ROWS && r < ahead->count; r++)
            for (int at = 0; at < ahead->bytes; at += 64)
                __builtin_prefetch((const char *)ahead->rows + r * ahead->step + at, 0, 2);
}

/* c (M,N) = or += a (M,K) b (K,N). M is rounded up to whole groups and N to whole vectors, which c (row
 * length ldc) and b (row length ldb) must have room for. */
static inline void tile_multiply(float *c, int ldc, struct tile_operand a, const float *b, int ldb, int M,
                                 int N, int K, struct tile_how how)
{
    for (int r = 0; r < M; r += TILE_ROWS) {
        struct tile_span n = how.columns ? how.columns[r / TILE_ROWS] : (struct tile_span){0, N};
        struct tile_span k = how.steps ? how.steps[r / TILE_ROWS] : (struct tile_span){0, K};
        const float *rows[TILE_ROWS], *keep = how.keep ? how.keep + r : NULL;
        for (int i = 0; i < TILE_ROWS; i++)
            rows[i] = a.data + (r + i < a.rows ? r + i : a.rows - 1) * a.row_step + k.from * a.k_step;
        float *out = c + (ptrdiff_t)r * ldc;
        const float *steps = b + (ptrdiff_t)k.from * ldb;
        tile_fetch(how.ahead, r);
        int at = n.from / SIMD_LANES * SIMD_LANES;
        for (int left; (left = (n.to - at + SIMD_LANES - 1) / SIMD_LANES) > 0;) {
            /* few vectors do not hide the latency: rather three and two than four and one */
            int vectors = left >= 2 * TILE_VECTORS || left == TILE_VECTORS ? TILE_VECTORS
                          : left > TILE_VECTORS                            ? (left + 1) / 2
                                                                           : left;
            switch (vectors) {
#if TILE_VECTORS > 2
            case 4:
                tile_block(4, out + at, ldc, rows, a.k_step, steps + at, ldb, k.to - k.from, how.add, keep);
                break;
            case 3:
                tile_block(3, out + at, ldc, rows, a.k_step, steps + at, ldb, k.to - k.from, how.add, keep);
                break;
#endif
            case 2:
                tile_block(2, out + at, ldc, rows, a.k_step, steps + at, ldb, k.to - k.from, how.add, keep);
                break;
            default:
                tile_block(1, out + at, ldc, rows, a.k_step, steps + at, ldb, k.to - k.from, how.add, keep);
            }
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

/* The rows of x (rows, HS; row length `step`) as an operand: where they are, or copied to `wide` (rows,
 * width). */
static inline struct tile_operand tile_rows_of(float *wide, int width, const real *x, ptrdiff_t step,
                                               int rows, int HS)
{
#ifdef KERNELS_BF16
    tile_copy(wide, width, x, step, rows, HS);
    return (struct tile_operand){wide, width, 1, rows};
#else
    (void)wide, (void)width, (void)HS;
    return (struct tile_operand){x, step, 1, rows};
#endif
}

typedef float four __attribute__((vector_size(16), aligned(4), may_alias));

/* to (width, TILE) = scale · transpose of from (rows, width), with zeros in columns [rows, TILE). */
static inline void tile_transpose(float *to, const float *from, int rows, int width, float scale)
{
    int r = 0;
    for (; r + 4 <= rows; r += 4)
        for (int i = 0; i < width; i += 4) {
            const four *source = (const four *)(from + (ptrdiff_t)r * width + i);
            four x0 = source[0], x1 = source[width / 4], x2 = source[width / 2], x3 = source[width / 4 * 3];
            four y0 = __builtin_shufflevector(x0, x1, 0, 4, 1, 5),
                 y1 = __builtin_shufflevector(x0, x1, 2, 6, 3, 7);
            four y2 = __builtin_shufflevector(x2, x3, 0, 4, 1, 5),
                 y3 = __builtin_shufflevector(x2, x3, 2, 6, 3, 7);
            four *target = (four *)(to + (ptrdiff_t)i * TILE + r);
            target[0] = __builtin_shufflevector(y0, y2, 0, 1, 4, 5) * scale;
            target[TILE / 4] = __builtin_shufflevector(y0, y2, 2, 3, 6, 7) * scale;
            target[TILE / 2] = __builtin_shufflevector(y1, y3, 0, 1, 4, 5) * scale;
            target[TILE / 4 * 3] = __builtin_shufflevector(y1, y3, 2, 3, 6, 7) * scale;
        }
    for (; r < TILE; r++)
        for (int i = 0; i < width; i++)
            to[(ptrdiff_t)i * TILE + r] = r < rows ? from[(ptrdiff_t)r * width + i] * scale : 0.0f;
}

#endif
