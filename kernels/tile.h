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

#if SIMD_LANES == 16 || defined(__aarch64__)
#define TILE_VECTORS 4
#else
#define TILE_VECTORS 2
#endif

/* The part of a product on the diagonal of a causal mask that is needed. Row r of the result has the same
 * position as column r or step r. Computing stops at multiples of four rows and 16 columns, so more is
 * computed. */
enum tile_part {
    TILE_ALL,
    TILE_COLUMNS_TO_ROW,   /* columns n <= r */
    TILE_COLUMNS_FROM_ROW, /* columns n >= r */
    TILE_STEPS_TO_ROW,     /* steps k <= r */
    TILE_STEPS_FROM_ROW,   /* steps k >= r */
};

/* One operand a: element (r, k) is data[r * row_step + k * k_step]; rows from `rows` on repeat the last. */
struct tile_operand {
    const float *data;
    ptrdiff_t row_step, k_step;
    int rows;
};

__attribute__((always_inline)) static inline void tile_block(int vectors, float *c, ptrdiff_t ldc,
                                                             const float *const a[4], ptrdiff_t k_step,
                                                             const float *b, ptrdiff_t ldb, int K,
                                                             bool accumulate)
{
    simd_vector sum[4][TILE_VECTORS];
#pragma GCC unroll 4
    for (int r = 0; r < 4; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            sum[r][v] = accumulate ? simd_load(c + r * ldc + v * SIMD_LANES) : (simd_vector){0};
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
    for (int r = 0; r < 4; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) simd_store(c + r * ldc + v * SIMD_LANES, sum[r][v]);
}

/* c (M,N) = or += a (M,K) b (K,N). M is rounded up to a multiple of four and N to one of 16, which c (row
 * length ldc) and b (row length ldb) must have room for. */
static inline void tile_multiply(float *c, int ldc, struct tile_operand a, const float *b, int ldb, int M,
                                 int N, int K, bool accumulate, enum tile_part part)
{
    N = (N + 15) / 16 * 16;
    for (int r = 0; r < M; r += 4) {
        int n = 0, n_end = N, k = 0, k_end = K;
        if (part == TILE_COLUMNS_TO_ROW && n_end > (r + 19) / 16 * 16) n_end = (r + 19) / 16 * 16;
        if (part == TILE_COLUMNS_FROM_ROW) n = r / 16 * 16;
        if (part == TILE_STEPS_TO_ROW && k_end > r + 4) k_end = r + 4;
        if (part == TILE_STEPS_FROM_ROW) k = r;
        const float *rows[4];
        for (int i = 0; i < 4; i++)
            rows[i] = a.data + (r + i < a.rows ? r + i : a.rows - 1) * a.row_step + k * a.k_step;
        float *out = c + (ptrdiff_t)r * ldc;
        const float *steps = b + (ptrdiff_t)k * ldb;
        for (; n + TILE_VECTORS * SIMD_LANES <= n_end; n += TILE_VECTORS * SIMD_LANES)
            tile_block(TILE_VECTORS, out + n, ldc, rows, a.k_step, steps + n, ldb, k_end - k, accumulate);
#if TILE_VECTORS * SIMD_LANES > 16
        switch ((n_end - n) / SIMD_LANES) {
        case 3:
            tile_block(3, out + n, ldc, rows, a.k_step, steps + n, ldb, k_end - k, accumulate);
            break;
        case 2:
            tile_block(2, out + n, ldc, rows, a.k_step, steps + n, ldb, k_end - k, accumulate);
            break;
        case 1:
            tile_block(1, out + n, ldc, rows, a.k_step, steps + n, ldb, k_end - k, accumulate);
            break;
        default:
            break;
        }
#endif
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

/* to (HS, TILE) = scale · transpose of from (rows, HS; row length `step`), with zeros in columns [rows,
 * TILE). */
static inline void tile_transpose(float *to, const real *from, ptrdiff_t step, int rows, int HS, float scale)
{
    int r = 0;
    for (; r + 4 <= rows; r += 4) {
        const real *source = from + r * step;
        int i = 0;
        for (; i + 4 <= HS; i += 4) {
            four x0 = real_four(source + i), x1 = real_four(source + step + i);
            four x2 = real_four(source + 2 * step + i), x3 = real_four(source + 3 * step + i);
            four y0 = __builtin_shufflevector(x0, x1, 0, 4, 1, 5),
                 y1 = __builtin_shufflevector(x0, x1, 2, 6, 3, 7);
            four y2 = __builtin_shufflevector(x2, x3, 0, 4, 1, 5),
                 y3 = __builtin_shufflevector(x2, x3, 2, 6, 3, 7);
            float *target = to + (ptrdiff_t)i * TILE + r;
            *(four *)target = __builtin_shufflevector(y0, y2, 0, 1, 4, 5) * scale;
            *(four *)(target + TILE) = __builtin_shufflevector(y0, y2, 2, 3, 6, 7) * scale;
            *(four *)(target + 2 * TILE) = __builtin_shufflevector(y1, y3, 0, 1, 4, 5) * scale;
            *(four *)(target + 3 * TILE) = __builtin_shufflevector(y1, y3, 2, 3, 6, 7) * scale;
        }
        for (; i < HS; i++)
            for (int j = 0; j < 4; j++)
                to[(ptrdiff_t)i * TILE + r + j] = widened(source[j * step + i]) * scale;
    }
    for (; r < TILE; r++)
        for (int i = 0; i < HS; i++)
            to[(ptrdiff_t)i * TILE + r] = r < rows ? widened(from[r * step + i]) * scale : 0.0f;
}

#endif
