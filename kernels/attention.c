/* CPU twin of attention, in tiles of TILE query rows by TILE key rows: the forward pass. Compute-bound: 4·HS
 * operations per score forward, 10·HS backward, half of all scores each; tiles of keys that no query of the
 * tile sees are skipped: above the diagonal, before the window, before the sequence. In the tiles that their
 * edges cross, each group of four rows computes only its part, to whole vectors, and the rest of those is
 * masked.
 *
 * A task is a query head, or one tile of queries where there are few heads per thread. Scores are computed
 * transposed (keys in rows, queries in lanes), so that the softmax runs down the columns without sums across
 * lanes, and only q has to be transposed, once.
 *
 * With products of pairs, operands are in bf16: probabilities are rounded, as on a GPU. With AMX, tiles that
 * an edge crosses are computed as a whole. */
#include <float.h>
#include <math.h>
#include <omp.h>

#include "kernels/attention_tiles.h"

/* Per query of a tile. */
struct queries {
    int first[TILE]; /* key that it sees */
    struct tile_queries softmax;
};

/* Scores that queries do not see become minus infinity. */
static void mask(float *scores, const struct band *band, const struct queries *q, int i, int j, int columns)
{
    for (int c = 0; c < columns; c++) {
        float *row = scores + (ptrdiff_t)c * TILE;
        struct tile_span see = band->queries[c / TILE_ROWS];
        int key = j * TILE + c, from = see.from / SIMD_LANES * SIMD_LANES,
            to = (see.to + SIMD_LANES - 1) / SIMD_LANES * SIMD_LANES;
#pragma omp simd
        for (int r = from; r < to; r++)
            row[r] = q->first[r] <= key && key <= i * TILE + r ? row[r] : -INFINITY;
    }
}

/* One step of the online softmax over those scores of (columns, TILE) that are needed. clear: all others
 * become 0. */
static void softmax_step(float *scores, float unit, const struct band *band, struct queries *q, int rows,
                         int columns, bool clear)
{
    for (int lane = 0; lane < rows; lane += SIMD_LANES) {
        int from = 0, to = columns;
        if (!band->whole) {
            from = band->keys[lane / TILE_ROWS].from / TILE_ROWS * TILE_ROWS;
            to = band->keys[(lane + SIMD_LANES - 1) / TILE_ROWS].to;
        }
        tile_softmax(scores, unit, &q->softmax, lane, from, to);
        for (int c = 0; clear && c < whole_blocks(columns); c++)
            if (c < from || c >= to) simd_store(scores + c * TILE + lane, (simd_vector){0});
    }
}

/* Values of key tile j, transposed. While a worker does all tiles of a head, those that there is room for are
 * kept: tile j is first seen by query tile j. */
static struct tile_rows values_transposed(const struct problem *p, float *room, const real *values, int i,
                                          int j, bool whole)
{
    size_t each = (size_t)TILE * (size_t)p->HS / 2, used = (size_t)TILE * (size_t)(TILE + 3 * p->width);
    int slots = (int)((attention_worker_floats(p->HS) - used) / each);
    bool kept = whole && j < slots - 1;
    float *to = room + each * (size_t)(kept ? j : slots - 1);
    if (!kept || i == j) return tile_transpose(to, values, p->row, tile_rows(p, j), p->HS);
    return (struct tile_rows){to, TILE * 2};
}

/* Rows of the tile after tile i of a head. */
static void fetch_next(const struct problem *p, const real *query, const real *keys, const real *values,
                       int i)
{
    if ((i + 1) * TILE >= p->T) return;
    struct tile_soon soon = {0};
    tile_need_soon(&soon, ahead_of(p, keys + TILE * p->row, p->row, i + 1));
    tile_need_soon(&soon, ahead_of(p, values + TILE * p->row, p->row, i + 1));
    tile_need_soon(&soon, ahead_of(p, query + TILE * p->row, p->row, i + 1));
    while (soon.lines > 0) tile_fetch(&soon);
}

