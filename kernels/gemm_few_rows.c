/* CPU twin of gemm_few_rows. Its time is that of reading w, so w is read in the order in which it lies in
 * memory, and nothing else may take as long: on one core of a Zen 5, 64 bytes of w arrive every six cycles.
 *
 * One row of x: a row of w at a time, which leaves the prefetching to the processor; bf16 is consumed at half
 * the bytes per cycle, and a prefetch PREFETCH bytes ahead hides what the processor's own does not. More
 * rows: tiles of TILE_ROWS rows of x by TILE_WEIGHTS rows of w, so that every load serves several
 * multiply-adds. A tile reads several rows of w side by side, which the processor's prefetching does not
 * follow well, so the tile asks for the rows of the next one. Of further tiles of x the same rows of w come
 * from the cache.
 *
 * With dot products of pairs (vdpbf16ps), x and w in bf16 are multiplied as they lie in memory, a vector of
 * 32 at a time.
 *
 * With AMX and several rows of x, tiles of w are read as they lie in memory, as the left operand of out
 * transposed; x is packed.
 *
 * NF4: a block of 64 elements at a time is decoded into a buffer and multiplied with all rows of x; with
 * AVX-512 and one row of x it stays in registers. Decoding takes longer than reading codes from a cache. */

#include "kernels/amx.h"
#include "kernels/device/cpu_device.h"
#include "kernels/nf4_decode.h"
#include "kernels/pack.h"
#include "kernels/product.h"
#include "kernels/real.h"

/* All sums of a tile are in registers: 16 of the 32 of AVX-512 and NEON, 8 of 16. */
#if SIMD_LANES == 16 || defined(__aarch64__)
enum { TILE_WEIGHTS = 4 };
#else
enum { TILE_WEIGHTS = 2 };
#endif
enum { TILE_ROWS = 4, CHAINS = 4, PREFETCH = 4096, CACHE_LINE = 64 };

struct product {
    struct matrix out, x, w;
    int M, K;
};

/* w is in fp32 (FLOATS) or bf16, which is widened (HALVES) or, if x is in bf16, too, multiplied as it is
 * (PAIRS).
 */
enum kind { FLOATS, HALVES, PAIRS };

INLINE size_t kind_bytes(enum kind kind)
{
    return kind == FLOATS ? sizeof(float) : sizeof(uint16_t);
}

/* Steps of K in a vector. */
INLINE int kind_steps(enum kind kind)
{
    return kind == PAIRS ? 2 * SIMD_LANES : SIMD_LANES;
}

INLINE simd_vector inputs(const real *x, enum kind kind)
{
    return kind == PAIRS ? simd_load((const float *)x) : real_load(x);
}

INLINE simd_vector weights(const void *w, size_t at, enum kind kind)
{
    const void *from = (const char *)w + at * kind_bytes(kind);
    return kind == HALVES ? simd_load_bf16(from) : simd_load(from);
}

INLINE float weight(const void *w, size_t at, enum kind kind)
{
    return kind == FLOATS ? ((const float *)w)[at] : float_of_bf16(((const uint16_t *)w)[at]);
}

/* Prefetches once for every cache line of w; for nothing in memory that does not exist. */
INLINE void prefetch(const void *w, size_t at, size_t ahead, enum kind kind)
{
    size_t byte = at * kind_bytes(kind);
    if (byte % CACHE_LINE == 0) __builtin_prefetch((const void *)((uintptr_t)w + byte + ahead));
}

/* Σ x w over the `count` elements that fill no vector. Inlined, it would be most of this file's code, and
 * double the time that it takes to compile. */
__attribute__((noinline)) static float dot_rest(const real *x, const void *w, size_t at, int count,
                                                enum kind kind)
{
    float sum = 0;
    for (int k = 0; k < count; k++) sum += widened(x[k]) * weight(w, at + (size_t)k, kind);
    return sum;
}

/* Σ x w over K, in CHAINS sums of every CHAINS-th vector, as one sum would wait for itself. */
INLINE float dot(const real *x, const void *w, int K, enum kind kind)
{
    simd_vector sum[CHAINS] = {{0}};
    const int steps = kind_steps(kind);
    int k = 0;
    for (; k + CHAINS * steps <= K; k += CHAINS * steps)
#pragma GCC unroll 4
        for (int i = 0; i < CHAINS; i++) {
            int at = k + i * steps;
            if (kind != FLOATS) prefetch(w, (size_t)at, PREFETCH, kind);
            sum[i] = words_step(sum[i], inputs(x + at, kind), weights(w, (size_t)at, kind), kind == PAIRS);
        }
    for (; k + steps <= K; k += steps)
        sum[0] = words_step(sum[0], inputs(x + k, kind), weights(w, (size_t)k, kind), kind == PAIRS);
    float rest = k < K ? dot_rest(x + k, w, (size_t)k, K - k, kind) : 0;
    return simd_total((sum[0] + sum[1]) + (sum[2] + sum[3])) + rest;
}

