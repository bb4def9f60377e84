/* See bf16_product.h. Empty but in the table for bf16 (see KERNEL_SRC in the Makefile).
 *
 * The instruction vdpbf16ps adds to each of 16 sums in fp32 the products of two steps of k. So both operands
 * are copied to where a word holds two steps: b in blocks that stay in the second-level cache, a in strips of
 * ROWS rows that stay in the first. A tile of ROWS by COLUMNS sums is in registers, 28 of the 32. Per pair of
 * steps it takes 28 multiplications and loads 14 words and two vectors. */
#ifdef KERNELS_BF16
#include "kernels/bf16_product.h"

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LANES = 16,
    ROWS = 14,
    COLUMNS = 2 * LANES,
    STEPS = 768,     /* of k at a time, at most: a strip of a is 21 KiB */
    BLOCK = 384,     /* columns of b at a time, at most: 576 KiB */
    SUMS = 342 * 384 /* of a part of out, where they are kept until all steps are done: 513 KiB */
};

/* An operand as lines, which are rows of op(a) or columns of op(b). */
struct lines {
    const uint16_t *at;
    ptrdiff_t line, step; /* elements from a line to the next, and from a step of k to the next; one is 1 */
};

static struct lines lines_from(struct lines x, int line, int step)
{
    x.at += line * x.line + step * x.step;
    return x;
}

static __mmask32 mask_of(int n)
{
    return n >= 32 ? ~0u : (1u << n) - 1;
}

/* Transposes 16 by 16 words. */
static inline void transpose(__m512i x[LANES])
{
    __m512i y[LANES];
    for (int i = 0; i < 8; i++) {
        y[2 * i] = _mm512_unpacklo_epi32(x[2 * i], x[2 * i + 1]);
        y[2 * i + 1] = _mm512_unpackhi_epi32(x[2 * i], x[2 * i + 1]);
    }
    for (int i = 0; i < 16; i += 4)
        for (int j = 0; j < 2; j++) {
            x[i + 2 * j] = _mm512_unpacklo_epi64(y[i + j], y[i + j + 2]);
            x[i + 2 * j + 1] = _mm512_unpackhi_epi64(y[i + j], y[i + j + 2]);
        }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 2; j++) {
            y[i + 8 * j] = _mm512_shuffle_i32x4(x[i + 8 * j], x[i + 8 * j + 4], 0x88);
            y[i + 8 * j + 4] = _mm512_shuffle_i32x4(x[i + 8 * j], x[i + 8 * j + 4], 0xdd);
        }
    for (int i = 0; i < 8; i++) {
        x[i] = _mm512_shuffle_i32x4(y[i], y[i + 8], 0x88);
        x[i + 8] = _mm512_shuffle_i32x4(y[i], y[i + 8], 0xdd);
    }
}

/* Sixteen or fewer lines that are rows in memory, as words of two steps each: out (steps/2, stride). */
static void pack_rows(uint32_t *out, int stride, __mmask16 stored, struct lines x, int count, int steps)
{
    for (int k = 0; k < steps; k += 2 * LANES) {
        __mmask32 left = mask_of(steps - k);
        __m512i words[LANES];
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++)
            words[i] =
                i < count ? _mm512_maskz_loadu_epi16(left, x.at + i * x.line + k) : _mm512_setzero_si512();
        transpose(words);
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++)
            if (k + 2 * i < steps)
                _mm512_mask_storeu_epi32(out + (ptrdiff_t)(k / 2 + i) * stride, stored, words[i]);
    }
}

/* Elements of a row in memory, at most 16 or 32: a vector that is wider than needed crosses cache lines. */
static inline __m512i load_row(const uint16_t *x, int width, __mmask32 exist)
{
    return width > LANES ? _mm512_maskz_loadu_epi16(exist, x)
                         : _mm512_castsi256_si512(_mm256_maskz_loadu_epi16((__mmask16)exist, x));
}

