/* CPU twin of attention over the KV cache. Bound by memory for a few rows: the keys and values of a head are
 * read once for all query heads of the group, and for all rows of one sequence that come together.
 *
 * A task is one key/value head and range of keys, for up to TILE queries: the query heads of the group, of
 * one row or of several rows that follow each other in one sequence. For many queries it computes scores
 * transposed (keys in rows, queries in lanes) like the training attention, so that the softmax runs down the
 * columns. For few queries most lanes would be idle: there keys are in the lanes. With one range a task
 * writes its result; else partial results, which a second loop combines. */

#include <float.h>
#include <math.h>
#include <omp.h>
#include <string.h>

#include "kernels/device/cpu_device.h"
#include "kernels/real.h"
#include "kernels/tile.h"
#include "kernels/tile_amx.h"

/* Many queries are padded to a multiple of LANES; FEW queries have their keys in the lanes, QUERIES of them
 * share what is loaded of a key, and the next but AHEAD are fetched. */
enum { LANES = 16, FEW = 8, QUERIES = 4, AHEAD = 32 };

struct problem {
    real *out;
    float *partial;
    const real *qkv, *keys, *values;
    const int32_t *slots, *positions;
    int N, S, NH, NKV, HS, group, width, ranges, range_keys;
    int window; /* keys that a query sees, itself included; S: all */
    bool pairs; /* products are by dot products */
    bool amx;   /* those of many queries are by AMX */
    float unit; /* scores become powers of two: by log2(e), divided by sqrt(HS) */
};

/* The rows and query heads of a task: `columns` queries, those of all heads from `head` on, row by row. */
struct block {
    int row, rows, head, heads, columns;
};

/* One worker's tiles. */
struct tiles {
    float *scores;  /* (TILE keys, TILE queries) */
    float *queries; /* (words, TILE): transposed; of few queries (FEW, width words) */
    float *wide;    /* (TILE keys, width): keys, then values, where they cannot be read where they are */
    float *sums;    /* (TILE queries, width) */
    int position[TILE];
    struct tile_queries softmax;
};

/* from: the row's key heads, then its value heads */
static void store_row(real *keys, real *values, const real *from, int slot, int position, int S, int NKV,
                      int HS)
{
    size_t bytes = (size_t)HS * sizeof(real);
    for (int h = 0; h < NKV; h++) {
        size_t head = (size_t)slot * (size_t)NKV + (size_t)h;
        size_t to = (head * (size_t)S + (size_t)position) * (size_t)HS;
        memcpy(keys + to, from + (size_t)h * (size_t)HS, bytes);
        memcpy(values + to, from + (size_t)(NKV + h) * (size_t)HS, bytes);
    }
}

void cache_store(void *keys_, void *values_, const void *qkv_, const int32_t *slots, const int32_t *positions,
                 int N, int S, int NH, int NKV, int HS, struct stream *stream)
{
    real *keys = keys_, *values = values_;
    const real *qkv = qkv_;
    size_t row = (size_t)(NH + 2 * NKV) * (size_t)HS, heads = (size_t)NH * (size_t)HS;
    if (N == 1) {
        store_row(keys, values, qkv + heads, *slots, *positions, S, NKV, HS);
        return;
    }
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (int n = 0; n < N; n++)
        store_row(keys, values, qkv + (size_t)n * row + heads, slots[n], positions[n], S, NKV, HS);
}

/* The rows from `row` on that share a task: they follow each other in one sequence. */
static int rows_together(const struct problem *p, int row)
{
    int most = p->group < TILE ? TILE / p->group : 1, n = 1;
    while (n < most && row + n < p->N && p->slots[row + n] == p->slots[row] &&
           p->positions[row + n] == p->positions[row] + n)
        n++;
    return n;
}

static float *partial_at(const struct problem *p, int row, int head, int range)
{
    size_t at = ((size_t)row * (size_t)p->NH + (size_t)head) * (size_t)p->ranges + (size_t)range;
    return p->partial + at * (size_t)(p->HS + 2);
}