/* out (rows, columns) of that many rows of x and of w. ahead: bytes to the rows of w to prefetch; 0: none. */
INLINE void tile(const int rows, const int columns, enum kind kind, real *out, int out_stride, const real *x,
                 int x_stride, const void *w, int w_stride, int K, size_t ahead)
{
    simd_vector sum[TILE_ROWS][TILE_WEIGHTS];
#pragma GCC unroll 4
    for (int m = 0; m < rows; m++)
#pragma GCC unroll 4
        for (int n = 0; n < columns; n++) sum[m][n] = (simd_vector){0};
    const int steps = kind_steps(kind);
    int k = 0;
    for (; k + steps <= K; k += steps) {
        simd_vector b[TILE_WEIGHTS];
#pragma GCC unroll 4
        for (int n = 0; n < columns; n++) {
            size_t at = (size_t)n * (size_t)w_stride + (size_t)k;
            b[n] = weights(w, at, kind);
            if (ahead) prefetch(w, at, ahead, kind);
        }
#pragma GCC unroll 4
        for (int m = 0; m < rows; m++) {
            simd_vector a = inputs(x + (size_t)m * (size_t)x_stride + k, kind);
#pragma GCC unroll 4
            for (int n = 0; n < columns; n++) sum[m][n] = words_step(sum[m][n], a, b[n], kind == PAIRS);
        }
    }
#pragma GCC unroll 4
    for (int m = 0; m < rows; m++)
#pragma GCC unroll 4
        for (int n = 0; n < columns; n++) {
            float rest = 0;
            if (k < K)
                rest = dot_rest(x + (size_t)m * (size_t)x_stride + k, w,
                                (size_t)n * (size_t)w_stride + (size_t)k, K - k, kind);
            out[(size_t)m * (size_t)out_stride + (size_t)n] = rounded(simd_total(sum[m][n]) + rest);
        }
}

/* All rows of x with `columns` rows of w, from row n on. */
INLINE void strip(const struct product *p, int n, const int columns, enum kind kind)
{
    const void *w = (const char *)p->w.at + (size_t)n * (size_t)p->w.stride * kind_bytes(kind);
    size_t next = (size_t)columns * (size_t)p->w.stride * kind_bytes(kind);
    for (int m = 0; m < p->M; m += TILE_ROWS) {
        real *out = (real *)p->out.at + (size_t)m * (size_t)p->out.stride + (size_t)n;
        const real *x = (const real *)p->x.at + (size_t)m * (size_t)p->x.stride;
        size_t ahead = m == 0 ? next : 0; /* once is enough */
#define TILE(rows) tile(rows, columns, kind, out, p->out.stride, x, p->x.stride, w, p->w.stride, p->K, ahead)
        switch (p->M - m) {
        case 1:
            TILE(1);
            break;
        case 2:
            TILE(2);
            break;
        case 3:
            TILE(3);
            break;
        default:
            TILE(TILE_ROWS);
            break;
        }
#undef TILE
    }
}

/* Columns [n, end) of out. */
INLINE void columns(const struct product *p, int n, int end, enum kind kind)
{
    if (p->M == 1)
        for (; n < end; n++)
            ((real *)p->out.at)[n] = rounded(
                dot(p->x.at, (const char *)p->w.at + (size_t)n * (size_t)p->w.stride * kind_bytes(kind), p->K,
                    kind));
    for (; n + TILE_WEIGHTS <= end; n += TILE_WEIGHTS) strip(p, n, TILE_WEIGHTS, kind);
    for (; n < end; n++) strip(p, n, 1, kind);
}

/* ---- AMX ---- */

#if defined(KERNELS_BF16) && defined(__AMX_BF16__)

/* Columns of x transposed, at least FEW_ROWS_MAX, and columns of out: as many as a tile has. */
enum { AMX_LANES = 16 };