/* Lines that are columns in memory: two rows are interleaved. */
static void pack_columns(uint32_t *out, int width, struct lines x, int count, int steps)
{
    uint16_t index[2 * LANES]; /* of a permutation: elements of `odd` are 32 and up */
    for (int i = 0; i < 2 * LANES; i++) index[i] = (uint16_t)(i / 2 + i % 2 * 32);
    __m512i low = _mm512_loadu_si512(index), high = _mm512_add_epi16(low, _mm512_set1_epi16(LANES));
    __mmask32 exist = mask_of(count), stored = mask_of(width);
    for (int k = 0; k < steps; k += 2, out += width) {
        const uint16_t *at = x.at + k * x.step;
        __m512i even = load_row(at, width, exist),
                odd = load_row(at + x.step, width, k + 1 < steps ? exist : 0);
        _mm512_mask_storeu_epi32(out, (__mmask16)stored, _mm512_permutex2var_epi16(even, low, odd));
        if (width > LANES) _mm512_storeu_si512(out + LANES, _mm512_permutex2var_epi16(even, high, odd));
    }
}

/* out (pairs of steps, width) = a word for each pair of steps and each line; those of `count` lines and of
 * `steps` steps that do not exist are 0. width: ROWS or COLUMNS. */
static void pack(uint32_t *out, int width, struct lines x, int count, int steps)
{
    if (x.line == 1) {
        pack_columns(out, width, x, count, steps);
        return;
    }
    for (int i = 0; i < width; i += LANES)
        pack_rows(out + i, width, (__mmask16)mask_of(width - i), lines_from(x, i, 0), count - i, steps);
}

/* Where the sums of a tile go. */
struct target {
    struct matrix out;
    bool add; /* to what is in out */
    float factor;
    const float *before; /* sums to begin with; NULL: zeros */
    ptrdiff_t stride;    /* of before */
};

static inline void store_vector(void *at, enum element element, __m512 x, __mmask16 mask, bool add)
{
    if (element == ELEMENT_FP32) {
        if (add) x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(mask, at));
        _mm512_mask_storeu_ps(at, mask, x);
        return;
    }
    if (add) {
        __m512i before = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, at));
        x = _mm512_add_ps(x, _mm512_castsi512_ps(_mm512_slli_epi32(before, 16)));
    }
    _mm256_mask_storeu_epi16(at, mask, (__m256i)_mm512_cvtneps_pbh(x));
}

/* The product of a strip of a and COLUMNS columns of a block of b; rows and columns: those that exist. */
static void multiply_tile(struct target t, const uint32_t *a, const uint32_t *b, int pairs, int rows,
                          int columns)
{
    __m512 sum[ROWS][2];
#pragma GCC unroll 14
    for (int r = 0; r < ROWS; r++) {
        bool more = t.before != NULL && r < rows;
        sum[r][0] = more ? _mm512_load_ps(t.before + r * t.stride) : _mm512_setzero_ps();
        sum[r][1] = more ? _mm512_load_ps(t.before + r * t.stride + LANES) : _mm512_setzero_ps();
    }
    for (int k = 0; k < pairs; k++, a += ROWS, b += COLUMNS) {
        __m512bh b0 = (__m512bh)_mm512_load_si512(b), b1 = (__m512bh)_mm512_load_si512(b + LANES);
#pragma GCC unroll 14
        for (int r = 0; r < ROWS; r++) {
            __m512bh x = (__m512bh)_mm512_set1_epi32((int)a[r]);
            sum[r][0] = _mm512_dpbf16_ps(sum[r][0], x, b0);
            sum[r][1] = _mm512_dpbf16_ps(sum[r][1], x, b1);
        }
    }
    __mmask32 mask = mask_of(columns);
    __m512 factor = _mm512_set1_ps(t.factor);
    size_t bytes = element_bytes(t.out.element);
    char *at = t.out.at;
#pragma GCC unroll 14
    for (int r = 0; r < ROWS; r++) {
        if (r == rows) break;
        store_vector(at, t.out.element, _mm512_mul_ps(sum[r][0], factor), (__mmask16)mask, t.add);
        if (columns > LANES)
            store_vector(at + LANES * bytes, t.out.element, _mm512_mul_ps(sum[r][1], factor),
                         (__mmask16)(mask >> LANES), t.add);
        at += (size_t)t.out.stride * bytes;
    }
}