/* Lanes without a query get the first one. pairs: in words of two. */
static void load_queries(const struct problem *p, struct tiles *t, const struct block *b, int lanes,
                         bool pairs)
{
    ptrdiff_t row = (ptrdiff_t)(p->NH + 2 * p->NKV) * p->HS;
    const real *from[TILE];
    for (int c = 0; c < lanes; c++) {
        int query = c < b->columns ? c : 0, n = b->row + query / b->heads;
        from[c] = p->qkv + n * row + (ptrdiff_t)(b->head + query % b->heads) * p->HS;
        t->position[c] = p->positions[n];
        t->softmax.max[c] = -FLT_MAX;
        t->softmax.total[c] = 0;
    }
    for (int c = 0; b->columns <= FEW && c < b->columns; c++) {
        float *to = t->queries + (ptrdiff_t)c * p->width;
        if (pairs)
            memcpy(to, from[c], (size_t)p->HS * sizeof(real));
        else
            real_widen(to, from[c], p->HS);
    }
    tile_word *to = t->queries;
    for (int i = 0; b->columns > FEW && i < p->HS; i += pairs ? 2 : 1, to += TILE)
        for (int c = 0; c < lanes; c++)
            to[c] = pairs ? *(const tile_word *)(from[c] + i) : widened(from[c][i]);
}

/* Sets the scores of keys from u0 on to minus infinity where the query does not see the key. */
static void mask(const struct problem *p, struct tiles *t, int u0, int keys, int lanes)
{
    for (int k = 0; k < keys; k++) {
        float *row = t->scores + (ptrdiff_t)k * TILE;
        int u = u0 + k;
#pragma omp simd
        for (int c = 0; c < lanes; c++)
            row[c] = u <= t->position[c] && u > t->position[c] - p->window ? row[c] : -INFINITY;
    }
}

/* The keys or values from x on, in fp32 and rows of `width`. */
static const float *wide_rows(const struct problem *p, struct tiles *t, const real *x, int count)
{
#ifndef KERNELS_BF16
    if (p->HS == p->width) return x;
#endif
    tile_copy(t->wide, p->width, x, p->HS, count, p->HS);
    return t->wide;
}

/* sum[q * keys + k] += the products of words i to i + count of query q and key k. */
INLINE void add_words(simd_vector sum[SIMD_LANES], const int queries, const float *query, int width,
                      const real *const key[SIMD_LANES], int i, const int count, const bool pairs)
{
    const int keys = SIMD_LANES / queries;
    simd_vector x[QUERIES];
#pragma GCC unroll 4
    for (int q = 0; q < queries; q++) x[q] = float_at(query + (ptrdiff_t)q * width + i, count);
#pragma GCC unroll 16
    for (int k = 0; k < keys; k++) {
        simd_vector y = pairs ? float_at((const float *)key[k] + i, count) : real_at(key[k] + i, count);
#pragma GCC unroll 4
        for (int q = 0; q < queries; q++) sum[q * keys + k] = words_step(sum[q * keys + k], x[q], y, pairs);
    }
}

/* The scores of 1 or QUERIES queries, from c on, and all keys. Fetches later ones of the `left` keys, and the
 * values, as many rows side by side are too much for the processor's own prefetching. */
INLINE void scores_of_queries(const struct problem *p, struct tiles *t, int c, const int queries,
                              const real *keys, const real *values, int count, int left, const bool pairs)
{
    const int together = SIMD_LANES / queries;
    const float *query = t->queries + (ptrdiff_t)c * p->width;
    for (int k = 0; k < count; k += together) {
        const real *of[SIMD_LANES];
        simd_vector sum[SIMD_LANES] = {{0}};
        float scores[SIMD_LANES];
        for (int i = 0; i < together; i++)
            of[i] = keys + (ptrdiff_t)(k + i < count ? k + i : count - 1) * p->HS;
        if (c == 0 && k + AHEAD < left) real_fetch(keys + (ptrdiff_t)(k + AHEAD) * p->HS, together * p->HS);
        if (c == 0) real_fetch(values + (ptrdiff_t)k * p->HS, together * p->HS);
        EACH_VECTOR(pairs ? p->HS / 2 : p->HS, i, words,
                    add_words(sum, queries, query, p->width, of, i, words, pairs););
        simd_store(scores, simd_totals(sum));
        for (int q = 0; q < queries; q++)
            memcpy(t->scores + (ptrdiff_t)(c + q) * TILE + k, scores + q * together,
                   (size_t)together * sizeof *scores);
    }
}

