/* CPU twin of attention: the backward pass; attention.c has the forward pass.
 *
 * A task is one key/value head: all its key tiles, and for each the query tiles below it. dk and dv stay in
 * cache, dq is accumulated in memory. If that gives fewer tasks than threads, or if there is no room for the
 * sums of dq, dk/dv and dq are computed in two passes with a task per tile: 7 products instead of 5. Sums
 * have the same order in both, so the bits are the same.
 *
 * With products of pairs, operands are in bf16: probabilities and ds are rounded, as on a GPU. With AMX, dk
 * and dv are summed transposed. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "kernels/attention_tiles.h"

/* One worker's scratch; every tile has TILE rows of `width`, transposed ones `width` rows of TILE. */
struct backward_scratch {
    float *p, *ds;                                  /* (TILE,TILE): probabilities, and first dp, then ds */
    float *keys, *keys_t, *values_t;                /* of key tile j */
    float *q, *dout;                                /* of query tile i: right operands */
    struct tile_operand q_rows, dout_rows, ds_rows; /* left ones */
    struct tile_rows amx_q, amx_dout;               /* and with AMX, where q and dout are transposed, */
    struct tile_rows q_t, dout_t;                   /* as left ones */
    float *dk, *dv;                                 /* sums for key tile j */
    float *dq;                                      /* of query tile i, if there is no room for dq_sums */
    /* (group,T,width), T as sums_rows says, if there is room: sums, and query tiles as they are loaded
     */
    float *dq_sums, *all_q, *all_dout;
    int first_of[TILE];
    struct band band;
};

/* T in whole groups of rows, with AMX in whole tiles. */
static inline int sums_rows(const struct problem *p)
{
    int each = p->amx ? TILE : TILE_ROWS;
    return (p->T + each - 1) / each * each;
}

/* Floats of dq_sums, of all_q and of all_dout. */
static inline size_t sums_floats(const struct problem *p)
{
    return (size_t)p->group * (size_t)sums_rows(p) * (size_t)p->width;
}

/* Where query tile i of head g of the group is in them. */
static inline size_t sums_at(const struct problem *p, int g, int i)
{
    return ((size_t)g * (size_t)sums_rows(p) + (size_t)i * TILE) * (size_t)p->width;
}

static struct backward_scratch backward_carve(const struct problem *p, float *at, bool with_sums)
{
    size_t width = (size_t)p->width, sums = sums_floats(p);
    struct backward_scratch s = {.p = at, .ds = at + TILE * TILE};
    float **tiles[] = {&s.keys, &s.keys_t, &s.values_t, &s.q, &s.dout, &s.dk, &s.dv, &s.dq, &s.dq_sums};
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++)
        *tiles[i] = s.ds + TILE * TILE + i * TILE * width;
    s.all_q = s.dq_sums + sums, s.all_dout = s.all_q + sums;
    if (!with_sums) s.dq_sums = s.all_q = s.all_dout = NULL;
    return s;
}

static void load_key_tile(const struct problem *p, const struct backward_scratch *s, int b, int kv, int j)
{
    const real *keys = p->qkv + qkv_at(p, b, j * TILE, p->NH + kv),
               *values = keys + (ptrdiff_t)p->NKV * p->HS;
    int rows = tile_rows(p, j);
    load_transposed(p, s->values_t, values, p->row, rows);
    load_transposed(p, s->keys_t, keys, p->row, rows);
    load_rows(p, s->keys, keys, p->row, rows);
    if (p->amx && rows < TILE) {
        int made = (rows + 1) / 2;
        memset(s->keys + (ptrdiff_t)made * p->width, 0,
               sizeof *s->keys * (size_t)((TILE / 2 - made) * p->width));
    }
}

/* q and dout need one half of their room transposed, and the other half for their rows if these are no whole
 * blocks. */
static void amx_query_tile(const struct problem *p, struct backward_scratch *s, const real *q,
                           const real *dout, int rows, bool load)
{
    ptrdiff_t half = (ptrdiff_t)TILE * p->HS / 2;
    s->q_t = (struct tile_rows){s->q, TILE * 2}, s->dout_t = (struct tile_rows){s->dout, TILE * 2};
    if (load) {
        tile_transpose(s->q, q, p->row, rows, p->HS);
        tile_transpose(s->dout, dout, p->out_row, rows, p->HS);
    }
    s->amx_q = tile_rows_of(s->q + half, q, p->row, rows, p->HS);
    s->amx_dout = tile_rows_of(s->dout + half, dout, p->out_row, rows, p->HS);
}

