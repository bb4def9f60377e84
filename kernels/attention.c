/* CPU twin of attention, in tiles of TILE query rows by TILE key rows. Compute-bound: 4·HS operations per
 * score forward, 10·HS backward, half of all scores each; tiles of keys that no query of the tile sees are
 * skipped: above the diagonal, before the window, before the sequence. Their edges are masked in the tiles
 * that they cross.
 *
 * Forward: a task is one tile of queries of one head. Scores are computed transposed (keys in rows, queries
 * in lanes), so that the softmax runs down the columns without sums across lanes, and only q has to be
 * transposed, once.
 *
 * Backward: a task is one key/value head: all its key tiles, and for each the query tiles below it. dk and dv
 * stay in cache, dq is accumulated in memory. If that gives fewer tasks than threads, or if memory is bf16,
 * dk/dv and dq are computed in two passes with a task per tile: 7 products instead of 5. Sums have the same
 * order in both, so the bits are the same. */

#include <float.h>
#include <math.h>
#include <omp.h>
#include <string.h>

#include "kernels/device/cpu_device.h"
#include "kernels/real.h"
#include "kernels/tile.h"

struct problem {
    const real *qkv, *out, *dout;
    const float *lse;
    const int32_t *positions; /* (B,T), or NULL */
    real *dqkv;
    int T, NH, NKV, HS, group, width; /* width: HS rounded up to whole vectors */
    int window;                       /* keys that a query sees, itself included; T: all */
    ptrdiff_t row, out_row;           /* elements from a position to the next in qkv and in out */
    float scale;
};

static struct problem problem_make(const real *qkv, const int32_t *positions, int T, int NH, int NKV, int HS,
                                   int window)
{
    return (struct problem){
        .qkv = qkv,
        .positions = positions,
        .T = T,
        .NH = NH,
        .NKV = NKV,
        .HS = HS,
        .group = NH / NKV,
        .width = attention_width(HS),
        .window = attention_window(window, T),
        .row = (ptrdiff_t)(NH + 2 * NKV) * HS,
        .out_row = (ptrdiff_t)NH * HS,
        .scale = (float)(1.0 / sqrt((double)HS)),
    };
}

/* Offset of a head's row t in qkv and in out. */
static inline ptrdiff_t qkv_at(const struct problem *p, int b, int t, int head)
{
    return ((ptrdiff_t)b * p->T + t) * p->row + (ptrdiff_t)head * p->HS;
}

static inline ptrdiff_t out_at(const struct problem *p, int b, int t, int head)
{
    return ((ptrdiff_t)b * p->T + t) * p->out_row + (ptrdiff_t)head * p->HS;
}

static inline int tile_rows(const struct problem *p, int tile)
{
    int left = p->T - tile * TILE;
    return left < TILE ? left : TILE;
}

/* The first key that query t sees. It only grows with t. */
static inline int first_key(const struct problem *p, int b, int t)
{
    int reach = t < p->window ? t + 1 : p->window;
    int position = p->positions ? p->positions[(ptrdiff_t)b * p->T + t] : t;
    return t + 1 - (position < reach ? position + 1 : reach);
}

/* The first key tile that query tile i sees, and the last query tile that sees key tile j. */
static inline int first_key_tile(const struct problem *p, int b, int i)
{
    return first_key(p, b, i * TILE) / TILE;
}

static inline int last_query_tile(const struct problem *p, int b, int j)
{
    int key = j * TILE + tile_rows(p, j) - 1, low = key, high = key + p->window - 1;
    if (high >= p->T) high = p->T - 1;
    while (p->positions && low < high) { /* the last query that sees the tile's last key */
        int middle = low + (high - low + 1) / 2;
        if (first_key(p, b, middle) <= key)
            low = middle;
        else
            high = middle - 1;
    }
    return high / TILE;
}

/* first (TILE): the first key of each query of tile i; past the tile's rows, that of the last one. */
static inline void first_keys(const struct problem *p, int b, int i, int *first)
{
    for (int r = 0, rows = tile_rows(p, i); r < TILE; r++)
        first[r] = first_key(p, b, i * TILE + (r < rows ? r : rows - 1));
}

/* Threads that work: at most as many as attention_workspace has scratch for. */
static inline int worker_count(long tasks)
{
    return tasks < ATTENTION_WORKERS_MAX ? (int)tasks : ATTENTION_WORKERS_MAX;
}

/* ---- forward ---- */

/* One step of the online softmax over scores (columns, TILE): keys from `key` on in rows, queries in lanes.
 * Query r sees keys from first_of[r] on. On return scores hold exp(score − max); max, total and keep (TILE
 * each) are per query, and keep is the factor for earlier sums. */
