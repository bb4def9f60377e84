/* See plain_sgemm.h. Blocks of op(a) and op(b) are packed into panels, of a in the second-level cache and of
 * b in the third, and multiplied in tiles of ROWS × COLUMNS that stay in registers: the scheme of Goto and
 * van de Geijn, "Anatomy of high-performance matrix multiplication" (2008). */
#include "tests/gpu/plain_sgemm.h"

#include <stddef.h>
#include <string.h>

#include "kernels/simd.h"

enum {
    ROWS = 6,                 /* 12 accumulators leave room for a row of b and a broadcast in 16 registers */
    COLUMNS = 2 * SIMD_LANES, /* two vectors */
    DEEP = 256,               /* of K at a time */
    BLOCK_M = 16 * ROWS,      /* 96 KB of a */
    BLOCK_N = 256             /* 256 KB of b; a multiple of COLUMNS */
};

/* Panels of `width` rows of x, laid out (deep, width); rows past the end are zeros. Element (i, k) of x is
 * x[i * row_step + k * depth_step]. */
static void pack(float *to, const float *x, size_t row_step, size_t depth_step, int rows, int deep, int width)
{
    for (int i = 0; i < rows; i += width)
        for (int k = 0; k < deep; k++)
            for (int r = 0; r < width; r++)
                *to++ = i + r < rows ? x[(size_t)(i + r) * row_step + (size_t)k * depth_step] : 0;
}

/* tile (ROWS,COLUMNS) = panel of a (deep,ROWS) times panel of b (deep,COLUMNS) */
static void multiply(float *tile, const float *a, const float *b, int deep)
{
    simd_vector sum[ROWS][2];
    memset(sum, 0, sizeof sum);
    for (int k = 0; k < deep; k++, a += ROWS, b += COLUMNS) {
        simd_vector b0 = simd_load(b), b1 = simd_load(b + SIMD_LANES);
#pragma GCC unroll 6
        for (int r = 0; r < ROWS; r++) {
            sum[r][0] += a[r] * b0;
            sum[r][1] += a[r] * b1;
        }
    }
    for (int r = 0; r < ROWS; r++) {
        simd_store(tile + r * COLUMNS, sum[r][0]);
        simd_store(tile + r * COLUMNS + SIMD_LANES, sum[r][1]);
    }
}

/* The part of a tile that lies within out. */
static void put(float *out, int ldo, const float *tile, int rows, int columns, bool add)
{
    for (int r = 0; r < rows; r++) {
        float *to = out + (size_t)r * (size_t)ldo;
        const float *from = tile + r * COLUMNS;
        for (int c = 0; c < columns; c++) to[c] = add ? to[c] + from[c] : from[c];
    }
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

void plain_sgemm(bool transpose_a, bool transpose_b, int M, int N, int K, const float *a, int lda,
                 const float *b, int ldb, bool accumulate, float *out, int ldo)
{
    float panel_a[BLOCK_M * DEEP], panel_b[BLOCK_N * DEEP], tile[ROWS * COLUMNS];
    size_t a_row = transpose_a ? 1 : (size_t)lda, a_depth = transpose_a ? (size_t)lda : 1;
    size_t b_column = transpose_b ? (size_t)ldb : 1, b_depth = transpose_b ? 1 : (size_t)ldb;
    for (int n = 0; n < N; n += BLOCK_N)
        for (int k = 0; k < K; k += DEEP) {
            int columns = least(BLOCK_N, N - n), deep = least(DEEP, K - k);
            pack(panel_b, b + (size_t)n * b_column + (size_t)k * b_depth, b_column, b_depth, columns, deep,
                 COLUMNS);
            for (int m = 0; m < M; m += BLOCK_M) {
                int rows = least(BLOCK_M, M - m);
                pack(panel_a, a + (size_t)m * a_row + (size_t)k * a_depth, a_row, a_depth, rows, deep, ROWS);
                for (int j = 0; j < columns; j += COLUMNS)
                    for (int i = 0; i < rows; i += ROWS) {
                        multiply(tile, panel_a + (size_t)i * (size_t)deep, panel_b + (size_t)j * (size_t)deep,
                                 deep);
                        put(out + (size_t)(m + i) * (size_t)ldo + n + j, ldo, tile, least(ROWS, rows - i),
                            least(COLUMNS, columns - j), accumulate || k > 0);
                    }
            }
        }
}
