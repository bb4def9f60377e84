/* Shared by both directions of attention on tensor cores: the problem's shape, tiles in shared memory, and
 * the two matrix products that all of it uses. Private to attention_bf16_*.cu.
 *
 * A block is four warps; a warp has 16·MT rows of the block's tile. A tile in shared memory is rows of D
 * bf16, where D is the head width rounded up to an instantiated width; columns from HS on and missing rows
 * are zero, so that they add nothing to a product. The 16-byte chunks of a row are permuted by a function of
 * the row, so that the eight rows that ldmatrix reads for one matrix are in all 32 banks.
 *
 * A product leaves the sums in the register layout of mma's d. Rounded to bf16, that is the layout of mma's
 * a: scores become weights without leaving the registers. */
#ifndef ANNEAL_KERNELS_ATTENTION_BF16_CUH
#define ANNEAL_KERNELS_ATTENTION_BF16_CUH

#include "kernels/attention.cuh"
#include "kernels/mma.cuh"

enum { WARPS = 4, THREADS = 32 * WARPS };

#define LOG2_E 1.4426950408889634f
#define LN_2   0.6931471805599453f

struct attention_bf16_shape : attention_shape {
    bool chunks; /* rows are whole chunks of 16 bytes on their boundary */
    bool pairs;  /* rows are whole pairs on a boundary of 4 bytes */
};

/* The offset of chunk `chunk` of a row in a tile. */
template <int D> __device__ static inline int tile_at(int row, int chunk)
{
    static_assert(D % 32 == 0, "rows are a multiple of 64 bytes");
    /* with rows of an odd multiple of 64 bytes, neighbours are in different halves of the banks anyway */
    return row * D + (chunk ^ (D % 64 == 0 ? row & 7 : row >> 1 & 3)) * 8;
}

/* Copies tile (ROWS, D) = ROWS rows of HS, `step` apart in memory; only `rows` of them exist, at least one.
 * Called by the whole block; readable after copy_commit, copy_wait and a barrier. */
template <int D, int ROWS>
__device__ static inline void tile_copy(shared_pointer<bf16> tile, const bf16 *from, size_t step, int rows,
                                        const struct attention_bf16_shape &p)
{
    enum { LANES = D % 64 == 0 ? 8 : 4, PASS = THREADS / LANES };
    static_assert(ROWS % PASS == 0 && PASS % 8 == 0, "a thread's chunks are permuted alike in all its rows");
    if (p.chunks) {
        int r = (int)threadIdx.x / LANES, c = (int)threadIdx.x % LANES;
        shared_pointer<bf16> to = tile + tile_at<D>(r, c);
        from += (size_t)r * step + (unsigned)(c * 8);
#pragma unroll
        for (int i = 0; i < ROWS; i += PASS, from += PASS * step)
#pragma unroll
            for (int j = 0; j < D / 8; j += LANES)
                copy_async16(to + (i * D + j * 8), from + j * 8, r + i < rows && (c + j) * 8 < p.HS);
        return;
    }
#pragma unroll 1
    for (int i = (int)threadIdx.x; i < ROWS * D; i += THREADS) {
        int r = i / D, c = i % D;
        tile[tile_at<D>(r, c / 8) + c % 8] =
            r < rows && c < p.HS ? from[(size_t)r * step + (unsigned)c] : __float2bfloat16_rn(0.0f);
    }
}

/* How a product uses the 16 × 16 elements from (row, column) on, both multiples of 16: LEFT: as mma's a;
 * otherwise as two of mma's b next to each other, in [0] [1] and [2] [3], whose rows (RIGHT_ROWS) or columns
 * (RIGHT_COLUMNS) are multiplied with a. mma needs the registers of each b to be adjacent. */
enum operand { LEFT, RIGHT_ROWS, RIGHT_COLUMNS };

template <int D, enum operand USE>
__device__ static inline void fragment_load(uint32_t (&f)[4], shared_pointer<bf16> tile, int row, int column)
{
    /* tile_at of the lane's row and chunk, split so that the lane's part is computed once: the column flips
     * bits of it within the permuted chunks, and is added beyond them */
    enum { SWAPPED = D % 64 == 0 ? 64 : 32 };
    int lane = (int)threadIdx.x % 32;
    int own = USE == RIGHT_ROWS ? tile_at<D>(lane % 8 + lane / 16 * 8, lane / 8 % 2)
                                : tile_at<D>(lane % 16, lane / 16);
    matrices_load<USE == RIGHT_COLUMNS>(
        f, tile + ((own ^ column % SWAPPED) + row * D + column / SWAPPED * SWAPPED));
}