/* Query tile i, to be used with key tile j. */
static void load_query_tile(const struct problem *p, struct backward_scratch *s, int b, int h, int i, int j)
{
    const real *q = p->qkv + qkv_at(p, b, i * TILE, h), *dout = p->dout + out_at(p, b, i * TILE, h);
    int rows = tile_rows(p, i);
    first_keys(p, b, i, s->first_of);
    if (s->all_q) {
        size_t at = sums_at(p, h % p->group, i);
        s->q = s->all_q + at, s->dout = s->all_dout + at;
    }
    bool load = !s->all_q || j == first_key_tile(p, b, i);
    if (p->amx) {
        amx_query_tile(p, s, q, dout, rows, load);
        return;
    }
    if (load) {
        load_rows(p, s->q, q, p->row, rows);
        load_rows(p, s->dout, dout, p->out_row, rows);
    }
    s->q_rows = (struct tile_operand){s->q, p->width, 1, rows};
    s->dout_rows = (struct tile_operand){s->dout, p->width, 1, rows};
    s->ds_rows = (struct tile_operand){s->ds, TILE, 1, rows};
    if (!p->pairs) return;
    s->q_rows = (struct tile_operand){(const tile_word *)q, p->row / 2, 1, rows};
    s->dout_rows = (struct tile_operand){(const tile_word *)dout, p->out_row / 2, 1, rows};
    s->ds_rows = (struct tile_operand){s->p + TILE * TILE / 2, TILE / 2, 1, rows}; /* by score_gradients */
}

static float *means_at(const struct problem *p, int b, int h, int i)
{
    return p->means + ((ptrdiff_t)b * p->NH + h) * p->T + i * TILE;
}

static void make_means(const struct problem *p, int b, int h, int i)
{
    float *means = means_at(p, b, h, i);
    for (int r = 0; r < tile_rows(p, i); r++) {
        ptrdiff_t at = out_at(p, b, i * TILE + r, h);
        means[r] = (float)real_dot(p->dout + at, p->out + at, NULL, p->HS) * p->scale;
    }
}

static void queries_soon(const struct problem *p, struct tile_soon *soon, int b, int h, int i, int j)
{
    tile_need_soon(soon, ahead_of(p, p->qkv + qkv_at(p, b, i * TILE, h), p->row, i));
    tile_need_soon(soon, ahead_of(p, p->dout + out_at(p, b, i * TILE, h), p->out_row, i));
    if (j == first_key_tile(p, b, i))
        tile_need_soon(soon, ahead_of(p, p->out + out_at(p, b, i * TILE, h), p->out_row, i));
}

/* Keys and values of x, which is qkv or dqkv. */
static void keys_soon(const struct problem *p, struct tile_soon *soon, const real *x, int b, int kv, int j)
{
    const real *keys = x + qkv_at(p, b, j * TILE, p->NH + kv);
    tile_need_soon(soon, ahead_of(p, keys, p->row, j));
    tile_need_soon(soon, ahead_of(p, keys + (ptrdiff_t)p->NKV * p->HS, p->row, j));
}

/* Sets a row of p and ds to 0 outside the keys that were computed. */
static void clear_outside(float *prob, float *ds, struct tile_span keys)
{
    for (int c = 0; c < TILE; c += SIMD_LANES)
        if (c + SIMD_LANES <= keys.from || c >= keys.to)
            simd_store(prob + c, (simd_vector){0}), simd_store(ds + c, (simd_vector){0});
}

