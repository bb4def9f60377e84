/* See product.h.
 *
 * Both operands are copied to where the inner loop reads them one after the other: a in strips of ROWS rows,
 * b in blocks of panels of COLUMNS columns. A tile of ROWS by COLUMNS sums is in registers. A panel of b
 * stays in the first-level cache while all strips of a group are multiplied by it; with AVX-512 it is too
 * wide for that, so a strip of a stays there, and the block of b in the second level. With AVX2 and AVX-512 a
 * strip is not copied if the words of its rows lie one after the other anyway. Words of two numbers are for
 * vdpbf16ps, which adds two products at a time. */
#include "kernels/product.h"

#include <stddef.h>
#include <stdint.h>

#include "kernels/amx.h"
#include "kernels/pack.h"
#include "kernels/product_finish.h"

/* Of AVX-512 and NEON's 32 registers 28 hold sums, of 16 others 12. */
#if SIMD_LANES == 16 || defined(__aarch64__)
#define ROWS_MAX 14
#else
#define ROWS_MAX 6
#endif

enum {
    LANES = SIMD_LANES,
    ROWS = ROWS_MAX,
    COLUMNS = 2 * LANES,
    WORDS = 256,                                /* of k at a time, at most */
    BLOCK = LANES == 16 ? 576 : 1024,           /* columns of b at a time, at most: 576 or 1024 KiB */
    PITCH = (ROWS + LANES - 1) / LANES * LANES, /* words of a step of a strip: whole vectors are stored */
    STRIP = PITCH * WORDS,
    GROUP = LANES == 16 ? 1 : 144 / ROWS, /* strips of a at a time: 16 or 192 KiB */
    BESIDE = LANES == 16 ? 576 : 512,     /* columns at a time where sums are kept until all steps are done */
    SUMS = 512 * BESIDE,
    BYTES = 4 * (BLOCK * WORDS + GROUP * STRIP + SUMS)
};

size_t product_bytes(void)
{
    size_t own = BYTES, amx = LANES == 16 ? AMX_PRODUCT_BYTES : 0;
    return own > amx ? own : amx;
}

/* ---- tiles ---- */

/* The cache lines of an operand that are not read yet: `run` lines that follow each other, then a step. */
struct ahead {
    const char *next;
    ptrdiff_t step; /* bytes from a run to the next */
    int run, at;    /* at: of the run's lines */
    int left, most; /* lines in all, and at most by a tile */
};

/* Lines that are needed soon. A tile fetches one every few steps: many at once would hold up its own loads.
 */
struct fetch {
    const char *out; /* rows of out, each on two lines; NULL: not needed yet */
    ptrdiff_t out_row;
    struct ahead a, b;
};

enum { STEPS_EACH = 4 }; /* of k, between two fetches */

INLINE void fetch_line(struct ahead *x)
{
    __builtin_prefetch(x->next + 64 * x->at, 0, 2);
    if (++x->at == x->run) x->at = 0, x->next += x->step;
    x->left--;
}

/* One row of out, or else one line of a, of which so many are left to this tile, or else one of b. */
INLINE void fetch_some(struct fetch *f, int *out_rows, int *a_lines)
{
    if (*out_rows > 0) {
        __builtin_prefetch(f->out, 1);
        __builtin_prefetch(f->out + 64, 1);
        f->out += f->out_row;
        --*out_rows;
    } else if (*a_lines > 0) {
        fetch_line(&f->a);
        --*a_lines;
    } else {
        fetch_line(&f->b);
    }
}

/* Rows of a as a tile reads them. Packed: word k of row r is number k · PITCH + r. In place: rows are `row`
 * bytes apart, and at[i] is row 3i, so that few registers reach all of them. */
struct strip {
    const char *at[(ROWS + 2) / 3];
    ptrdiff_t row;
};

/* Word k of each row, and line k of b. */
INLINE void tile_add(const int rows, const bool pairs, const bool packed, simd_vector sum[ROWS][2],
                     const struct strip *a, const float *b, const int k)
{
    simd_vector b0 = simd_load(b + k * COLUMNS), b1 = simd_load(b + k * COLUMNS + LANES);
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++) {
        const char *at = packed ? a->at[0] + 4 * (k * PITCH + r) : a->at[r / 3] + r % 3 * a->row + 4 * k;
        float x = *(const tile_word *)(const void *)at;
        sum[r][0] = tile_step(sum[r][0], x, b0, pairs);
        sum[r][1] = tile_step(sum[r][1], x, b1, pairs);
    }
}

/* Keeps the compiler from loading operands of the next step early: with 12 sums in 16 registers it would have
 * to keep a sum in memory, and each step would wait for that. */
INLINE void step_apart(void)
{
    __asm__ volatile("" ::: "memory");
}

INLINE void strip_advance(struct strip *a, const int rows, const bool packed, const int words)
{
    for (int i = 0; i < (packed ? 1 : (rows + 2) / 3); i++) a->at[i] += 4 * words * (packed ? PITCH : 1);
}