static bool amx_can(const struct product *p, const struct stream *stream)
{
    return stream->product_way == WAY_AMX && p->w.element == ELEMENT_BF16 && p->M > 1 &&
           p->K % (2 * AMX_WORDS) == 0 && (size_t)p->K / 2 * AMX_LANES * sizeof(uint32_t) <= product_bytes();
}

/* Columns [n, n + AMX_LANES) of out from their sums (AMX_LANES, AMX_LANES). */
static void amx_finish(const struct product *p, int n, const float *sums)
{
    _Alignas(64) uint32_t rows[AMX_LANES][AMX_LANES / 2];
    for (int w = 0; w < AMX_LANES / 2; w += 4) {
        __m512i q[4];
        for (int i = 0; i < 4; i++) {
            const float *at = sums + (ptrdiff_t)2 * (w + i) * AMX_LANES;
            const simd_vector two[2] = {simd_load(at), simd_load(at + AMX_LANES)};
            real_store_two((real *)&q[i], two);
        }
        amx_store_words(&rows[0][w], sizeof rows[0], 4, q);
    }
    for (int m = 0; m < p->M; m++)
        memcpy((real *)p->out.at + (size_t)m * (size_t)p->out.stride + (size_t)n, rows[m], sizeof rows[0]);
}

/* One tile of columns of out from n on, or two. x: packed. */
INLINE void amx_tiles(const struct product *p, int n, const bool two, const uint32_t *x)
{
    _Alignas(64) float sums[AMX_LANES * AMX_LANES];
    ptrdiff_t row = (ptrdiff_t)p->w.stride * 2;
    const char *w = (const char *)p->w.at + n * row;
    _tile_zero(0);
    _tile_zero(1);
    for (int k = 0; k < p->K; k += 2 * AMX_WORDS, w += 64, x += AMX_WORDS * AMX_LANES) {
        _tile_loadd(4, x, 64);
        _tile_loadd(5, w, row);
        _tile_dpbf16ps(0, 5, 4);
        if (!two) continue;
        _tile_loadd(6, w + AMX_LANES * row, row);
        _tile_dpbf16ps(1, 6, 4);
        for (int r = 0; r < 2 * AMX_LANES; r++) /* of the next two */
            __builtin_prefetch((const void *)((uintptr_t)w + (uintptr_t)((2 * AMX_LANES + r) * row)), 0, 2);
    }
    _tile_stored(0, sums, 64);
    amx_finish(p, n, sums);
    if (!two) return;
    _tile_stored(1, sums, 64);
    amx_finish(p, n + AMX_LANES, sums);
}

/* The columns [n, end) of out that fill tiles; returns the first one that is left. */
static int amx_columns(const struct product *p, int n, int end, const uint32_t *x)
{
    amx_begin();
    for (; n + 2 * AMX_LANES <= end; n += 2 * AMX_LANES) amx_tiles(p, n, true, x);
    for (; n + AMX_LANES <= end; n += AMX_LANES) amx_tiles(p, n, false, x);
    amx_end();
    return n;
}

/* x (words, AMX_LANES). Lanes without a row of x hold its first one. */
static void amx_pack(const struct product *p, uint32_t *to)
{
    const struct lines x = {p->x.at, p->x.stride * (ptrdiff_t)sizeof(real), sizeof(real), sizeof(real)};
    pack(to, AMX_LANES, &x, 0, 0, p->M, p->K, FORM_PAIRS);
}

#endif

/* ---- NF4 ---- */

/* Where the weights are: (N, K), `elements` in all. */
struct nf4_weights {
    const uint8_t *codes;
    const float *scales;
    size_t elements;
    bool nested;
};

#ifdef __AVX2__
#if SIMD_LANES == 16
#define EVERY_SECOND(x, y, from)                                                                             \
    __builtin_shufflevector(x, y, from, from + 2, from + 4, from + 6, from + 8, from + 10, from + 12,        \
                            from + 14, from + 16, from + 18, from + 20, from + 22, from + 24, from + 26,     \
                            from + 28, from + 30)
#else
#define EVERY_SECOND(x, y, from)                                                                             \
    __builtin_shufflevector(x, y, from, from + 2, from + 4, from + 6, from + 8, from + 10, from + 12,        \
                            from + 14)
#endif

/* Columns n to n + 3 of out, of one row of x. The two codes of a byte belong to an even and an odd element: x
 * is parted accordingly, once for four rows of w, and the look-up ignores all but the low four bits. */