template <int A, int B> __device__ static inline void zero(float (&s)[A][B][4])
{
#pragma unroll
    for (int i = 0; i < A; i++)
#pragma unroll
        for (int j = 0; j < B; j++)
#pragma unroll
            for (int k = 0; k < 4; k++) s[i][j][k] = 0;
}

/* s += the warp's rows of a, from row_a on, times the first 8·NT rows of b, row by row; UNROLL steps of 16
 * columns at a time, as many as registers allow. */
template <int D, int UNROLL, int MT, int NT>
__device__ static inline void rows_product(float (&s)[MT][NT][4], shared_pointer<bf16> a, int row_a,
                                           shared_pointer<bf16> b)
{
#pragma unroll UNROLL
    for (int k = 0; k < D; k += 16) {
        uint32_t fa[MT][4], fb[4];
#pragma unroll
        for (int m = 0; m < MT; m++) fragment_load<D, LEFT>(fa[m], a, row_a + 16 * m, k);
#pragma unroll
        for (int n = 0; n < NT; n += 2) {
            fragment_load<D, RIGHT_ROWS>(fb, b, 8 * n, k);
#pragma unroll
            for (int m = 0; m < MT; m++) {
                mma_bf16(s[m][n], fa[m], fb[0], fb[1]);
                mma_bf16(s[m][n + 1], fa[m], fb[2], fb[3]);
            }
        }
    }
}

/* The same with a in registers. */
template <int D, int MT, int NT>
__device__ static inline void rows_product(float (&s)[MT][NT][4], const uint32_t (&a)[D / 16][MT][4],
                                           shared_pointer<bf16> b)
{
#pragma unroll
    for (int k = 0; k < D / 16; k++)
#pragma unroll
        for (int n = 0; n < NT; n += 2) {
            uint32_t fb[4];
            fragment_load<D, RIGHT_ROWS>(fb, b, 8 * n, 16 * k);
#pragma unroll
            for (int m = 0; m < MT; m++) {
                mma_bf16(s[m][n], a[k][m], fb[0], fb[1]);
                mma_bf16(s[m][n + 1], a[k][m], fb[2], fb[3]);
            }
        }
}

/* sum += w, rounded to bf16, times the first 8·NT rows of b, restricted to 8·DT columns from `column` on. */
template <int D, int MT, int NT, int DT>
__device__ static inline void weighted_sum(float (&sum)[MT][DT][4], const float (&w)[MT][NT][4],
                                           shared_pointer<bf16> b, int column)
{
#pragma unroll
    for (int n = 0; n < NT; n += 2) {
        uint32_t fw[MT][4], fb[4];
#pragma unroll
        for (int m = 0; m < MT; m++) {
            fw[m][0] = bf16_pair(w[m][n][0], w[m][n][1]);
            fw[m][1] = bf16_pair(w[m][n][2], w[m][n][3]);
            fw[m][2] = bf16_pair(w[m][n + 1][0], w[m][n + 1][1]);
            fw[m][3] = bf16_pair(w[m][n + 1][2], w[m][n + 1][3]);
        }
#pragma unroll
        for (int d = 0; d < DT; d += 2) {
            fragment_load<D, RIGHT_COLUMNS>(fb, b, 8 * n, column + 8 * d);
#pragma unroll
            for (int m = 0; m < MT; m++) {
                mma_bf16(sum[m][d], fw[m], fb[0], fb[1]);
                mma_bf16(sum[m][d + 1], fw[m], fb[2], fb[3]);
            }
        }
    }
}

/* s = -infinity where a query does not see a key because the key is later, so that its weight becomes 0.
 * `ahead` is the position of the first row of s minus that of its first column; rows are queries, or keys if
 * TRANSPOSED. */
template <bool TRANSPOSED, int MT, int NT>
__device__ static inline void causal_mask(float (&s)[MT][NT][4], int ahead)
{
    int lane = (int)threadIdx.x % 32;
    ahead += lane / 4 - lane % 4 * 2;
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int row = 16 * m + i / 2 * 8, column = 8 * n + i % 2;
                if (TRANSPOSED ? ahead > column - row : ahead < column - row) s[m][n][i] = -INFINITY;
            }
}

/* The same where the key is before the first one that the query sees. `row` and `column` are the positions of
 * the first row and column of s. */
template <bool TRANSPOSED, int MT, int NT>
__device__ static inline void first_mask(float (&s)[MT][NT][4], int row, int column, int b,
                                         const struct attention_bf16_shape &p)
{
    int lane = (int)threadIdx.x % 32;
    row += lane / 4;
    column += lane % 4 * 2;
#pragma unroll
    for (int m = 0; m < (TRANSPOSED ? NT : MT); m++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int first = p.first_seen(b, TRANSPOSED ? column + 8 * m + i : row + 16 * m + 8 * i);
#pragma unroll
            for (int n = 0; n < (TRANSPOSED ? MT : NT); n++)
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    int key = TRANSPOSED ? row + 16 * n + 8 * j : column + 8 * n + j;
                    if (key >= first) continue;
                    if constexpr (TRANSPOSED)
                        s[n][m][2 * j + i] = -INFINITY;
                    else
                        s[m][n][2 * i + j] = -INFINITY;
                }
        }
}

