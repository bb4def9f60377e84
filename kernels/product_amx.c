/* See amx.h. A block of b is packed into the second-level cache, in panels of 32 columns. A strip of 32 rows
 * of a is multiplied by one panel after the other, so that it stays near (with up to 512 steps of k in the
 * first-level cache), and rows of out are written from left to right. A strip is read where it is if its
 * steps lie one after the other, and packed otherwise.
 *
 * Nothing is prefetched: the matrix unit computes while the processor waits for loads, and prefetching delays
 * them. The second-level cache must hold all that is packed and summed. So a K of up to WHOLE is multiplied
 * at once, without sums in memory. */
#include "kernels/amx.h"

#if defined(KERNELS_BF16) && defined(__AMX_BF16__)

#include "kernels/product_finish.h"

enum {
    ROWS = AMX_ROWS,
    COLUMNS = 32,
    WORDS = AMX_WORDS,
    WHOLE = 1024, /* a K up to this is multiplied at once; else so many steps at a time: */
    STEPS = 256,
    BLOCK = 512 * 512 / 2,        /* words of b at a time */
    GROUP = 4 * ROWS * WHOLE / 2, /* words of a at a time, if it is packed */
    SUMS = 512 * 512              /* of a part of out, while not all steps are done */
};

_Static_assert(AMX_PRODUCT_BYTES == 4 * (BLOCK + GROUP + SUMS), "room for a product");

struct plan {
    struct matrix out;
    struct lines a, b;
    int M, N, K;
    int steps; /* of k at a time */
    bool accumulate;
    float factor;
    uint32_t *block, *group;
    float *sums; /* tile by tile; NULL: all steps are done at once */
};

/* ---- packing ---- */

/* out: of ROWS lines, blocks of WORDS words of each. Lines that do not exist are 0, and so are steps that
 * fill the last block. For lines whose steps lie one after the other; amx_transpose does the others. */
static void strip_of_rows(uint32_t *out, const struct lines *x, int line, int step, int count, int steps)
{
    for (int r = 0; r < ROWS; r++) {
        const char *from = element_at(x, line + r, step);
        uint32_t *to = out + r * WORDS;
        for (int k = 0; k < steps; k += 2 * WORDS, to += ROWS * WORDS) {
            __mmask32 there = r >= count ? 0 : steps - k >= 32 ? ~0u : (1u << (steps - k)) - 1;
            _mm512_store_si512(to, _mm512_maskz_loadu_epi16(there, from + 2 * k));
        }
    }
}

/* A strip as amx_step reads it. */
struct strip {
    const char *at;
    ptrdiff_t row, block; /* bytes from a row to the next, and from a block of words to the next */
};

/* Rows [m, end) of a, where they are or, packed, in `to`. Rows that are whole KiB apart share few lines of
 * the first-level cache, which matters where not all steps are done at once and so the other operands are in
 * it. */
static struct strip strip_at(const struct plan *p, const uint32_t *to, int m, int end, int k, int steps)
{
    bool packed =
        (p->sums && p->a.line % 1024 == 0) || p->a.step != 2 || end - m < ROWS || steps % (2 * WORDS) != 0;
    return packed ? (struct strip){(const char *)to, 4 * WORDS, 4 * ROWS * WORDS}
                  : (struct strip){element_at(&p->a, m, k), p->a.line, 4 * WORDS};
}

/* The strips of rows [m, end), each of `words` words, if they cannot be read where they are. */
static void pack_group(const struct plan *p, int m, int end, int k, int steps, int words)
{
    const bool rows = p->a.step == 2;
    for (int s = 0; rows && m + s * ROWS < end; s++) {
        uint32_t *to = p->group + s * ROWS * words;
        if (strip_at(p, to, m + s * ROWS, end, k, steps).at == (const char *)to)
            strip_of_rows(to, &p->a, m + s * ROWS, k, end - m - s * ROWS, steps);
    }
    for (int done = 0; !rows && done < steps; done += 2 * WORDS)
        for (int s = 0; m + s * ROWS < end; s++)
            amx_transpose(p->group + (s * words + done / 2) * ROWS, 4 * WORDS, &p->a, m + s * ROWS, k + done,
                          end - m - s * ROWS, steps - done);
}