static void softmax_step(float *scores, int columns, bool diagonal, int key, const int *first_of, float *max,
                         float *total, float *keep)
{
    float top[TILE];
    int unseen = first_of[TILE - 1] <= key ? TILE : 0; /* queries from here on are past key c */
    memcpy(top, max, sizeof top);
    for (int c = 0; c < columns; c++) {
        float *row = scores + (ptrdiff_t)c * TILE;
        while (unseen < TILE && first_of[unseen] <= key + c) unseen++;
        for (int r = unseen; r < TILE; r++) row[r] = -INFINITY;
        int first = diagonal ? c / 16 * 16 : 0; /* queries before c do not see key c */
        for (int r = first; diagonal && r < c; r++) row[r] = -INFINITY;
        for (int v = first; v < TILE; v += 16)
#pragma omp simd
            for (int r = v; r < v + 16; r++) top[r] = row[r] > top[r] ? row[r] : top[r];
    }
#pragma omp simd
    for (int r = 0; r < TILE; r++) {
        keep[r] = simd_exp_softmax(max[r] - top[r]);
        max[r] = top[r];
        total[r] *= keep[r];
    }
    for (int c = 0; c < columns; c++) {
        float *row = scores + (ptrdiff_t)c * TILE;
        for (int v = diagonal ? c / 16 * 16 : 0; v < TILE; v += 16)
#pragma omp simd
            for (int r = v; r < v + 16; r++) {
                float e = simd_exp_softmax(row[r] - top[r]);
                row[r] = e;
                total[r] += e;
            }
    }
}

static void forward_tile(const struct problem *p, real *out, float *lse, float *scratch, int b, int h, int i)
{
    int width = p->width, rows = tile_rows(p, i), kv = p->NH + h / p->group;
    float *scores = scratch, *queries = scores + TILE * TILE, *values = queries + (ptrdiff_t)width * TILE;
    float *sums = values + (ptrdiff_t)width * TILE, *wide = sums + (ptrdiff_t)width * TILE;
    float max[TILE], total[TILE], keep[TILE];
    int first_of[TILE];
    first_keys(p, b, i, first_of);
    tile_transpose(queries, p->qkv + qkv_at(p, b, i * TILE, h), p->row, rows, p->HS, p->scale);
    /* not -INFINITY: a query may see none of the first tile's keys */
    for (int r = 0; r < TILE; r++) max[r] = -FLT_MAX, total[r] = 0;
    int first = first_key_tile(p, b, i);
    for (int j = first; j <= i; j++) {
        int columns = tile_rows(p, j);
        struct tile_operand keys =
            tile_rows_of(wide, width, p->qkv + qkv_at(p, b, j * TILE, kv), p->row, columns, p->HS);
        tile_multiply(scores, TILE, keys, queries, TILE, columns, TILE, p->HS, false,
                      i == j ? TILE_COLUMNS_FROM_ROW : TILE_ALL);
        softmax_step(scores, columns, i == j, j * TILE, first_of, max, total, keep);
        tile_copy(values, width, p->qkv + qkv_at(p, b, j * TILE, kv + p->NKV), p->row, columns, p->HS);
        for (int r = 0; j > first && r < rows; r++) {
            float *sum = sums + (ptrdiff_t)r * width;
#pragma omp simd
            for (int c = 0; c < width; c++) sum[c] *= keep[r];
        }
        struct tile_operand probabilities = {scores, 1, TILE, TILE};
        tile_multiply(sums, width, probabilities, values, width, rows, width, columns, j > first,
                      i == j ? TILE_STEPS_TO_ROW : TILE_ALL);
    }
    for (int r = 0; r < rows; r++) {
        real *o = out + out_at(p, b, i * TILE + r, h);
        float inverse = 1.0f / total[r];
        const float *sum = sums + (ptrdiff_t)r * width;
#pragma omp simd
        for (int c = 0; c < p->HS; c++) o[c] = rounded(sum[c] * inverse);
        lse[((ptrdiff_t)b * p->NH + h) * p->T + i * TILE + r] = max[r] + logf(total[r]);
    }
}

void attention_forward(void *out_, float *lse, const void *qkv_, const int32_t *positions, void *workspace,
                       int B, int T, int NH, int NKV, int HS, int window, struct stream *stream)
{
    real *out = out_;
    const real *qkv = qkv_;
    struct problem problem = problem_make(qkv, positions, T, NH, NKV, HS, window);
    int tiles = attention_tiles(T);
    long tasks = (long)B * NH * tiles, next = 0;
    int workers = worker_count(tasks);
#pragma omp parallel num_threads(stream->threads)
    {
        int worker = omp_get_thread_num();
        float *scratch = (float *)workspace + (size_t)worker * attention_worker_floats(HS);
        while (worker < workers) {
            long task;
#pragma omp atomic capture
            task = next++;
            if (task >= tasks) break;
            long head = task / tiles;
            forward_tile(&problem, out, lse, scratch, (int)(head / NH), (int)(head % NH),
                         tiles - 1 - (int)(task % tiles));
        }
    }
}