static inline int least(int a, int b)
{
    return a < b ? a : b;
}

static inline int rounded_up(int n, int unit)
{
    return (n + unit - 1) / unit * unit;
}

struct product {
    struct matrix out;
    struct lines a, b;
    int K, steps, width; /* steps of k and columns of out at a time */
    bool accumulate;
    float factor;
    float
        *sums; /* rows of `width`: the sums of a part of out, until all steps are done; NULL: out has them */
};

/* For the tile at (m, n) of out with the steps from k on. `kept`: its sums, if p->sums is not NULL. */
static struct target target_of(const struct product *p, int m, int n, int k, float *kept)
{
    size_t at = (size_t)m * (size_t)p->out.stride + (size_t)n;
    struct target t = {p->out, p->accumulate, p->factor, NULL, p->width};
    t.out.at = (char *)p->out.at + at * element_bytes(p->out.element);
    if (p->sums == NULL) {
        t.add |= k > 0;
        return t;
    }
    if (k > 0) t.before = kept;
    if (k + p->steps < p->K) t.out = matrix_view(kept, ELEMENT_FP32, p->width), t.add = false, t.factor = 1;
    return t;
}

/* Rows [m0, m1) and columns [n0, n1) of out, with the steps from k on. */
static void multiply_block(const struct product *p, int m0, int m1, int n0, int n1, int k)
{
    _Alignas(64) uint32_t block[BLOCK * STEPS / 2], strip[ROWS * STEPS / 2];
    int steps = least(p->K - k, p->steps), pairs = (steps + 1) / 2;
    for (int n = n0; n < n1; n += COLUMNS)
        pack(block + (ptrdiff_t)(n - n0) * pairs, COLUMNS, lines_from(p->b, n, k), least(n1 - n, COLUMNS),
             steps);
    for (int m = m0; m < m1; m += ROWS) {
        pack(strip, ROWS, lines_from(p->a, m, k), least(m1 - m, ROWS), steps);
        for (int n = n0; n < n1; n += COLUMNS) {
            float *kept = p->sums ? p->sums + (ptrdiff_t)(m - m0) * p->width + (n - n0) : NULL;
            multiply_tile(target_of(p, m, n, k, kept), strip, block + (ptrdiff_t)(n - n0) * pairs, pairs,
                          least(m1 - m, ROWS), least(n1 - n, COLUMNS));
        }
    }
}

void bf16_product(struct matrix out, struct matrix a, struct matrix b, int M, int N, int K, bool transpose_a,
                  bool transpose_b, bool accumulate, float factor)
{
    _Alignas(64) float sums[SUMS];
    int blocks = (K + STEPS - 1) / STEPS, steps = rounded_up((K + blocks - 1) / blocks, 2 * LANES);
    int width = least(BLOCK, rounded_up(N, COLUMNS));
    /* An element in bf16 is rounded once, so its sum over several blocks of steps is kept in fp32. */
    bool beside = out.element == ELEMENT_BF16 && blocks > 1;
    int height = beside ? SUMS / width : M;
    const struct product p = {out,
                              {a.at, transpose_a ? 1 : a.stride, transpose_a ? a.stride : 1},
                              {b.at, transpose_b ? b.stride : 1, transpose_b ? 1 : b.stride},
                              K,
                              steps,
                              width,
                              accumulate,
                              factor,
                              beside ? sums : NULL};
    for (int n = 0; n < N; n += width)
        for (int m = 0; m < M; m += height)
            for (int k = 0; k < K; k += steps)
                multiply_block(&p, m, least(M, m + height), n, least(N, n + width), k);
}

#endif
