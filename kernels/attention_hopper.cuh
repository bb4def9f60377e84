/* Shared by both directions of attention for compute capability 9.0: the parts of a block, and the two
 * products that all of it uses. Private to attention_hopper_*.cu.
 *
 * A block is GROUPS warpgroups, which compute, and one of which one thread copies: it fills rings of
 * STAGES tiles, waits before each until all warps have released the tile's place, and never computes. So
 * copies and products overlap without a barrier of the whole block, and while one warpgroup computes its
 * exponentials, the other one's products keep the tensor cores busy.
 *
 * One block has a multiprocessor for itself. Its 384 threads start with 168 registers each; the warpgroup
 * that copies gives most of its own to the others. */
#ifndef ANNEAL_KERNELS_ATTENTION_HOPPER_CUH
#define ANNEAL_KERNELS_ATTENTION_HOPPER_CUH

#include "kernels/attention_bf16.cuh"
#include "kernels/hopper.cuh"

constexpr int GROUPS = 2, STAGES = 2, GROUP_WARPS = 4, BLOCK_ROWS = GROUP_ROWS * GROUPS;
constexpr int COMPUTING = 32 * GROUP_WARPS * GROUPS, HOPPER_THREADS = COMPUTING + 32 * GROUP_WARPS;
constexpr int COPYING_REGISTERS = 24, COMPUTING_REGISTERS = 240; /* 2 · 240 + 24 = 3 · 168 */

#if HOPPER_CODE

/* A ring of STAGES tiles: the barriers that a tile is filled, and that it is free again. */
struct ring {
    shared_pointer<uint64_t> filled, free;
    __device__ void init() const
    {
        for (int i = 0; i < STAGES; i++) {
            barrier_init(filled + i, 1);
            barrier_init(free + i, GROUP_WARPS * GROUPS);
        }
    }
    /* For the thread that copies: waits until the place of tile n is free, and fills it with ROWS rows of a
     * head, from `row` on. */
    template <int D, int ROWS>
    __device__ void load(int n, shared_pointer<bf16> tiles, const CUtensorMap *from, int row, int head,
                         int b) const
    {
        int place = n % STAGES;
        barrier_wait(free + place, (unsigned)((n / STAGES & 1) ^ 1));
        barrier_expect(filled + place, 2 * ROWS * D);
        tile_load<D, ROWS>(tiles + place * ROWS * D, from, filled + place, row, head, b);
    }
    /* For the warps that compute. */
    __device__ void wait(int n) const
    {
        barrier_wait(filled + n % STAGES, (unsigned)(n / STAGES & 1));
    }
    __device__ void release(int n) const
    {
        if (threadIdx.x % 32 == 0) barrier_arrive(free + n % STAGES);
    }
};

/* By one thread, before the block's first barrier: both rings, and the barrier of the tiles that stay. */
__device__ static inline void barriers_start(const struct ring &one, const struct ring &other,
                                             shared_pointer<uint64_t> stay)
{
    one.init();
    other.init();
    barrier_init(stay, 1);
    barriers_ready();
}

/* Copies the keys and values of `tiles` tiles of ROWS positions, from position `from` on. */
template <int D, int ROWS>
__device__ static inline void keys_copy(const struct ring &of_keys, const struct ring &of_values,
                                        shared_pointer<bf16> keys, shared_pointer<bf16> values,
                                        const CUtensorMap *qkv, int from, int tiles, int head, int NKV, int b)
{
    for (int n = 0; n < tiles; n++) {
        of_keys.load<D, ROWS>(n, keys, qkv, from + n * ROWS, head, b);
        of_values.load<D, ROWS>(n, values, qkv, from + n * ROWS, head + NKV, b);
    }
}

/* s = 64 rows of a tile of A_ROWS rows, from row_a on, times the 8·NT rows of b, row by row. */
template <int D, int A_ROWS, int NT>
__device__ static inline void tile_rows(float (&s)[1][NT][4], shared_pointer<bf16> a, int row_a,
                                        shared_pointer<bf16> b)
{
#pragma unroll
    for (int k = 0; k < D; k += 16)
        group_rows(s[0], rows_operand<A_ROWS>(a, row_a, k), rows_operand<8 * NT>(b, 0, k), k > 0);
}

/* sum += w (64, 16·KT) times the 16·KT rows of b. */
template <int D, int KT>
__device__ static inline void tile_columns(float (&sum)[1][D / 8][4], const uint32_t (&w)[KT][4],
                                           shared_pointer<bf16> b)
{
#pragma unroll
    for (int k = 0; k < KT; k++) group_columns(sum[0], w[k], columns_operand<16 * KT>(b, 16 * k));
}

/* w = s rounded to bf16, in the layout of a left operand. */
template <int NT>
__device__ static inline void tile_round(uint32_t (&w)[NT / 2][4], const float (&s)[1][NT][4])
{
#pragma unroll
    for (int k = 0; k < NT / 2; k++) {
        w[k][0] = bf16_pair(s[0][2 * k][0], s[0][2 * k][1]);
        w[k][1] = bf16_pair(s[0][2 * k][2], s[0][2 * k][3]);
        w[k][2] = bf16_pair(s[0][2 * k + 1][0], s[0][2 * k + 1][1]);
        w[k][3] = bf16_pair(s[0][2 * k + 1][2], s[0][2 * k + 1][3]);
    }
}

#endif

/* Whether this file's kernels take the problem; else those of attention_bf16_*.cu do. The tensors lie on
 * boundaries of 16 bytes, as p.chunks says. */
static inline bool attention_hopper_takes(const struct attention_bf16_shape &p, const struct stream *stream)
{
    const cudaDeviceProp &gpu = stream->device->properties;
    return gpu.major == 9 && gpu.minor == 0 && (p.HS == 64 || p.HS == 128) && p.chunks;
}

/* Calls launch.operator()<D>() for the head width. */
template <typename Launch> static inline void by_hopper_width(int HS, Launch launch)
{
    if (HS == 64)
        launch.template operator()<64>();
    else
        launch.template operator()<128>();
}

#endif