/* ---- backward ---- */

/* One worker's scratch; every tile has TILE rows of `width`, transposed ones `width` rows of TILE. */
struct backward_scratch {
    float *p, *ds;                   /* (TILE,TILE): probabilities, and first dp, then ds */
    float *keys, *keys_t, *values_t; /* of key tile j */
    float *q, *dout;                 /* of query tile i */
    float *dk, *dv;                  /* sums for key tile j */
    float *dq; /* the part of key tile j in dq of query tile i; in bf16 their sum is in dk */
};

static struct backward_scratch backward_carve(float *at, int width)
{
    struct backward_scratch s;
    ptrdiff_t tile = (ptrdiff_t)TILE * width;
    s.p = at;
    s.ds = s.p + TILE * TILE;
    s.keys = s.ds + TILE * TILE;
    s.keys_t = s.keys + tile;
    s.values_t = s.keys_t + tile;
    s.q = s.values_t + tile;
    s.dout = s.q + tile;
    s.dk = s.dout + tile;
    s.dv = s.dk + tile;
    s.dq = s.dv + tile;
    return s;
}

static void load_key_tile(const struct problem *p, const struct backward_scratch *s, int b, int kv, int j)
{
    const real *keys = p->qkv + qkv_at(p, b, j * TILE, p->NH + kv),
               *values = keys + (ptrdiff_t)p->NKV * p->HS;
    int rows = tile_rows(p, j);
    tile_copy(s->keys, p->width, keys, p->row, rows, p->HS);
    tile_transpose(s->keys_t, keys, p->row, rows, p->HS, 1.0f);
    tile_transpose(s->values_t, values, p->row, rows, p->HS, 1.0f);
}

static void load_query_tile(const struct problem *p, const struct backward_scratch *s, int b, int h, int i)
{
    tile_copy(s->q, p->width, p->qkv + qkv_at(p, b, i * TILE, h), p->row, tile_rows(p, i), p->HS);
    tile_copy(s->dout, p->width, p->dout + out_at(p, b, i * TILE, h), p->out_row, tile_rows(p, i), p->HS);
}

/* p and ds of query tile i (loaded) against key tile j (loaded). */
static void score_gradients(const struct problem *p, const struct backward_scratch *s, int b, int h, int i,
                            int j)
{
    int rows = tile_rows(p, i), columns = tile_rows(p, j), width = p->width;
    enum tile_part part = i == j ? TILE_COLUMNS_TO_ROW : TILE_ALL;
    struct tile_operand q = {s->q, width, 1, rows}, dout = {s->dout, width, 1, rows};
    tile_multiply(s->p, TILE, q, s->keys_t, TILE, rows, columns, p->HS, false, part);
    tile_multiply(s->ds, TILE, dout, s->values_t, TILE, rows, columns, p->HS, false, part);
    for (int r = 0; r < rows; r++) {
        int t = i * TILE + r, before = first_key(p, b, t) - j * TILE, seen = i == j ? r + 1 : columns;
        float buf[REAL_IS_FLOAT ? 1 : HEAD_MAX];
        const float *out = as_floats(buf, p->out + out_at(p, b, t, h), p->HS),
                    *dr = s->dout + (ptrdiff_t)r * width;
        float *prob = s->p + (ptrdiff_t)r * TILE, *ds = s->ds + (ptrdiff_t)r * TILE;
        float D = (float)simd_dot(dr, out, NULL, p->HS), l = p->lse[((ptrdiff_t)b * p->NH + h) * p->T + t],
              scale = p->scale;
        for (int v = 0; v < seen; v += 16) /* whole vectors; elements past `seen` become 0 below */
#pragma omp simd
            for (int c = v; c < v + 16; c++) {
                float e = simd_exp_softmax(prob[c] * scale - l);
                prob[c] = e;
                ds[c] = e * (ds[c] - D) * scale;
            }
        for (int c = seen; c < TILE; c++) prob[c] = ds[c] = 0;
        for (int c = 0; c < before && c < TILE; c++) prob[c] = ds[c] = 0;
    }
}

static void add_to_dkv(const struct problem *p, const struct backward_scratch *s, int i, int j, bool first)
{
    int rows = tile_rows(p, i), columns = tile_rows(p, j), width = p->width;
    enum tile_part part = i == j ? TILE_STEPS_FROM_ROW : TILE_ALL;
    struct tile_operand p_t = {s->p, 1, TILE, TILE}, ds_t = {s->ds, 1, TILE, TILE};
    tile_multiply(s->dv, width, p_t, s->dout, width, columns, width, rows, !first, part);
    tile_multiply(s->dk, width, ds_t, s->q, width, columns, width, rows, !first, part);
}