/* p and ds of query tile i (loaded) against key tile j (loaded). */
static void score_gradients(const struct problem *p, struct backward_scratch *s, struct tile_soon *soon,
                            int b, int h, int i, int j)
{
    int rows = tile_rows(p, i), columns = tile_rows(p, j);
    struct tile_how how = {.pairs = p->pairs, .soon = soon};
    band_make(&s->band, p, s->first_of, i, j);
    if (!s->band.whole) how.columns = s->band.keys;
    if (p->amx) {
        tile_amx(s->p, TILE, s->amx_q, s->keys_t, TILE, rows, columns, p->HS, false);
        tile_amx(s->ds, TILE, s->amx_dout, s->values_t, TILE, rows, columns, p->HS, false);
    } else {
        tile_multiply(s->p, TILE, s->q_rows, s->keys_t, TILE, rows, columns, p->HS, how);
        tile_multiply(s->ds, TILE, s->dout_rows, s->values_t, TILE, rows, columns, p->HS, how);
    }
    const float *lse = p->lse + ((ptrdiff_t)b * p->NH + h) * p->T + i * TILE, *means = means_at(p, b, h, i);
    const float unit = p->scale * REAL_LOG2_E;
    for (int r = 0; r < rows; r++) {
        struct tile_span keys = s->band.whole ? (struct tile_span){0, columns} : s->band.keys[r / TILE_ROWS];
        float *prob = s->p + (ptrdiff_t)r * TILE, *ds = s->ds + (ptrdiff_t)r * TILE;
        int first = s->first_of[r] - j * TILE, last = i == j ? r : TILE;
        for (int c = keys.from / SIMD_LANES * SIMD_LANES; c < keys.to; c += SIMD_LANES) {
            simd_vector e = real_exp2(simd_load(prob + c) * unit - lse[r] * REAL_LOG2_E);
            simd_vector d = e * (simd_load(ds + c) * p->scale - means[r]);
            if (!s->band.whole) {
                simd_truth key = SIMD_COUNT + c, seen = (key >= first) & (key <= last);
                e = (simd_vector)(seen & (simd_truth)e), d = (simd_vector)(seen & (simd_truth)d);
            }
            simd_store(prob + c, e);
            simd_store(ds + c, d);
        }
        if (p->amx && !s->band.whole) clear_outside(prob, ds, keys);
    }
    if (!p->pairs) return;
    int rounded_rows = p->amx ? whole_blocks(rows) : rows; /* AMX has made rows of zeros */
    tile_round_pairs(s->p, NULL, rounded_rows);
    tile_round_pairs(s->ds, (real *)(s->p + TILE * TILE / 2), rounded_rows);
}

static void add_to_dkv(const struct problem *p, const struct backward_scratch *s, struct tile_soon *soon,
                       int i, int j, bool first)
{
    int rows = tile_rows(p, i), columns = tile_rows(p, j), width = p->width;
    if (p->amx) {
        tile_amx(s->dv, TILE, s->dout_t, s->p, TILE, p->HS, columns, rows, !first);
        tile_amx(s->dk, TILE, s->q_t, s->ds, TILE, p->HS, columns, rows, !first);
        return;
    }
    struct tile_how how = {p->pairs, !first, NULL, NULL, s->band.whole ? NULL : s->band.queries, soon};
    struct tile_operand p_t = {s->p, 1, TILE, TILE}, ds_t = {s->ds, 1, TILE, TILE};
    tile_multiply(s->dv, width, p_t, s->dout, width, columns, width, rows, how);
    tile_multiply(s->dk, width, ds_t, s->q, width, columns, width, rows, how);
}

/* sums: of the tile's rows, in rows of `width`; NULL: in dqkv. */
static void add_to_dq(const struct problem *p, const struct backward_scratch *s, float *sums, int b, int h,
                      int i, int j)
{
    int rows = tile_rows(p, i), columns = tile_rows(p, j), width = p->width;
    bool first = j == first_key_tile(p, b, i);
    real *dq = p->dqkv + qkv_at(p, b, i * TILE, h);
    struct tile_how how = {.pairs = p->pairs, .add = !first, .steps = s->band.whole ? NULL : s->band.keys};
    float *to = sums ? sums : s->dq;
    if (!sums && !first) tile_copy(to, width, dq, p->row, rows, p->HS); /* fp32 */
    if (p->amx)
        tile_amx(to, width, (struct tile_rows){s->p + TILE * TILE / 2, TILE * 2}, s->keys, width, rows, p->HS,
                 columns, !first);
    else
        tile_multiply(to, width, s->ds_rows, s->keys, width, rows, width, columns, how);
    for (int r = 0; (!sums || j == i) && r < rows; r++)
        real_round(dq + r * p->row, to + (ptrdiff_t)r * width, p->HS);
}

