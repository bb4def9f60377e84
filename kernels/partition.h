/* How work is divided, on every device, and the workspace for that. The order of additions depends on the
 * shape alone, never on threads or multiprocessors, so results do not depend on them either. The planner uses
 * the sizes, in bytes, before anything is allocated. */
#ifndef ANNEAL_KERNELS_PARTITION_H
#define ANNEAL_KERNELS_PARTITION_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/moments.h"

/* Row reductions (weight gradients of norms and biases) add up partial sums of at most this many chunks. */
#define ROW_CHUNKS_MAX 64

/* Rows per chunk: at least 16, to limit the partial sums of small problems. */
static inline int row_chunk_rows(int rows)
{
    int each = (rows + ROW_CHUNKS_MAX - 1) / ROW_CHUNKS_MAX;
    return each < 16 ? 16 : each;
}

static inline int row_chunk_count(int rows)
{
    int each = row_chunk_rows(rows);
    return (int)(((long)rows + each - 1) / each);
}

/* Workspace for the sums of `columns` columns. */
static inline size_t row_chunk_workspace(int rows, int columns)
{
    return (size_t)row_chunk_count(rows) * (size_t)columns * sizeof(float);
}

/* Weight gradients of RMSNorm, over rows or over heads: the CPU adds up chunks of rows as above. A GPU has a
 * block per chunk, and needs more of them to fill its multiprocessors. */
#define NORM_CHUNKS_MAX 1024

static inline int norm_chunk_rows(int rows)
{
    int each = (rows + NORM_CHUNKS_MAX - 1) / NORM_CHUNKS_MAX;
    return each < 8 ? 8 : each;
}

static inline int norm_chunk_count(int rows)
{
    return (rows + norm_chunk_rows(rows) - 1) / norm_chunk_rows(rows);
}

static inline size_t rmsnorm_backward_workspace(int rows, int columns)
{
    return (size_t)norm_chunk_count(rows) * (size_t)columns * sizeof(float);
}

/* A GPU sorts the positions of tokens, from one half of this to the other. */
static inline size_t embedding_backward_workspace(int rows)
{
    return 2 * (size_t)rows * sizeof(int32_t);
}

/* Flat reductions add up one fp64 partial sum per this many elements. */
#define REDUCE_CHUNK ((size_t)65536)

static inline size_t reduce_chunk_count(size_t n)
{
    return (n + REDUCE_CHUNK - 1) / REDUCE_CHUNK;
}

static inline size_t reduce_workspace(size_t n)
{
    return reduce_chunk_count(n) * sizeof(double);
}

/* A range of n elements is cut into a slice for each rank. Vectors of any kernel are aligned at the beginning
 * of one, and blocks of 8-bit moments (moments.h) are not cut. */
static inline size_t slice_elements(size_t n, int ranks)
{
    const size_t unit = MOMENT_BLOCK, slices = ranks > 1 ? (size_t)ranks : 1,
                 each = (n + slices - 1) / slices;
    return slices > 1 ? (each + unit - 1) / unit * unit : each;
}

/* Of n elements, which lie at [from, from + n) of a range in slices of `slice`: those in a rank's slice. */
struct slice_part {
    size_t first, count;
};
static inline struct slice_part slice_part_of(size_t n, size_t from, size_t slice, int rank)
{
    size_t begin = (size_t)rank * slice, end = begin + slice;
    if (begin < from) begin = from;
    if (end > from + n) end = from + n;
    return begin < end ? (struct slice_part){begin - from, end - begin} : (struct slice_part){0, 0};
}

/* Ranks add up a flat range piece by piece, with room for what the others send of one. */
#define ALL_REDUCE_PIECE ((size_t)1 << 20)

static inline size_t all_reduce_workspace(size_t n, int ranks)
{
    return ((n < ALL_REDUCE_PIECE ? n : ALL_REDUCE_PIECE) + (size_t)ranks) * sizeof(float);
}

/* Room for what the ranks send of a slice; nothing is longer than a slice. */
static inline size_t reduce_slices_workspace(size_t n, size_t slice, int ranks)
{
    return (n < slice ? n : slice) * (size_t)ranks * sizeof(float);
}

/* The CPU's attention works in square tiles of scores, with at most ATTENTION_WORKERS_MAX threads, each with
 * its own scratch. */
#define ATTENTION_TILE        64
#define ATTENTION_WORKERS_MAX 64

static inline int attention_tiles(int T)
{
    return (T + ATTENTION_TILE - 1) / ATTENTION_TILE;
}

/* HS rounded up to whole vectors, for any instruction set. */
static inline int attention_width(int HS)
{
    return (HS + 15) / 16 * 16;
}

/* The keys that a query sees at most, itself included, for the `window` of an operation (0: all of T). */
static inline int attention_window(int window, int T)
{
    return window > 0 && window < T ? window : T;
}

