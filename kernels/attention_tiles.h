/* Shared by the forward and backward pass of the CPU's attention: the sizes, which keys a query sees, and
 * loading tiles. Private to the CPU twins. */
#ifndef ANNEAL_KERNELS_ATTENTION_TILES_H
#define ANNEAL_KERNELS_ATTENTION_TILES_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "kernels/device/cpu_device.h"
#include "kernels/real.h"
#include "kernels/tile.h"
#include "kernels/tile_amx.h"

struct problem {
    const real *qkv, *out, *dout;
    const float *lse;
    const int32_t *positions; /* (B,T), or NULL */
    real *dqkv;
    bool pairs;                       /* products are of pairs in bf16: by dot products or */
    bool amx;                         /* AMX */
    float *means;                     /* (B,NH,T): dout · out, divided by sqrt(HS) */
    int T, NH, NKV, HS, group, width; /* width: HS rounded up to whole vectors */
    int window;                       /* keys that a query sees, itself included; T: all */
    ptrdiff_t row, out_row;           /* elements from a position to the next in qkv and in out */
    float scale;
};

static inline struct problem problem_make(const real *qkv, const int32_t *positions, int T, int NH, int NKV,
                                          int HS, int window, const struct stream *stream)
{
    bool amx = TILE_PAIRS && stream->product_way == WAY_AMX && HS % TILE_AMX == 0;
    return (struct problem){
        .qkv = qkv,
        .positions = positions,
        .pairs = TILE_PAIRS && (amx || (stream->product_way == WAY_DOTS && HS % 2 == 0)),
        .amx = amx,
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

/* The part of a tile of scores that is needed, if that is not all. */
struct band {
    bool whole;                            /* every query of the tile sees every key; else: */
    struct tile_span keys[TILE_GROUPS];    /* that any of four queries sees */
    struct tile_span queries[TILE_GROUPS]; /* that see any of four keys */
};

/* first (TILE): the first key of each query of tile i; past the tile's rows, that of the last one. */
static inline void first_keys(const struct problem *p, int b, int i, int *first)
{
    for (int r = 0, rows = tile_rows(p, i); r < TILE; r++)
        first[r] = first_key(p, b, i * TILE + (r < rows ? r : rows - 1));
}

/* first_of (TILE): what first_keys gives for query tile i. */
static inline void band_make(struct band *band, const struct problem *p, const int *first_of, int i, int j)
{
    int rows = tile_rows(p, i), columns = tile_rows(p, j), base = j * TILE, seeing = 0;
    band->whole = i > j && first_of[TILE - 1] <= base;
    for (int g = 0; !band->whole && g < TILE_GROUPS; g++) {
        int at = g * TILE_ROWS, first = first_of[at] - base;
        struct tile_span *keys = &band->keys[g], *queries = &band->queries[g];
        keys->to = i == j && at + TILE_ROWS < columns ? at + TILE_ROWS : columns;
        keys->from = first < 0 ? 0 : first < keys->to ? first : keys->to;
        while (seeing < rows && first_of[seeing] < base + at + TILE_ROWS) seeing++;
        queries->to = seeing;
        queries->from = i != j ? 0 : at < seeing ? at : seeing;
    }
}

/* The rows of a tile of qkv, out, or dout, in the cache before they are needed. */
static inline struct tile_ahead ahead_of(const struct problem *p, const real *rows, ptrdiff_t step, int tile)
{
    return (struct tile_ahead){(const char *)rows, step * (ptrdiff_t)sizeof(real), tile_rows(p, tile),
                               p->HS * (int)sizeof(real)};
}

/* to (words, TILE) = the words of rows of a head, transposed. */
static inline void load_transposed(const struct problem *p, float *to, const real *rows, ptrdiff_t step,
                                   int count)
{
    const ptrdiff_t each = (ptrdiff_t)sizeof(real);
    struct lines lines = {(const char *)rows, step * each, each, (int)each};
    enum form form = p->pairs ? FORM_PAIRS : REAL_IS_FLOAT ? FORM_FLOATS : FORM_WIDENED;
    pack((uint32_t *)to, TILE, &lines, 0, 0, count, p->HS, form);
}

/* to (TILE, width; TILE/2 with pairs) = rows of a head. */
static inline void load_rows(const struct problem *p, float *to, const real *rows, ptrdiff_t step, int count)
{
    if (p->pairs)
        tile_copy_pairs(to, p->width, rows, step, count, p->HS);
    else
        tile_copy(to, p->width, rows, step, count, p->HS);
}

/* Rows of a head as the left operand of a product over HS: where they are, or, widened, in `wide`. */
static inline struct tile_operand rows_operand(const struct problem *p, float *wide, const real *rows,
                                               ptrdiff_t step, int count)
{
    const int each = p->pairs ? 2 : 1;
    if (p->pairs || REAL_IS_FLOAT)
        return (struct tile_operand){(const tile_word *)rows, step / each, 1, count};
    tile_copy(wide, p->width, rows, step, count, p->HS);
    return (struct tile_operand){wide, p->width, 1, count};
}

#endif