static void add_to_dq(const struct problem *p, const struct backward_scratch *s, int b, int h, int i, int j)
{
    int rows = tile_rows(p, i), columns = tile_rows(p, j), width = p->width;
    struct tile_operand ds = {s->ds, TILE, 1, rows};
    tile_multiply(s->dq, width, ds, s->keys, width, rows, width, columns, false,
                  i == j ? TILE_STEPS_TO_ROW : TILE_ALL);
    for (int r = 0; r < rows; r++) {
        real *dq = p->dqkv + qkv_at(p, b, i * TILE + r, h);
        float *sum = real_target(s->dk + (ptrdiff_t)r * width, dq);
        const float *more = s->dq + (ptrdiff_t)r * width;
        if (j == first_key_tile(p, b, i))
            memcpy(sum, more, (size_t)p->HS * sizeof *sum);
        else
#pragma omp simd
            for (int c = 0; c < p->HS; c++) sum[c] += more[c];
        if (j == i) real_round(dq, sum, p->HS);
    }
}

/* dk and dv of key tile j; with_dq: also adds the tile's part to dq of all rows that see it. */
static void backward_key_tile(const struct problem *p, const struct backward_scratch *s, int b, int kv, int j,
                              bool with_dq)
{
    int last = last_query_tile(p, b, j);
    load_key_tile(p, s, b, kv, j);
    for (int h = kv * p->group; h < (kv + 1) * p->group; h++)
        for (int i = j; i <= last; i++) {
            load_query_tile(p, s, b, h, i);
            score_gradients(p, s, b, h, i, j);
            add_to_dkv(p, s, i, j, i == j && h == kv * p->group);
            if (with_dq) add_to_dq(p, s, b, h, i, j);
        }
    for (int r = 0; r < tile_rows(p, j); r++) {
        real *dk = p->dqkv + qkv_at(p, b, j * TILE + r, p->NH + kv), *dv = dk + (ptrdiff_t)p->NKV * p->HS;
        real_round(dk, s->dk + (ptrdiff_t)r * p->width, p->HS);
        real_round(dv, s->dv + (ptrdiff_t)r * p->width, p->HS);
    }
}

static void backward_query_tile(const struct problem *p, const struct backward_scratch *s, int b, int h,
                                int i)
{
    load_query_tile(p, s, b, h, i);
    for (int j = first_key_tile(p, b, i); j <= i; j++) {
        load_key_tile(p, s, b, h / p->group, j);
        score_gradients(p, s, b, h, i, j);
        add_to_dq(p, s, b, h, i, j);
    }
}

void attention_backward(void *dqkv_, const void *dout_, const void *out_, const float *lse, const void *qkv_,
                        const int32_t *positions, void *workspace, int B, int T, int NH, int NKV, int HS,
                        int window, struct stream *stream)
{
    real *dqkv = dqkv_;
    const real *dout = dout_, *out = out_, *qkv = qkv_;
    struct problem problem = problem_make(qkv, positions, T, NH, NKV, HS, window);
    problem.dqkv = dqkv, problem.dout = dout, problem.out = out, problem.lse = lse;
    int tiles = attention_tiles(T), threads = stream->threads;
    long heads = (long)B * NKV, key_tasks = heads * tiles, query_tasks = (long)B * NH * tiles;
    bool together = REAL_IS_FLOAT && (heads + threads - 1) / threads * threads * 5 <= heads * 7;
    long next = 0, tasks = together ? heads : key_tasks + query_tasks;
    int workers = worker_count(tasks);
#pragma omp parallel num_threads(threads)
    {
        int worker = omp_get_thread_num();
        struct backward_scratch scratch =
            backward_carve((float *)workspace + (size_t)worker * attention_worker_floats(HS), problem.width);
        while (worker < workers) {
            long task;
#pragma omp atomic capture
            task = next++;
            if (task >= tasks) break;
            if (together) {
                for (int j = 0; j < tiles; j++)
                    backward_key_tile(&problem, &scratch, (int)(task / NKV), (int)(task % NKV), j, true);
            } else if (task < key_tasks) {
                long head = task / tiles;
                backward_key_tile(&problem, &scratch, (int)(head / NKV), (int)(head % NKV),
                                  (int)(task % tiles), false);
            } else {
                long head = (task - key_tasks) / tiles;
                backward_query_tile(&problem, &scratch, (int)(head / NH), (int)(head % NH),
                                    tiles - 1 - (int)((task - key_tasks) % tiles));
            }
        }
    }
}
