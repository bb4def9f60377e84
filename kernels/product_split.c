/* See amx_split.h. A block of b is split and packed into the second-level cache, in panels of 32 columns. A
 * strip of 32 rows of a is multiplied by one panel after the other. Meanwhile the rest of the processor,
 * which the matrix unit leaves idle, splits and packs the strip after it and writes the tile before to out.
 *
 * More than STEPS steps of k are added to out one part after the other. */
#include "kernels/amx_split.h"

#if !defined(KERNELS_BF16) && defined(__AMX_BF16__)

#include "kernels/product_finish.h"

enum {
    ROWS = AMX_ROWS,
    COLUMNS = 32,
    STEPS = 512,     /* of k at a time, at most */
    BLOCK = 3 << 18, /* bytes of b at a time */
    STRIP = STEPS / SPLIT_STEPS * SPLIT_BLOCK
};

_Static_assert(AMX_PRODUCT_BYTES >= BLOCK + 2 * STRIP, "room for a product");

struct plan {
    struct matrix out;
    struct lines a, b;
    int M, N, K;
    int steps; /* of k at a time */
    bool accumulate;
    float factor;
    char *block, *strips[2];
};

/* ---- packing ---- */

/* A strip or panel of 32 lines, of which four lines, or words of all lines, are packed at a time. Of a line's
 * steps in a block 0 and 16 share a word, then 1 and 17, and so on: a sum does not depend on their order.
 * along: a line's steps lie one after the other in memory, else the elements of a step do. */
struct packing {
    char *to;
    const char *from;     /* the block's first line and step */
    ptrdiff_t line, step; /* bytes from one to the next */
    int at, block, blocks;
};

INLINE const char *vector_at(const struct packing *p, int i, const bool along)
{
    return p->from + (p->at & 16) * p->line + ((p->at & 15) + i) * (along ? p->line : p->step);
}

INLINE void store_direct(const struct packing *p, int i, const __m512i part[SPLIT_PARTS])
{
    char *to = p->to + 64 * (p->at + i);
#pragma GCC unroll 3
    for (int k = 0; k < SPLIT_PARTS; k++) _mm512_store_si512(to + k * SPLIT_PART, part[k]);
}

INLINE void store_transposed(const struct packing *p, int k, const __m512i vectors[4])
{
    amx_store_words(p->to + k * SPLIT_PART + (p->at & 16) * 64 + 4 * (p->at & 15), 64, 4, vectors);
}

INLINE void packing_advance(struct packing *p)
{
    p->at += 4;
    if (p->at < 32) return;
    p->at = 0, p->to += SPLIT_BLOCK, p->from += SPLIT_STEPS * p->step, p->block++;
}

/* Of 16 elements in fp32, or in bf16, those before `count`; the other lanes are 0. */
INLINE simd_vector load(const char *from, int count, const bool floats)
{
    __mmask16 there = count >= 16 ? 0xffff : count <= 0 ? 0 : (__mmask16)((1u << count) - 1);
    if (floats) return (simd_vector)_mm512_maskz_loadu_ps(there, from);
    return (simd_vector)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(there, from)), 16);
}

/* whole: all 32 lines exist, and blocks of steps are whole, too; else zeros fill both up. */
INLINE void pack_lines(char *to, const struct lines *x, int line, int count, int step, int steps, bool rows,
                       const bool along, const bool floats, const bool whole)
{
    struct packing p = {to, element_at(x, line, step), x->line, x->step, 0, 0, 0};
    for (; p.block * SPLIT_STEPS < steps; packing_advance(&p)) {
        int left = steps - p.block * SPLIT_STEPS, lines = count - (p.at & 16);
        __m512i vectors[SPLIT_PARTS][4];
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            const char *from = vector_at(&p, j, along);
            int i = (p.at & 15) + j, near = along ? (i < lines ? left : 0) : (i < left ? lines : 0),
                far = along ? near - 16 : (i + 16 < left ? lines : 0);
            __m512i part[SPLIT_PARTS];
            split(part, load(from, whole ? 16 : near, floats),
                  load(from + 16 * x->step, whole ? 16 : far, floats));
            if (along == rows) store_direct(&p, j, part);
            for (int k = 0; k < SPLIT_PARTS; k++) vectors[k][j] = part[k];
        }
#pragma GCC unroll 3
        for (int k = 0; k < SPLIT_PARTS && along != rows; k++) store_transposed(&p, k, vectors[k]);
    }
}

/* rows: a row of a tile is a line, as of a strip of a; else a word of all lines, as of a panel of b. count:
 * lines from here on. */
static void pack_strip(char *to, const struct lines *x, int line, int count, int step, int steps, bool rows)
{
    bool along = x->step == x->element_bytes, whole = count >= ROWS && steps % SPLIT_STEPS == 0;
    if (x->element_bytes != (int)sizeof(float))
        pack_lines(to, x, line, count, step, steps, rows, along, false, false);
    else if (!whole)
        pack_lines(to, x, line, count, step, steps, rows, along, true, false);
    else if (along)
        pack_lines(to, x, line, count, step, steps, rows, true, true, true);
    else
        pack_lines(to, x, line, count, step, steps, rows, false, true, true);
}

/* ---- what the rest of the processor does meanwhile ---- */