/* Scores of few queries, in rows of TILE keys; keys that a query does not see have minus infinity. */
static void scores_of_few(const struct problem *p, struct tiles *t, int columns, const real *keys,
                          const real *values, int u0, int count, int left, bool masked)
{
    for (int c = 0, queries; c < columns; c += queries) {
        queries = columns - c >= QUERIES ? QUERIES : 1;
        if (TILE_PAIRS && p->pairs && queries > 1)
            scores_of_queries(p, t, c, QUERIES, keys, values, count, left, true);
        else if (TILE_PAIRS && p->pairs)
            scores_of_queries(p, t, c, 1, keys, values, count, left, true);
        else if (queries > 1)
            scores_of_queries(p, t, c, QUERIES, keys, values, count, left, false);
        else
            scores_of_queries(p, t, c, 1, keys, values, count, left, false);
    }
    for (int c = 0; masked && c < columns; c++) {
        float *row = t->scores + (ptrdiff_t)c * TILE;
        int last = t->position[c];
        for (int k = 0; k < count; k++)
            if (u0 + k > last || u0 + k <= last - p->window) row[k] = -INFINITY;
    }
}

/* tile_softmax for few queries; with pairs, rows of TILE words of two keys. */
static void softmax_of_few(const struct problem *p, struct tiles *t, int columns, int count)
{
    const float unit = p->unit;
    for (int c = 0; c < columns; c++) {
        float *row = t->scores + (ptrdiff_t)c * TILE, before = t->softmax.max[c];
        simd_vector most = (simd_vector){0} - INFINITY, total = {0};
        for (int k = count; k % SIMD_LANES; k++) row[k] = -INFINITY;
        for (int k = 0; k < count; k += SIMD_LANES) most = simd_greater(simd_load(row + k), most);
        float top = simd_greatest(most), max = top > before ? top : before;
        for (int k = 0; k < count; k += SIMD_LANES) {
            simd_vector e = real_exp2((simd_load(row + k) - max) * unit);
            if (p->pairs)
                real_store((real *)row + k, e);
            else
                simd_store(row + k, e);
            total += e;
        }
        float keep = real_exp2((simd_vector){0} + (before - max) * unit)[0];
        t->softmax.keep[c] = keep, t->softmax.max[c] = max;
        t->softmax.total[c] = t->softmax.total[c] * keep + simd_total(total);
    }
}

static void softmax_of_many(const struct problem *p, struct tiles *t, int u0, int count, int lanes,
                            bool masked)
{
    if (masked) mask(p, t, u0, count, lanes);
    for (int lane = 0; lane < lanes; lane += SIMD_LANES)
        tile_softmax(t->scores, p->unit, &t->softmax, lane, 0, count);
}

/* The step of `attend` for many queries and `count` keys from u0 on. The sums are transposed: (HS, TILE). */
static void attend_amx(const struct problem *p, struct tiles *t, const real *key, const real *value, int u0,
                       int count, int lanes, bool masked, bool add)
{
    tile_amx(t->scores, TILE, tile_rows_of(t->wide, key, p->HS, count, p->HS), t->queries, TILE, count, lanes,
             p->HS, false);
    softmax_of_many(p, t, u0, count, lanes, masked);
    tile_round_pairs(t->scores, NULL, whole_blocks(count)); /* AMX has made rows of zeros */
    if (add) tile_scale(t->sums, t->softmax.keep, p->HS);
    tile_amx(t->sums, TILE, tile_transpose(t->wide, value, p->HS, count, p->HS), t->scores, TILE, p->HS,
             lanes, count, add);
}

/* The sums, maxima and totals of the block's queries over the keys [from, to) of the slot's head, which some
 * query sees. */
