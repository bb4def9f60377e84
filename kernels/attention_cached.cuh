/* Shared by the CUDA kernels of attention over the KV cache, and private to them. Rows are computed one by
 * one, or many that follow each other in one sequence as a tile of queries, as the training attention
 * computes them: then they share the keys that they read, and tensor cores multiply in bf16. The host does
 * not know which rows are together. So with many rows both kernels are launched, and each does its own. */
#ifndef ANNEAL_KERNELS_ATTENTION_CACHED_CUH
#define ANNEAL_KERNELS_ATTENTION_CACHED_CUH

#include "kernels/attention.cuh"

/* Fewer rows than this are no tile. */
enum { ATTENTION_TOGETHER_LEAST = 16, ATTENTION_BF16_CACHED_ROWS = 64 };

struct cached_shape {
    int N, longest, window, S, NH, NKV, HS, ranges, range_keys;
    int lanes;    /* threads per key: a power of two up to 32, with EACH elements each */
    int together; /* rows of a tile; 0: there are no tiles */
    float scale;
    __device__ size_t query(int n, int head) const
    {
        return ((size_t)n * (unsigned)(NH + 2 * NKV) + (unsigned)head) * (unsigned)HS;
    }
    __device__ size_t out(int n, int head) const
    {
        return ((size_t)n * (unsigned)NH + (unsigned)head) * (unsigned)HS;
    }
    /* position 0 of a key/value head in the cache */
    __device__ size_t head(int slot, int kv) const
    {
        return ((size_t)slot * (unsigned)NKV + (unsigned)kv) * (unsigned)S * (unsigned)HS;
    }
    __device__ size_t partial(int n, int head, int range) const
    {
        return (((size_t)n * (unsigned)NH + (unsigned)head) * (unsigned)ranges + (unsigned)range) *
               (unsigned)(HS + 2);
    }
    /* The rows of the tile from n0 on, if they follow each other in one sequence; else 0. For the whole
     * block. */
    __device__ int rows_together(int n0, const int32_t *slots, const int32_t *positions) const
    {
        int rows = N - n0 < together ? N - n0 : together, apart = 0;
        if (rows < ATTENTION_TOGETHER_LEAST) return 0;
        for (int i = (int)threadIdx.x; i < rows; i += (int)blockDim.x)
            apart += slots[n0 + i] != slots[n0] || positions[n0 + i] != positions[n0] + i;
        return block_sum(apart) == 0 ? rows : 0;
    }
};

/* The tile of rows from n0 on, for query head h and a range of keys. Tiles of keys begin at multiples of
 * ATTENTION_TILE, as ranges do, so that none reaches into the next range. */
template <typename T>
__device__ static inline struct attention_tile<T>
cached_tile_of(const T *qkv, const T *keys, const T *values, int n0, int rows, int h, int range,
               const int32_t *slots, const int32_t *positions, const struct attention_shape &p,
               const struct cached_shape &c) {
    size_t head = c.head(slots[n0], h / (c.NH / c.NKV));
    int t0 = positions[n0], known = t0 + rows, from = range * c.range_keys, end = from + c.range_keys;
    int seen = p.template first_key<ATTENTION_TILE>(0, t0);
    return {qkv + c.query(n0, h),
            keys + head,
            values + head,
            p.qkv_step(),
            (size_t)(unsigned)c.HS,
            t0,
            from > seen ? from : seen,
            end < known ? end : known,
            rows,
            known};
}

/* Rows of a tile of attention_cached_tiles, which computes those that are together, as attention_cached. */
int attention_tile_rows(int HS, struct stream *stream);
void attention_cached_tiles(void *out, float *partial, const void *qkv, const void *keys, const void *values,
                            const int32_t *slots, const int32_t *positions, struct cached_shape c,
                            struct stream *stream);
/* The same in bf16. */
void attention_bf16_cached_tiles(void *out, float *partial, const void *qkv, const void *keys,
                                 const void *values, const int32_t *slots, const int32_t *positions,
                                 struct cached_shape c, struct stream *stream);

#endif