/* The pairs of a query and a key that it sees, in a sequence of T. */
static inline int64_t attention_pairs(int64_t T, int64_t window)
{
    int64_t W = window > 0 && window < T ? window : T;
    return W * (W + 1) / 2 + (T - W) * W;
}

/* Floats of one worker's scratch: two tiles of scores, and eight of ATTENTION_TILE rows of head width. */
static inline size_t attention_worker_floats(int HS)
{
    return ATTENTION_TILE * (size_t)(2 * ATTENTION_TILE + 8 * attention_width(HS));
}

/* Threads that work on so many tasks. */
static inline int attention_workers(size_t tasks)
{
    return tasks < ATTENTION_WORKERS_MAX ? (int)tasks : ATTENTION_WORKERS_MAX;
}

/* Floats of all workers' scratch. The forward pass has a task per tile and query head, the backward pass up
 * to one more per key/value head. */
static inline size_t attention_scratch_floats(int B, int T, int NH, int NKV, int HS)
{
    size_t tasks = (size_t)B * (size_t)(NH + NKV) * (size_t)attention_tiles(T);
    return (size_t)attention_workers(tasks) * attention_worker_floats(HS);
}

/* The scratch, then one float per row and query head; a GPU needs only as many as the latter. */
static inline size_t attention_workspace(int B, int T, int NH, int NKV, int HS)
{
    size_t rows = (size_t)B * (size_t)T * (size_t)NH;
    return (attention_scratch_floats(B, T, NH, NKV, HS) + rows) * sizeof(float);
}

/* Attention to cached keys splits the keys of a sequence, so that a few rows keep a whole device busy: into
 * as many ranges as give ATTENTION_CACHED_TASKS pairs of row and key/value head and range, of at least
 * ATTENTION_RANGE keys each. `longest`: keys of the longest sequence. */
#define ATTENTION_RANGE        128
#define ATTENTION_CACHED_TASKS 256

static inline int attention_ranges(int rows, int longest, int NKV)
{
    long each = (long)rows * NKV, wanted = (ATTENTION_CACHED_TASKS + each - 1) / each;
    long most = ((long)longest + ATTENTION_RANGE - 1) / ATTENTION_RANGE;
    return (int)(wanted < most ? wanted : most);
}

/* Keys of each range: whole ATTENTION_TILEs. */
static inline int attention_range_keys(int ranges, int longest)
{
    return attention_tiles((longest + ranges - 1) / ranges) * ATTENTION_TILE;
}

/* The CPU works on the query heads of a group in parts of at most one ATTENTION_TILE. */
static inline int attention_group_parts(int NH, int NKV)
{
    return attention_tiles(NH / NKV);
}

/* An upper bound of what attention_ranges gives, which only grows with the number of rows and keys. */
static inline size_t attention_ranges_bound(int rows, int longest, int NKV)
{
    size_t most = (size_t)rows * (size_t)NKV * (((size_t)longest + ATTENTION_RANGE - 1) / ATTENTION_RANGE);
    size_t each = (size_t)rows * (size_t)NKV;
    if (most > 2 * ATTENTION_CACHED_TASKS) most = 2 * ATTENTION_CACHED_TASKS;
    return most > each ? most : each;
}

/* CPU threads that work, each with scratch of its own. */
static inline int attention_cached_workers(int rows, int longest, int NH, int NKV)
{
    return attention_workers(attention_ranges_bound(rows, longest, NKV) *
                             (size_t)attention_group_parts(NH, NKV));
}

/* Floats of that scratch: a tile of scores, and queries, values and sums of head width. */
static inline size_t attention_cached_worker_floats(int HS)
{
    return ATTENTION_TILE * (size_t)(ATTENTION_TILE + 3 * attention_width(HS));
}

/* Floats of the partial results, if there is more than one range: per row, query head and range the sum (HS),
 * its maximum and its total. */
static inline size_t attention_partial_floats(int rows, int longest, int NH, int NKV, int HS)
{
    int ranges = attention_ranges(rows, longest, NKV);
    return ranges > 1 ? (size_t)rows * (size_t)NH * (size_t)ranges * (size_t)(HS + 2) : 0;
}

/* Enough for all smaller numbers of rows and keys, too. */
static inline size_t attention_cached_workspace(int rows, int longest, int NH, int NKV, int HS)
{
    size_t partial = attention_ranges_bound(rows, longest, NKV);
    if (partial > 2 * ATTENTION_CACHED_TASKS) partial = 2 * ATTENTION_CACHED_TASKS;
    return (partial * (size_t)(NH / NKV) * (size_t)(HS + 2) +
            (size_t)attention_cached_workers(rows, longest, NH, NKV) * attention_cached_worker_floats(HS)) *
           sizeof(float);
}

#endif