/* dk and dv of key tile j; with_dq: also adds the tile's part to dq of all rows that see it. */
static void backward_key_tile(const struct problem *p, struct backward_scratch *s, int b, int kv, int j,
                              bool with_dq)
{
    int last = last_query_tile(p, b, j);
    load_key_tile(p, s, b, kv, j);
    for (int g = 0; g < p->group; g++)
        for (int i = j, h = kv * p->group + g; i <= last; i++) {
            load_query_tile(p, s, b, h, i, j);
            struct tile_soon soon = {0};
            if (with_dq && j == first_key_tile(p, b, i)) make_means(p, b, h, i);
            if (i == j) tile_need_soon(&soon, ahead_of(p, p->dqkv + qkv_at(p, b, i * TILE, h), p->row, i));
            if (i == last && g + 1 == p->group) keys_soon(p, &soon, p->dqkv, b, kv, j);
            if (i < last)
                queries_soon(p, &soon, b, h, i + 1, j);
            else if (g + 1 < p->group)
                queries_soon(p, &soon, b, h + 1, j, j);
            else if ((j + 1) * TILE < p->T)
                keys_soon(p, &soon, p->qkv, b, kv, j + 1);
            score_gradients(p, s, &soon, b, h, i, j);
            add_to_dkv(p, s, &soon, i, j, i == j && g == 0);
            if (with_dq) add_to_dq(p, s, s->dq_sums ? s->dq_sums + sums_at(p, g, i) : NULL, b, h, i, j);
        }
    if (p->amx) {
        real *dk = p->dqkv + qkv_at(p, b, j * TILE, p->NH + kv);
        tile_store_transposed(dk, p->row, s->dk, tile_rows(p, j), p->HS);
        tile_store_transposed(dk + (ptrdiff_t)p->NKV * p->HS, p->row, s->dv, tile_rows(p, j), p->HS);
        return;
    }
    for (int r = 0; r < tile_rows(p, j); r++) {
        real *dk = p->dqkv + qkv_at(p, b, j * TILE + r, p->NH + kv), *dv = dk + (ptrdiff_t)p->NKV * p->HS;
        real_round(dk, s->dk + (ptrdiff_t)r * p->width, p->HS);
        real_round(dv, s->dv + (ptrdiff_t)r * p->width, p->HS);
    }
}

static void backward_query_tile(const struct problem *p, struct backward_scratch *s, int b, int h, int i)
{
    load_query_tile(p, s, b, h, i, first_key_tile(p, b, i));
    for (int j = first_key_tile(p, b, i); j <= i; j++) {
        struct tile_soon soon = {0};
        if (j < i) keys_soon(p, &soon, p->qkv, b, h / p->group, j + 1);
        load_key_tile(p, s, b, h / p->group, j);
        score_gradients(p, s, &soon, b, h, i, j);
        add_to_dq(p, s, s->dk, b, h, i, j);
    }
}

void attention_backward(void *dqkv, const void *dout, const void *out, const float *lse, const void *qkv,
                        const int32_t *positions, const float *cos_sin, void *workspace, int B, int T, int NH,
                        int NKV, int HS, int window, struct stream *stream)
{
    struct problem problem = problem_make(qkv, positions, T, NH, NKV, HS, window, stream);
    problem.dqkv = dqkv, problem.dout = dout, problem.out = out, problem.lse = lse;
    int tiles = attention_tiles(T), threads = stream->threads;
    long heads = (long)B * NKV, key_tasks = heads * tiles, query_tasks = (long)B * NH * tiles;
    size_t each = attention_worker_floats(HS), room = attention_scratch_floats(B, T, NH, NKV, HS);
    size_t with_sums = each + 3 * sums_floats(&problem);
    problem.means = (float *)workspace + room;
    bool fits = (size_t)(heads < threads ? heads : threads) * with_sums <= room;
    bool together = (REAL_IS_FLOAT || fits) && (heads + threads - 1) / threads * threads * 5 <= heads * 7;
    fits = fits && together;
    if (fits) each = with_sums;
    long next = 0, tasks = together ? heads : key_tasks + query_tasks;
    int workers = attention_workers((size_t)tasks);
#pragma omp parallel num_threads(threads)
    {
        int worker = omp_get_thread_num();
        struct backward_scratch scratch =
            backward_carve(&problem, (float *)workspace + (size_t)worker * each, fits);
        if (!together)
#pragma omp for schedule(static)
            for (long task = 0; task < query_tasks; task++)
                make_means(&problem, (int)(task / tiles / NH), (int)(task / tiles % NH), (int)(task % tiles));
        if (problem.amx) amx_begin();
        for (long task; worker < workers && (task = task_next(&next)) < tasks;) {
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
        if (problem.amx) amx_end();
    }
    if (cos_sin) rope(dqkv, cos_sin, positions, B, T, NH, NKV, HS, true, stream);
}