struct meanwhile {
    struct packing strip; /* of whole blocks; blocks = 0: nothing is packed */
    ptrdiff_t ahead;      /* bytes to what is packed two blocks later */
    __m512i vectors[SPLIT_PARTS][4];
    float *sums;       /* of the tile that is multiplied */
    struct matrix out; /* of the tile before, whose sums are there and of which `done` rows are written */
    int rows, columns, done, rows_each;
    bool add;
    float factor;
};

static void finish_rows(struct meanwhile *w, int rows)
{
    rows = least(rows, w->rows - w->done);
    if (rows <= 0) return;
    tile_finish(matrix_part(w->out, w->done, 0), w->sums + w->done * COLUMNS, COLUMNS, rows, w->columns,
                w->add, w->factor);
    w->done += rows;
}

/* One of the six pieces that SPLIT_STEP asks for. */
INLINE void work(struct meanwhile *w, const int i, const bool along)
{
    struct packing *p = &w->strip;
    if (i == 1 || i == 4) finish_rows(w, w->rows_each);
    if (p->block == p->blocks) return;
    if (i < 4) {
        const char *from = vector_at(p, i, along), *far = from + 16 * p->step;
        __m512i part[SPLIT_PARTS];
        split(part, simd_load((const float *)(const void *)from),
              simd_load((const float *)(const void *)far));
        __builtin_prefetch(from + w->ahead, 0, 2);
        __builtin_prefetch(far + w->ahead, 0, 2);
        if (along) store_direct(p, i, part);
#pragma GCC unroll 3
        for (int k = 0; k < SPLIT_PARTS && !along; k++) w->vectors[k][i] = part[k];
    }
    if (i >= 3 && !along) store_transposed(p, i - 3, w->vectors[i - 3]);
    if (i == 5) packing_advance(p);
}

#define WORK_ALONG(i)  work(w, i, true)
#define WORK_ACROSS(i) work(w, i, false)

/* sums (ROWS, COLUMNS) = the product of a strip and a panel. Meanwhile all rows of the tile before are
 * written, which was in sums, too. */
static void multiply(struct meanwhile *w, const char *a, const char *b, int blocks, bool along)
{
    amx_load(w->sums, COLUMNS, true);
    if (along)
        for (int i = 0; i < blocks; i++, a += SPLIT_BLOCK, b += SPLIT_BLOCK) SPLIT_STEP(a, b, WORK_ALONG);
    else
        for (int i = 0; i < blocks; i++, a += SPLIT_BLOCK, b += SPLIT_BLOCK) SPLIT_STEP(a, b, WORK_ACROSS);
    amx_store(w->sums, COLUMNS);
}

/* Packs the rest of the strip: too few panels leave no time for all of it. */
static void pack_rest(struct meanwhile *w, bool along)
{
    while (w->strip.block < w->strip.blocks)
#pragma GCC unroll 6
        for (int i = 0; i < 6; i++)
            if (along)
                WORK_ALONG(i);
            else
                WORK_ACROSS(i);
}

/* ---- blocks ---- */

/* Columns [n0, n1) of out, with the steps from k on. */
static void multiply_block(const struct plan *p, int n0, int n1, int k)
{
    _Alignas(64) float sums[ROWS * COLUMNS];
    int steps = least(p->K - k, p->steps), blocks = (steps + SPLIT_STEPS - 1) / SPLIT_STEPS;
    const bool along = p->a.step == p->a.element_bytes;
    struct meanwhile w = {.ahead = 2 * SPLIT_STEPS * p->a.step,
                          .rows_each = (ROWS + 2 * blocks - 1) / (2 * blocks),
                          .sums = sums,
                          .factor = p->factor};
    char *panel = p->block;
    for (int n = n0; n < n1; n += COLUMNS, panel += blocks * SPLIT_BLOCK)
        pack_strip(panel, &p->b, n, p->N - n, k, steps, false);
    for (int m = 0, at = 0; m < p->M; m += ROWS, at = !at) {
        if (w.strip.blocks > 0)
            pack_rest(&w, along);
        else
            pack_strip(p->strips[at], &p->a, m, p->M - m, k, steps, true);
        bool next = steps % SPLIT_STEPS == 0 && p->M - m >= 2 * ROWS;
        w.strip = (struct packing){
            p->strips[!at], element_at(&p->a, m + ROWS, k), p->a.line, p->a.step, 0, 0, next ? blocks : 0};
        panel = p->block;
        for (int n = n0; n < n1; n += COLUMNS, panel += blocks * SPLIT_BLOCK) {
            multiply(&w, p->strips[at], panel, blocks, along);
            w.out = matrix_part(p->out, m, n), w.done = 0;
            w.rows = least(p->M - m, ROWS), w.columns = least(n1 - n, COLUMNS);
            w.add = p->accumulate || k > 0;
        }
    }
    finish_rows(&w, ROWS);
}

void amx_product(struct matrix out, struct lines a, struct lines b, int M, int N, int K, bool accumulate,
                 float factor, void *memory)
{
    struct plan p = {out, a, b, M, N, K, part_size(K, STEPS, SPLIT_STEPS), accumulate, factor, memory, {0}};
    int width = part_size(N, BLOCK / SPLIT_BLOCK * SPLIT_STEPS / p.steps * COLUMNS, COLUMNS);
    p.strips[0] = p.block + BLOCK, p.strips[1] = p.strips[0] + STRIP;
    amx_begin();
    for (int n = 0; n < N; n += width)
        for (int k = 0; k < K; k += p.steps) multiply_block(&p, n, least(N, n + width), k);
    amx_end();
}

#endif