/* Panels of the columns [n, end): `words` words of each of COLUMNS columns. */
static void pack_block(const struct plan *p, int n, int end, int k, int steps, int words)
{
    const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11),
                  second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    int made = (steps + 1) / 2;
    bool columns = p->b.line == p->b.element_bytes;
    for (int at = n; at < end; at += COLUMNS) {
        uint32_t *panel = p->block + (ptrdiff_t)(at - n) * words;
        if (!columns) pack(panel, COLUMNS, &p->b, at, k, p->N - at, steps, FORM_PAIRS);
        memset(panel + made * COLUMNS, 0, (size_t)(words - made) * COLUMNS * sizeof *panel);
    }
    for (int w = 0; columns && w < made; w++) {
        const char *even = element_at(&p->b, n, k + 2 * w);
        bool pair = 2 * w + 1 < steps;
        uint32_t *to = p->block + w * COLUMNS;
        for (int at = n; at < end; at += COLUMNS, even += 64, to += COLUMNS * words) {
            __mmask32 there = p->N - at >= 32 ? ~0u : (1u << (p->N - at)) - 1;
            __m512i x = _mm512_maskz_loadu_epi16(there, even),
                    y = _mm512_maskz_loadu_epi16(pair ? there : 0, even + p->b.step);
            __m512i low = _mm512_unpacklo_epi16(x, y), high = _mm512_unpackhi_epi16(x, y);
            _mm512_store_si512(to, _mm512_permutex2var_epi64(low, first, high));
            _mm512_store_si512(to + 16, _mm512_permutex2var_epi64(low, second, high));
        }
    }
}

/* ---- tiles ---- */

/* A part of out whose sums are complete, of which `done` rows are finished. */
struct complete {
    struct matrix out;
    const float *sums;
    int rows, columns, done;
};

static void finish_rows(const struct plan *p, struct complete *c, int rows)
{
    rows = least(rows, c->rows - c->done);
    if (rows <= 0) return;
    tile_finish(matrix_part(c->out, c->done, 0), c->sums + c->done * COLUMNS, COLUMNS, rows, c->columns,
                p->accumulate, p->factor);
    c->done += rows;
}

/* sums (ROWS, COLUMNS) = or, with `more`, += the product of a strip and a panel. The matrix unit leaves the
 * rest of the processor idle, which finishes the tile before meanwhile. */
static void multiply(const struct plan *p, float *sums, bool more, struct strip a, const char *b, int words,
                     struct complete *before)
{
    int blocks = words / WORDS, each = (before->rows - before->done + blocks - 1) / blocks;
    amx_load(sums, COLUMNS, !more);
    for (int k = 0; k < words; k += WORDS, a.at += a.block, b += 4 * COLUMNS * WORDS) {
        amx_step(a.at, a.row, b, 4 * COLUMNS);
        finish_rows(p, before, each);
    }
    amx_store(sums, COLUMNS);
}

/* Rows [m0, m1) and columns [n0, n1) of out, with the steps from k on. */
static void multiply_block(const struct plan *p, int m0, int m1, int n0, int n1, int k)
{
    _Alignas(64) float sums[2][ROWS * COLUMNS];
    struct complete before = {0};
    int steps = least(p->K - k, p->steps), words = (steps + 2 * WORDS - 1) / (2 * WORDS) * WORDS;
    ptrdiff_t tile = 0;
    bool last = k + steps == p->K;
    pack_block(p, n0, n1, k, steps, words);
    for (int group = m0, most = GROUP / (ROWS * words) * ROWS; group < m1; group += most) {
        int end = least(m1, group + most);
        pack_group(p, group, end, k, steps, words);
        for (int m = group; m < end; m += ROWS) {
            struct strip strip = strip_at(p, p->group + (m - group) * words, m, end, k, steps);
            const uint32_t *panel = p->block;
            for (int n = n0; n < n1; n += COLUMNS, panel += COLUMNS * words) {
                float *to = p->sums ? p->sums + tile++ * ROWS * COLUMNS : sums[tile++ % 2];
                multiply(p, to, p->sums && k > 0, strip, (const char *)panel, words, &before);
                if (last)
                    before = (struct complete){matrix_part(p->out, m, n), to, least(end - m, ROWS),
                                               least(n1 - n, COLUMNS), 0};
            }
        }
    }
    finish_rows(p, &before, ROWS);
}

void amx_product(struct matrix out, struct lines a, struct lines b, int M, int N, int K, bool accumulate,
                 float factor, void *memory)
{
    struct plan p = {
        out,        a,      b,      M,    N,   K, part_size(K, K <= WHOLE ? WHOLE : STEPS, 2 * WORDS),
        accumulate, factor, memory, NULL, NULL};
    int width = part_size(N, p.steps < K ? 512 : 2 * BLOCK / p.steps / COLUMNS * COLUMNS, COLUMNS),
        height = M;
    p.group = p.block + BLOCK;
    if (p.steps < K) {
        p.sums = (float *)(p.group + GROUP);
        height = SUMS / width / ROWS * ROWS;
    }
    amx_begin();
    for (int n = 0; n < N; n += width)
        for (int m = 0; m < M; m += height)
            for (int k = 0; k < K; k += p.steps)
                multiply_block(&p, m, least(M, m + height), n, least(N, n + width), k);
    amx_end();
}

#endif