INLINE void nf4_row(const struct product *p, const struct nf4_weights *w, int n)
{
    enum { COLUMNS = 4, TWO = 2 * SIMD_LANES };
    const struct nf4_table table = nf4_table_of(1);
    const size_t K = (size_t)p->K, first = (size_t)n * K;
    simd_vector sum[COLUMNS] = {{0}};
    for (size_t k = 0; k < K; k += NF4_BLOCK) {
        simd_vector part[COLUMNS] = {{0}};
        for (size_t two = 0; two < NF4_BLOCK; two += TWO) {
            const real *x = (const real *)p->x.at + k + two;
            simd_vector low = real_load(x), high = real_load(x + SIMD_LANES);
            simd_vector evens = EVERY_SECOND(low, high, 0), odds = EVERY_SECOND(low, high, 1);
#pragma GCC unroll 4
            for (size_t i = 0; i < COLUMNS; i++) {
                const uint8_t *codes = w->codes + (first + i * K + k + two) / 2;
                if (two == 0) __builtin_prefetch(codes + COLUMNS * K / 2);
                simd_words both = nf4_words_at(codes);
                part[i] += evens * nf4_look_up(table, both >> 4);
                part[i] += odds * nf4_look_up(table, both);
            }
        }
        for (size_t i = 0; i < COLUMNS; i++)
            sum[i] += part[i] * nf4_scale(w->scales, w->elements, w->nested, (first + i * K + k) / NF4_BLOCK);
    }
    for (int i = 0; i < COLUMNS; i++) ((real *)p->out.at)[n + i] = rounded(simd_total(sum[i]));
}
#endif

/* Column n of out, of all rows of x. */
INLINE void nf4_dots(const struct product *p, const struct nf4_weights *w, size_t first, real *out)
{
    simd_vector sum[FEW_ROWS_MAX] = {{0}};
    float block[NF4_BLOCK];
    for (int k = 0; k < p->K; k += NF4_BLOCK) {
        size_t at = first + (size_t)k;
        nf4_decode_block(block, w->codes + at / 2,
                         nf4_scale(w->scales, w->elements, w->nested, at / NF4_BLOCK));
        for (int m = 0; m < p->M; m++) {
            const real *x = (const real *)p->x.at + (size_t)m * (size_t)p->x.stride + k;
            simd_vector s = sum[m];
            for (int i = 0; i < NF4_BLOCK; i += SIMD_LANES) s += real_load(x + i) * simd_load(block + i);
            sum[m] = s;
        }
    }
    for (int m = 0; m < p->M; m++) out[(size_t)m * (size_t)p->out.stride] = rounded(simd_total(sum[m]));
}

static void nf4_columns(const struct product *p, const struct nf4_weights *w, int n, int end)
{
#ifdef __AVX2__
    for (; p->M == 1 && n + 4 <= end; n += 4) nf4_row(p, w, n);
#endif
    for (; n < end; n++) nf4_dots(p, w, (size_t)n * (size_t)p->K, (real *)p->out.at + n);
}

void gemm_few_rows(struct matrix out, struct matrix x, struct matrix w, int M, int N, int K,
                   struct stream *stream)
{
    const struct product p = {out, x, w, M, K};
    size_t elements = (size_t)N * (size_t)K;
    const struct nf4_weights codes = {w.at, (const float *)((const uint8_t *)w.at + nf4_code_bytes(elements)),
                                      elements, w.element == ELEMENT_NF4_NESTED};
    long lines = (N + 15) / 16; /* so that two threads never write to one cache line */
    int threads = stream->threads;
    bool pairs = TILE_PAIRS && stream->product_way == WAY_DOTS;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int i = 0; i < threads; i++) {
        long from = lines * i / threads * 16, to = lines * (i + 1) / threads * 16;
        int end = to < N ? (int)to : N, first = (int)from;
#if defined(KERNELS_BF16) && defined(__AMX_BF16__)
        if (amx_can(&p, stream)) {
            uint32_t *packed = (uint32_t *)((char *)stream->products + (size_t)i * product_bytes());
            amx_pack(&p, packed);
            first = amx_columns(&p, first, end, packed);
        }
#endif
        if (element_is_nf4(w.element))
            nf4_columns(&p, &codes, first, end);
        else if (w.element == ELEMENT_FP32)
            columns(&p, first, end, FLOATS);
        else if (pairs)
            columns(&p, first, end, PAIRS);
        else
            columns(&p, first, end, HALVES);
    }
}
