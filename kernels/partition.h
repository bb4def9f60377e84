/* How sums over rows and over flat ranges are cut, on every device: what is added up in which order follows
 * from the shape alone, never from threads or multiprocessors, so results do not depend on them. The
 * workspace sizes of backend.h count these pieces. */
#ifndef ANNEAL_KERNELS_PARTITION_H
#define ANNEAL_KERNELS_PARTITION_H

#include <stddef.h>

/* Row reductions (weight gradients of norms and biases) add up partial sums of at most this many row chunks.
 */
#define ROW_CHUNKS_MAX 64

/* Rows a chunk: at least 16, so that small problems do not drown in partial sums. */
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

/* Flat reductions add up one fp64 partial sum per this many elements. */
#define REDUCE_CHUNK ((size_t)65536)

static inline size_t reduce_chunk_count(size_t n)
{
    return (n + REDUCE_CHUNK - 1) / REDUCE_CHUNK;
}

#endif