/* whole: the worker does query tiles 0 to i of the head one after the other. */
static void forward_tile(const struct problem *p, real *out, float *lse, float *scratch, int b, int h, int i,
                         bool whole)
{
    int width = p->width, rows = tile_rows(p, i), first = first_key_tile(p, b, i);
    float *scores = scratch, *queries = scores + TILE * TILE, *sums = queries + (ptrdiff_t)width * TILE;
    float *wide = sums + (ptrdiff_t)width * TILE, *values = wide + (ptrdiff_t)width * TILE;
    const real *query = p->qkv + qkv_at(p, b, i * TILE, h),
               *keys = p->qkv + qkv_at(p, b, 0, p->NH + h / p->group), *v = keys + (ptrdiff_t)p->NKV * p->HS;
    struct queries q;
    struct band band;
    first_keys(p, b, i, q.first);
    load_transposed(p, queries, query, p->row, rows);
    for (int r = 0; r < TILE; r++) q.softmax.max[r] = -FLT_MAX, q.softmax.total[r] = 0;
    for (int j = first; j <= i; j++) {
        int columns = tile_rows(p, j);
        ptrdiff_t at = j * TILE * p->row, next = at + TILE * p->row;
        struct tile_how score = {.pairs = p->pairs}, sum = {.pairs = p->pairs,
                                                            .add = j > first,
                                                            .keep = j > first ? q.softmax.keep : NULL};
        band_make(&band, p, q.first, i, j);
        if (!band.whole) score.columns = band.queries, sum.steps = band.keys;
        struct tile_soon soon = {0};
        if (j < i) {
            tile_need_soon(&soon, ahead_of(p, keys + next, p->row, j + 1));
            tile_need_soon(&soon, ahead_of(p, v + next, p->row, j + 1));
        } else {
            tile_need_soon(&soon, ahead_of(p, out + out_at(p, b, i * TILE, h), p->out_row, i));
            if ((i + 1) * TILE < p->T)
                tile_need_soon(&soon, ahead_of(p, query + TILE * p->row, p->row, i + 1));
        }
        score.soon = sum.soon = &soon;
        if (p->amx)
            tile_amx(scores, TILE, tile_rows_of(wide, keys + at, p->row, columns, p->HS), queries, TILE,
                     columns, rows, p->HS, false);
        else
            tile_multiply(scores, TILE, rows_operand(p, wide, keys + at, p->row, columns), queries, TILE,
                          columns, TILE, p->HS, score);
        if (p->amx && j == i) fetch_next(p, query, keys + at, v + at, i);
        if (!band.whole) mask(scores, &band, &q, i, j, columns);
        softmax_step(scores, p->scale * REAL_LOG2_E, &band, &q, rows, columns, p->amx);
        if (p->pairs) tile_round_pairs(scores, NULL, p->amx ? whole_blocks(columns) : columns);
        if (p->amx) {
            if (j > first) tile_scale(sums, q.softmax.keep, p->HS);
            tile_amx(sums, TILE, values_transposed(p, values, v + at, i, j, whole), scores, TILE, p->HS, rows,
                     columns, j > first);
            continue;
        }
        load_rows(p, values, v + at, p->row, columns);
        struct tile_operand probabilities = {scores, 1, TILE, TILE};
        tile_multiply(sums, width, probabilities, values, width, rows, width, columns, sum);
    }
    if (p->amx) {
        float inverse[TILE] = {0};
        for (int r = 0; r < rows; r++) inverse[r] = 1.0f / q.softmax.total[r];
        tile_scale(sums, inverse, p->HS);
        tile_store_transposed(out + out_at(p, b, i * TILE, h), p->out_row, sums, rows, p->HS);
    }
    for (int r = 0; !p->amx && r < rows; r++) {
        real *o = out + out_at(p, b, i * TILE + r, h);
        float inverse = 1.0f / q.softmax.total[r];
        const float *sum = sums + (ptrdiff_t)r * width;
#pragma omp simd
        for (int c = 0; c < p->HS; c++) o[c] = rounded(sum[c] * inverse);
    }
    for (int r = 0; r < rows; r++)
        lse[((ptrdiff_t)b * p->NH + h) * p->T + i * TILE + r] =
            q.softmax.max[r] * p->scale + logf(q.softmax.total[r]);
}

void attention_forward(void *out, float *lse, const void *qkv, const int32_t *positions, void *workspace,
                       int B, int T, int NH, int NKV, int HS, int window, struct stream *stream)
{
    struct problem problem = problem_make(qkv, positions, T, NH, NKV, HS, window, stream);
    long heads = (long)B * NH, next = 0;
    int tiles = attention_tiles(T), threads = stream->threads;
    bool whole = heads >= 8L * threads;
    long tasks = whole ? heads : heads * tiles;
    int workers = attention_workers((size_t)tasks);
#pragma omp parallel num_threads(threads)
    {
        int worker = omp_get_thread_num();
        float *scratch = (float *)workspace + (size_t)worker * attention_worker_floats(HS);
        if (problem.amx) amx_begin();
        for (long task; worker < workers && (task = task_next(&next)) < tasks;) {
            long head = whole ? task : task / tiles;
            int first = whole ? 0 : tiles - 1 - (int)(task % tiles), last = whole ? tiles - 1 : first;
            for (int i = first; i <= last; i++)
                forward_tile(&problem, out, lse, scratch, (int)(head / NH), (int)(head % NH), i, whole);
        }
        if (problem.amx) amx_end();
    }
}