static void attend(const struct problem *p, struct tiles *t, const struct block *b, size_t head, int from,
                   int to)
{
    bool few = b->columns <= FEW, amx = p->amx && !few;
    int lanes = few ? b->columns : amx ? whole_blocks(b->columns) : (b->columns + LANES - 1) / LANES * LANES;
    int first = p->positions[b->row], last = first + b->rows - 1;
    const real *keys = p->keys + head * (size_t)p->S * (size_t)p->HS;
    const real *values = p->values + head * (size_t)p->S * (size_t)p->HS;
    load_queries(p, t, b, lanes, p->pairs || amx);
    if (amx) amx_begin();
    for (int u0 = from; u0 < to; u0 += TILE) {
        int count = to - u0 < TILE ? to - u0 : TILE;
        const real *key = keys + (ptrdiff_t)u0 * p->HS, *value = values + (ptrdiff_t)u0 * p->HS;
        bool masked = u0 + count - 1 > first || u0 <= last - p->window;
        if (amx) {
            attend_amx(p, t, key, value, u0, count, lanes, masked, u0 > from);
            continue;
        }
        struct tile_how how = {.pairs = p->pairs};
        struct tile_operand probabilities = {t->scores, few ? TILE : 1, few ? 1 : TILE, lanes};
        if (few) {
            scores_of_few(p, t, b->columns, key, value, u0, count, to - u0, masked);
            softmax_of_few(p, t, b->columns, count);
        } else {
            struct tile_operand k = {(const tile_word *)key, p->HS / 2, 1, count};
            if (!p->pairs) k = (struct tile_operand){wide_rows(p, t, key, count), p->width, 1, count};
            tile_multiply(t->scores, TILE, k, t->queries, TILE, count, lanes, p->HS, how);
            softmax_of_many(p, t, u0, count, lanes, masked);
            if (p->pairs) tile_round_pairs(t->scores, NULL, count);
        }
        const float *v = t->wide;
        if (p->pairs)
            tile_copy_pairs(t->wide, p->width, value, p->HS, count, p->HS);
        else
            v = wide_rows(p, t, value, count);
        how.add = u0 > from, how.keep = u0 > from ? t->softmax.keep : NULL;
        tile_multiply(t->sums, p->width, probabilities, v, p->width, b->columns, p->width, count, how);
    }
    if (!amx) return;
    amx_end();
    float *transposed = t->sums;
    t->sums = t->wide, t->wide = transposed;
    tile_columns(t->sums, transposed, lanes, p->HS);
}

static void write_results(const struct problem *p, const struct tiles *t, const struct block *b, int range,
                          bool seen)
{
    for (int c = 0; c < b->columns; c++) {
        int n = b->row + c / b->heads, head = b->head + c % b->heads;
        const float *sum = t->sums + (ptrdiff_t)c * p->width;
        if (p->ranges == 1) {
            real *out = p->out + ((size_t)n * (size_t)p->NH + (size_t)head) * (size_t)p->HS;
            float scale = 1.0f / t->softmax.total[c];
#pragma omp simd
            for (int i = 0; i < p->HS; i++) out[i] = rounded(seen ? sum[i] * scale : 0.0f);
            continue;
        }
        float *to = partial_at(p, n, head, range);
#pragma omp simd
        for (int i = 0; i < p->HS; i++) to[i] = seen ? sum[i] : 0.0f;
        to[p->HS] = seen ? t->softmax.max[c] * p->unit : -INFINITY;
        to[p->HS + 1] = seen ? t->softmax.total[c] : 0.0f;
    }
}

static void run_task(const struct problem *p, struct tiles *t, const struct block *b, int kv, int range)
{
    int first = p->positions[b->row], end = first + b->rows; /* of the keys that any row sees */
    int from = range * p->range_keys, to = p->ranges == 1 ? end : from + p->range_keys;
    int least = first >= p->window ? (first - p->window + 1) / TILE * TILE : 0;
    if (from < least) from = least;
    if (to > end) to = end;
    if (from < to) attend(p, t, b, (size_t)p->slots[b->row] * (size_t)p->NKV + (size_t)kv, from, to);
    write_results(p, t, b, range, from < to);
}