/* sums (rows, COLUMNS) = or, with `more`, += the product of `rows` lines of a and COLUMNS lines of b, which
 * is packed. pairs: a word of a and b is two steps. a_row: bytes between rows of a that is not packed. */
INLINE void tile_sum(const int rows, const bool pairs, const bool packed, float *sums, ptrdiff_t stride,
                     bool more, const char *a, ptrdiff_t a_row, const float *b, int words,
                     struct fetch *fetch)
{
    simd_vector sum[ROWS][2];
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int i = 0; i < 2; i++) sum[r][i] = (simd_vector){0};
    struct strip from = {.row = a_row};
#pragma GCC unroll 5
    for (int i = 0; i < (rows + 2) / 3; i++) from.at[i] = a + 3 * i * a_row;
    struct fetch f = *fetch;
    int out_rows = f.out ? rows : 0;
    int a_lines = least(f.a.most, f.a.left);
    int fetches = out_rows + a_lines + least(f.b.most, f.b.left);
    int k = 0;
    for (; k + STEPS_EACH <= words; k += STEPS_EACH, b += STEPS_EACH * COLUMNS) {
        if (fetches > 0) fetches--, fetch_some(&f, &out_rows, &a_lines);
#pragma GCC unroll 4
        for (int i = 0; i < STEPS_EACH; i++) {
            tile_add(rows, pairs, packed, sum, &from, b, i);
            if (ROWS == 6) step_apart();
        }
        strip_advance(&from, rows, packed, STEPS_EACH);
    }
    for (; k < words; k++, b += COLUMNS) {
        tile_add(rows, pairs, packed, sum, &from, b, 0);
        strip_advance(&from, rows, packed, 1);
    }
    *fetch = f;
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int i = 0; i < 2; i++) {
            float *to = sums + r * stride + i * LANES;
            simd_store(to, more ? simd_load(to) + sum[r][i] : sum[r][i]);
        }
}

/* A function for each number of rows, so that every sum is in a register. */
#if ROWS_MAX == 14
#define EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#else
#define EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#endif

typedef void tile(float *sums, ptrdiff_t stride, bool more, const void *a, ptrdiff_t a_row, const void *b,
                  int words, struct fetch *fetch);

#define TILE_OF(name, rows, pairs, packed)                                                                   \
    static void name##_##rows(float *sums, ptrdiff_t stride, bool more, const void *a, ptrdiff_t a_row,      \
                              const void *b, int words, struct fetch *fetch)                                 \
    {                                                                                                        \
        tile_sum(rows, pairs, packed, sums, stride, more, a, a_row, b, words, fetch);                        \
    }
#define TILE_FLOATS(rows) TILE_OF(floats, rows, false, true)
#define OF_FLOATS(rows)   floats_##rows,
EACH_ROWS(TILE_FLOATS)
static tile *const tiles_of_floats[] = {EACH_ROWS(OF_FLOATS)};

#if SIMD_LANES >= 8
#define TILE_FLOATS_IN_PLACE(rows) TILE_OF(floats_in_place, rows, false, false)
#define OF_FLOATS_IN_PLACE(rows)   floats_in_place_##rows,
EACH_ROWS(TILE_FLOATS_IN_PLACE)
static tile *const tiles_of_floats_in_place[] = {EACH_ROWS(OF_FLOATS_IN_PLACE)};
#endif

#ifdef __AVX512BF16__
#define TILE_PAIRS_OF(rows)       TILE_OF(pairs, rows, true, true)
#define OF_PAIRS(rows)            pairs_##rows,
#define TILE_PAIRS_IN_PLACE(rows) TILE_OF(pairs_in_place, rows, true, false)
#define OF_PAIRS_IN_PLACE(rows)   pairs_in_place_##rows,
EACH_ROWS(TILE_PAIRS_OF)
EACH_ROWS(TILE_PAIRS_IN_PLACE)
static tile *const tiles_of_pairs[] = {EACH_ROWS(OF_PAIRS)};
static tile *const tiles_of_pairs_in_place[] = {EACH_ROWS(OF_PAIRS_IN_PLACE)};
#endif

/* ---- blocks ---- */

