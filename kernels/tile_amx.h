/* Products of small tiles with AMX: the inner loops of attention. Private to the CPU twins.
 *
 * A left operand is rows in bf16 whose steps of k lie one after the other; a right one is words of two steps,
 * as in tile.h. What is summed over rows of a head therefore needs these rows transposed on the left, and its
 * result is transposed, too. Rows, columns and steps are in whole blocks of TILE_AMX; those that do not exist
 * must be finite on one side and 0 on the other. */
#ifndef ANNEAL_KERNELS_TILE_AMX_H
#define ANNEAL_KERNELS_TILE_AMX_H

#include "kernels/amx.h"
#include "kernels/tile.h"

enum { TILE_AMX = 32 };

static inline int whole_blocks(int rows)
{
    return (rows + TILE_AMX - 1) / TILE_AMX * TILE_AMX;
}

/* A left operand. */
struct tile_rows {
    const void *at;
    ptrdiff_t step; /* bytes from a row to the next */
};

#if defined(KERNELS_BF16) && defined(__AMX_BF16__)

/* c (M,N) = or += a (M,K) b (K,N), in whole blocks. */
static inline void tile_amx(float *c, int ldc, struct tile_rows a, const float *b, int ldb, int M, int N,
                            int K, bool add)
{
    M = whole_blocks(M), N = whole_blocks(N), K = whole_blocks(K);
    for (int m = 0; m < M; m += TILE_AMX)
        for (int n = 0; n < N; n += TILE_AMX) {
            const char *rows = (const char *)a.at + m * a.step;
            const float *words = b + n;
            amx_load(c + (ptrdiff_t)m * ldc + n, ldc, !add);
            for (int k = 0; k < K; k += TILE_AMX, rows += 2 * TILE_AMX, words += (ptrdiff_t)AMX_WORDS * ldb)
                amx_step(rows, a.step, (const char *)words, (ptrdiff_t)ldb * 4);
            amx_store(c + (ptrdiff_t)m * ldc + n, ldc);
        }
}

/* to (HS, TILE) = rows of a head, transposed. */
static inline struct tile_rows tile_transpose(void *to, const real *from, ptrdiff_t step, int rows, int HS)
{
    const struct lines x = {(const char *)from, 2, step * 2, 2};
    for (int line = 0; line < HS; line += TILE_AMX)
        for (int k = 0; k < whole_blocks(rows); k += TILE_AMX)
            amx_transpose((real *)to + line * TILE + k, TILE * 2, &x, line, k, TILE_AMX, rows - k);
    return (struct tile_rows){to, TILE * 2};
}

/* Rows of a head where they are or, if they are not in whole blocks, in `spare`. */
static inline struct tile_rows tile_rows_of(void *spare, const real *from, ptrdiff_t step, int rows, int HS)
{
    if (rows % TILE_AMX == 0) return (struct tile_rows){from, step * 2};
    for (int r = 0; r < whole_blocks(rows); r++) {
        real *to = (real *)spare + (ptrdiff_t)r * HS;
        if (r < rows)
            memcpy(to, from + r * step, (size_t)HS * sizeof *to);
        else
            memset(to, 0, (size_t)HS * sizeof *to);
    }
    return (struct tile_rows){spare, (ptrdiff_t)HS * 2};
}

/* x (HS, TILE) *= factor of each column */
static inline void tile_scale(float *x, const float *factor, int HS)
{
    simd_vector f[TILE / 16];
    bool one = true;
    for (int i = 0; i < TILE / SIMD_LANES; i++) {
        f[i] = simd_load(factor + i * SIMD_LANES);
        one = one && _mm512_cmpneq_ps_mask((__m512)f[i], _mm512_set1_ps(1)) == 0;
    }
    for (int r = 0; !one && r < HS; r++)
        for (int i = 0; i < TILE / SIMD_LANES; i++) {
            float *at = x + r * TILE + i * SIMD_LANES;
            simd_store(at, simd_load(at) * f[i]);
        }
}

/* out (rows, HS) = x (HS, TILE), transposed, rounded. Overwrites x. */
static inline void tile_store_transposed(real *out, ptrdiff_t step, float *x, int rows, int HS)
{
    tile_round_pairs(x, NULL, HS);
    const uint32_t *words = (const uint32_t *)x;
    for (int r = 0; r < rows; r += SIMD_LANES)
        for (int w = 0; w < HS / 2; w += 4) {
            real *to = out + r * step + 2 * w;
            uint32_t spare[SIMD_LANES * 4];
            __m512i q[4];
            for (int i = 0; i < 4; i++) q[i] = _mm512_loadu_si512(words + (w + i) * TILE + r);
            if (rows - r >= SIMD_LANES)
                amx_store_words(to, step * 2, 4, q);
            else
                amx_store_words(spare, 16, 4, q);
            for (int i = 0; i < rows - r && rows - r < SIMD_LANES; i++)
                memcpy(to + i * step, spare + 4 * i, 16);
        }
}

/* to (columns, HS) = x (HS, TILE), transposed; columns: whole vectors */
static inline void tile_columns(float *to, const float *x, int columns, int HS)
{
    for (int c = 0; c < columns; c += SIMD_LANES)
        for (int r = 0; r < HS; r += 4) {
            __m512i q[4];
            for (int i = 0; i < 4; i++) q[i] = _mm512_loadu_si512(x + (ptrdiff_t)(r + i) * TILE + c);
            amx_store_words(to + (ptrdiff_t)c * HS + r, (ptrdiff_t)HS * 4, 4, q);
        }
}

#else

static inline void tile_columns(float *to, const float *x, int columns, int HS)
{
    (void)to, (void)x, (void)columns, (void)HS;
}

static inline void tile_amx(float *c, int ldc, struct tile_rows a, const float *b, int ldb, int M, int N,
                            int K, bool add)
{
    (void)c, (void)ldc, (void)a, (void)b, (void)ldb, (void)M, (void)N, (void)K, (void)add;
}

static inline struct tile_rows tile_transpose(void *to, const real *from, ptrdiff_t step, int rows, int HS)
{
    (void)from, (void)step, (void)rows, (void)HS;
    return (struct tile_rows){to, 0};
}

static inline struct tile_rows tile_rows_of(void *spare, const real *from, ptrdiff_t step, int rows, int HS)
{
    (void)spare, (void)rows, (void)HS;
    return (struct tile_rows){from, step};
}

static inline void tile_scale(float *x, const float *factor, int HS)
{
    (void)x, (void)factor, (void)HS;
}

static inline void tile_store_transposed(real *out, ptrdiff_t step, float *x, int rows, int HS)
{
    (void)out, (void)step, (void)x, (void)rows, (void)HS;
}

#endif
#endif