/* out = the weighted mean of the ranges' results. A range that saw no key counts nothing. */
static void combine(const struct problem *p, int row, int head)
{
    const float *partial = partial_at(p, row, head, 0);
    float max = -INFINITY, total = 0, sum[HEAD_MAX];
    ptrdiff_t step = p->HS + 2;
    for (int r = 0; r < p->ranges; r++) {
        float of = partial[r * step + p->HS];
        max = of > max ? of : max;
    }
    memset(sum, 0, (size_t)p->HS * sizeof *sum);
    for (int r = 0; r < p->ranges; r++) {
        const float *of = partial + r * step;
        float weight = real_exp2((simd_vector){0} + (of[p->HS] - max))[0];
        total += weight * of[p->HS + 1];
#pragma omp simd
        for (int i = 0; i < p->HS; i++) sum[i] += weight * of[i];
    }
    real *out = p->out + ((size_t)row * (size_t)p->NH + (size_t)head) * (size_t)p->HS;
    float inverse = 1.0f / total;
#pragma omp simd
    for (int i = 0; i < p->HS; i++) out[i] = rounded(sum[i] * inverse);
}

static struct tiles carve(float *at, int width)
{
    struct tiles t = {.scores = at, .queries = at + TILE * TILE};
    t.wide = t.queries + (ptrdiff_t)width * TILE;
    t.sums = t.wide + (ptrdiff_t)width * TILE;
    return t;
}

/* Goes through all tasks and runs every one whose number is the next of the threads' common counter. */
static void work(const struct problem *p, struct tiles *t, long *next)
{
    int parts = attention_group_parts(p->NH, p->NKV), each = (p->group + parts - 1) / parts;
    long mine = task_next(next), task = 0;
    for (int row = 0, rows; row < p->N; row += rows) {
        rows = rows_together(p, row);
        for (int kv = 0; kv < p->NKV; kv++)
            for (int head = 0; head < p->group; head += each)
                for (int range = 0; range < p->ranges; range++, task++) {
                    if (task != mine) continue;
                    int heads = p->group - head < each ? p->group - head : each;
                    struct block b = {row, rows, kv * p->group + head, heads, rows * heads};
                    run_task(p, t, &b, kv, range);
                    mine = task_next(next);
                }
    }
}

void attention_cached(void *out, const void *qkv, const void *keys, const void *values, const int32_t *slots,
                      const int32_t *positions, void *workspace, int N, int longest, int S, int NH, int NKV,
                      int HS, int window, struct stream *stream)
{
    int ranges = attention_ranges(N, longest, NKV), workers = attention_cached_workers(N, longest, NH, NKV);
    struct problem problem = {.out = out,
                              .partial = workspace,
                              .qkv = qkv,
                              .keys = keys,
                              .values = values,
                              .slots = slots,
                              .positions = positions,
                              .N = N,
                              .window = attention_window(window, S),
                              .S = S,
                              .NH = NH,
                              .NKV = NKV,
                              .HS = HS,
                              .group = NH / NKV,
                              .width = attention_width(HS),
                              .ranges = ranges,
                              .range_keys = attention_range_keys(ranges, longest),
                              .pairs = TILE_PAIRS && stream->product_way == WAY_DOTS && HS % 2 == 0,
                              .amx = TILE_PAIRS && stream->product_way == WAY_AMX && HS % TILE_AMX == 0,
                              .unit = (float)(1.4426950408889634 / sqrt((double)HS))};
    float *scratch = problem.partial + attention_partial_floats(N, longest, NH, NKV, HS);
    long next = 0;
#pragma omp parallel num_threads(stream->threads)
    {
        int worker = omp_get_thread_num();
        if (worker < workers) {
            struct tiles tiles =
                carve(scratch + (size_t)worker * attention_cached_worker_floats(HS), problem.width);
            work(&problem, &tiles, &next);
        }
#pragma omp barrier
#pragma omp for schedule(static)
        for (int i = 0; i < N * NH; i++)
            if (ranges > 1) combine(&problem, i / NH, i % NH);
    }
}