struct plan {
    struct matrix out;
    struct lines a, b;
    int M, N, K;
    int steps; /* of k at a time */
    enum form a_form, b_form;
    bool accumulate, direct; /* direct: tiles are added to out where they are summed */
    bool in_place;           /* a is not packed */
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

/* What `count` lines of an operand are packed from, over `tiles` tiles. The first cache line of a run, if
 * part of it belongs to what is before, has been read with that. */
static struct ahead ahead_of(const struct lines *x, int line, int step, int count, int steps, int tiles)
{
    if (count == 0) return (struct ahead){0};
    bool columns = x->line == x->element_bytes;
    int runs = columns ? steps : count, bytes = (columns ? count : steps) * x->element_bytes;
    struct ahead next = {.next = element_at(x, line, step) + (bytes - 1) % 64,
                         .step = columns ? x->step : x->line,
                         .run = (bytes + 63) / 64};
    next.left = runs * next.run;
    next.most = (next.left + tiles - 1) / tiles;
    return next;
}

/* The block of b that is packed after that of rows up to m1, columns [n0, n1) and steps up to k, over `tiles`
 * tiles. */
static struct ahead next_block(const struct plan *p, int m1, int n0, int n1, int k, int tiles)
{
    int width = n1 - n0;
    if (k == p->K) k = 0, n0 = m1 < p->M ? n0 : n1;
    return ahead_of(&p->b, n0, k, least(p->N - n0, width), least(p->K - k, p->steps), tiles);
}

/* Rows [m0, m1) and columns [n0, n1) of out, with the steps from k on. */
static void multiply_block(const struct plan *p, int m0, int m1, int n0, int n1, int k)
{
    _Alignas(64) float sums[ROWS * COLUMNS];
    int steps = least(p->K - k, p->steps), words = words_of(p, steps);
    bool last = k + steps == p->K;
    for (int n = n0; n < n1; n += COLUMNS)
        pack(p->block + (ptrdiff_t)(n - n0) * words, COLUMNS, &p->b, n, k, p->N - n, steps, p->b_form);
    int strips = (m1 - m0 + ROWS - 1) / ROWS, panels = (n1 - n0 + COLUMNS - 1) / COLUMNS;
    struct fetch fetch = {.b = next_block(p, m1, n0, n1, k + steps, strips * panels)};
    for (int first = 0; first < strips; first += GROUP) {
        int count = least(strips - first, GROUP), at[GROUP + 1];
        for (int s = 0; s <= count; s++) at[s] = m0 + (int)((long)(m1 - m0) * (first + s) / strips);
        for (int s = 0; s < count && !p->in_place; s++)
            pack(p->strip + s * STRIP, PITCH, &p->a, at[s], k, p->M - at[s], steps, p->a_form);
        /* not the next strip, but those after it: memory is too slow for that one */
        int soon = least(at[count] + ROWS, m1);
        fetch.a = ahead_of(&p->a, soon, k, least(m1 - soon, GROUP * ROWS), steps, panels * count);
        for (int n = n0; n < n1; n += COLUMNS)
            for (int s = 0; s < count; s++) {
                int m = at[s], rows = at[s + 1] - m, columns = least(n1 - n, COLUMNS);
                struct matrix out = matrix_part(p->out, m, n);
                bool add = p->accumulate || (!p->sums && k > 0), direct = p->direct && columns == COLUMNS;
                fetch.out = !p->sums || last ? out.at : NULL;
                fetch.out_row = out.stride * (ptrdiff_t)element_bytes(out.element);
                float *to = direct ? out.at : p->sums ? p->sums + (m - m0) * p->stride + (n - n0) : sums;
                ptrdiff_t stride = direct ? out.stride : p->sums ? p->stride : COLUMNS;
                const void *a = p->in_place ? element_at(&p->a, m, k) : (void *)(p->strip + s * STRIP);
                p->tiles[rows - 1](to, stride, direct ? add : p->sums && k > 0, a, p->a.line,
                                   p->block + (ptrdiff_t)(n - n0) * words, words, &fetch);
                if (!direct && (!p->sums || last))
                    tile_finish(out, to, stride, rows, columns, add, p->factor);
            }
    }
}

static struct lines lines_of(struct matrix x, bool columns)
{
    ptrdiff_t one = (ptrdiff_t)element_bytes(x.element), row = x.stride * one;
    return (struct lines){x.at, columns ? one : row, columns ? row : one, (int)one};
}

#if SIMD_LANES >= 8
/* Whether the words of a lie one after the other and a strip of it stays in the first-level cache as it is:
 * of rows that are a multiple of 4 KiB apart, as far as a way of this cache reaches, only a few would. */
static bool in_place(const struct plan *p)
{
    ptrdiff_t apart = p->a.line % 4096;
    bool words = p->a_form == FORM_FLOATS || (p->a_form == FORM_PAIRS && p->K % 2 == 0);
    return words && p->a.step == p->a.element_bytes && apart >= 512 && apart <= 4096 - 512;
}
#endif

void product(struct matrix out, struct matrix a, struct matrix b, int M, int N, int K, bool transpose_a,
             bool transpose_b, bool accumulate, float factor, enum product_way way, void *memory)
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
#ifdef __AMX_BF16__
    if (way == WAY_AMX) {
        amx_product(out, p.a, p.b, M, N, K, accumulate, factor, memory);
        return;
    }
#endif
#ifdef __AVX512BF16__
    if (way == WAY_DOTS) p.a_form = p.b_form = FORM_PAIRS, p.tiles = tiles_of_pairs;
#endif
#if SIMD_LANES >= 8
    p.in_place = in_place(&p);
    if (p.in_place) p.tiles = tiles_of_floats_in_place;
#endif
#ifdef __AVX512BF16__
    if (p.in_place && way == WAY_DOTS) p.tiles = tiles_of_pairs_in_place;
#endif
    p.steps = part_size(K, way == WAY_DOTS ? 2 * WORDS : WORDS, 16);
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