/* Writes the thread's row 8·half + 16·m: to[column …] = factor · sum. `to` is the row's element 0. Called by
 * the four lanes of a row. If EXCHANGES, neighbours exchange pairs, so that what the four write at a time
 * lies side by side: wider heads have no registers for that. */
template <int DT, bool EXCHANGES = DT <= 16>
__device__ static inline void row_store(bf16 *to, const float (&sum)[DT][4], int half, int column,
                                        float factor, const struct attention_bf16_shape &p)
{
    int lane_column = column + (int)threadIdx.x % 4 * 2;
    if (EXCHANGES && p.chunks) {
        int lane = (int)threadIdx.x % 32, odd = lane & 1;
        static_assert(DT % 2 == 0, "chunks are exchanged two by two");
#pragma unroll
        for (int d = 0; d < DT; d += 2) {
            uint32_t low = bf16_pair(sum[d][2 * half] * factor, sum[d][2 * half + 1] * factor),
                     high = bf16_pair(sum[d + 1][2 * half] * factor, sum[d + 1][2 * half + 1] * factor),
                     given = __shfl_xor_sync(0xfu << (lane & 28), odd ? low : high, 1),
                     word[] = {odd ? given : low, odd ? high : given};
            element_pack<bf16, 4> four;
            memcpy(&four, word, sizeof four);
            int first = column + 8 * (d + odd) + (lane & 2) * 2;
            if (first < p.HS) piece_store(to + first, four);
        }
        return;
    }
    if (p.pairs) {
#pragma unroll
        for (int d = 0; d < DT; d++)
            if (lane_column + 8 * d < p.HS)
                *reinterpret_cast<__nv_bfloat162 *>(to + lane_column + 8 * d) =
                    __floats2bfloat162_rn(sum[d][2 * half] * factor, sum[d][2 * half + 1] * factor);
        return;
    }
#pragma unroll
    for (int d = 0; d < 2 * DT; d++) {
        int c = lane_column + 8 * (d / 2) + d % 2;
        if (c < p.HS) to[c] = __float2bfloat16_rn(sum[d / 2][2 * half + d % 2] * factor);
    }
}

/* Rotates the thread's row 8·half + 16·m back by the angles of its position. A head is 8·DT wide, so a thread
 * has both elements of its pairs. */
template <int DT>
__device__ static inline void row_turn_back(float (&sum)[DT][4], int half, const float *angles)
{
    int column = (int)threadIdx.x % 4 * 2;
#pragma unroll
    for (int d = 0; d < DT / 2; d++) {
        floats<4> two = load<4>(angles + 2 * (column + 8 * d)); /* cosine, sine, cosine, sine */
#pragma unroll
        for (int j = 0; j < 2; j++)
            turn_back(sum[d][2 * half + j], sum[d + DT / 2][2 * half + j], two.at[2 * j], two.at[2 * j + 1]);
    }
}

/* Calls launch.operator()<D>() for the smallest instantiated width D >= HS. */
template <typename Launch> static inline void by_width(int HS, Launch launch)
{
    if (HS <= 32)
        launch.template operator()<32>();
    else if (HS <= 64)
        launch.template operator()<64>();
    else if (HS <= 96)
        launch.template operator()<96>();
    else if (HS <= 128)
        launch.template operator()<128>();
    else if (HS <= 192)
        launch.template operator()<192>();
    else
        launch.template operator()<256>();
}

/* The shape of a problem whose tensors are at these addresses. */
static inline struct attention_bf16_shape attention_bf16_shape_of(const int32_t *positions, int B, int T,
                                                                  int NH, int NKV, int HS, int window,
                                                                  const void *const (&tensors)[4])
{
    uintptr_t places = 0;
    for (const void *tensor : tensors) places |= (uintptr_t)tensor;
    return {attention_shape_of(positions, B, T, NH, NKV, HS, window), HS % 8 == 0 && places % 16 == 0,
            HS % 2 == 0 && places % 4 == 0};
}

/* The same for compute capability 9.0; false: not for this device or this problem, and nothing was launched.
 */
bool attention_hopper_forward(bf16 *out, float *lse, const bf16 *qkv, const struct attention_bf16_shape &p,
                              struct stream *stream);
bool attention_hopper_backward(bf16 *dqkv, const bf16 *dout, const float *lse, const float *products,
                               const bf16 *qkv, const struct attention_bf16_shape &p, struct stream *stream);

#endif
