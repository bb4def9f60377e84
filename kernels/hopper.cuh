/* The PTX instructions of compute capability 9.0 that kernels/attention_hopper_*.cu are made of, one function
 * each: products of a warpgroup (wgmma), boxes of a tensor copied to shared memory (TMA), and the barriers
 * that a copy completes (mbarrier). They exist for sm_90a alone. In other machine code the kernels trap; they
 * are launched there only with CUDA_FORCE_PTX_JIT=1, when a driver compiles the PTX of compute_90 instead.
 *
 * A warpgroup is four warps, the first of which has a number that is a multiple of four. All its lanes call
 * the functions group_*, in the same order with the same tiles. The sums of a product lie in registers as
 * those of mma (kernels/mma.cuh): warp w of the group has rows 16·w to 16·w + 15, and d[n] columns 8·n to
 * 8·n + 7. The left operand in registers is that of mma, too.
 *
 * A tile in shared memory is ROWS rows of D bf16 in D / 64 parts: a part is ROWS rows of 64 elements, that is
 * of 128 bytes, whose chunks of 16 bytes are permuted as TMA does it in its mode of 128 bytes: chunk c of row
 * r lies at c ^ r % 8. So a tile begins on a boundary of 1,024 bytes, eight rows.
 *
 * The products are asynchronous. Between group_fence and group_wait, the registers that a product uses belong
 * to it: the sums may not be touched, nor a left operand changed. Both functions name these registers, so
 * that the compiler moves no use of them across.
 *
 * The simulator of tests/cuda_sim runs the instructions, too, and checks each use. None of this has been run
 * on a GPU yet. */
#ifndef ANNEAL_KERNELS_HOPPER_CUH
#define ANNEAL_KERNELS_HOPPER_CUH

#include <cuda.h>
#include <cuda_bf16.h>

#include "kernels/device/cuda_device.cuh"
#include "kernels/ptx.cuh"

enum { BOX = 64 /* rows and columns of a box */, GROUP_ROWS = 64 };

/* Shared memory that one block may have on compute capability 9.0. */
constexpr size_t HOPPER_SHARED_MOST = 227 << 10;

#if defined(ANNEAL_CUDA_SIM) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HOPPER_CODE 1
#else
#define HOPPER_CODE 0
#endif
#ifdef ANNEAL_CUDA_SIM
#define SHARED_TILES(name) SHARED_DYNAMIC(__nv_bfloat16, name)
#else
#define SHARED_TILES(name)                                                                                   \
    extern __shared__ __align__(1024) unsigned char tiles_of_block[];                                        \
    __nv_bfloat16 *name = reinterpret_cast<__nv_bfloat16 *>(tiles_of_block)
#endif

#if HOPPER_CODE

/* ---- barriers ---- */

/* A phase of the barrier ends when `count` threads have arrived and all expected bytes have been copied. */
__device__ static inline void barrier_init(shared_pointer<uint64_t> barrier, unsigned count, PTX_CALLER)
{
    PTX("mbarrier.init.shared::cta.b64 [%0], %1;", OUT(), IN(SHARED_AT(barrier), WORD(count)));
}

/* After the thread's last barrier_init: makes them known to the copies. Other threads need __syncthreads. */
__device__ static inline void barriers_ready(PTX_CALLER)
{
    PTX("fence.mbarrier_init.release.cluster;", OUT(), IN());
}

__device__ static inline void barrier_arrive(shared_pointer<uint64_t> barrier, PTX_CALLER)
{
    PTX("mbarrier.arrive.shared::cta.b64 _, [%0];", OUT(), IN(SHARED_AT(barrier)));
}

/* Arrives, and makes the phase wait for that many bytes more. */
__device__ static inline void barrier_expect(shared_pointer<uint64_t> barrier, unsigned bytes, PTX_CALLER)
{
    PTX("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;", OUT(), IN(SHARED_AT(barrier), WORD(bytes)));
}

/* Waits until the latest phase that has ended, or the one before the first, has this parity. The first phase
 * has parity 0, so that a wait for 1 returns at once before it ends. */
__device__ static inline void barrier_wait(shared_pointer<uint64_t> barrier, unsigned parity, PTX_CALLER)
{
    uint32_t done;
    do {
        PTX("{\n"
            ".reg .pred done;\n"
            "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
            "selp.u32 %0, 1, 0, done;\n"
            "}",
            OUT(SET_WORD(done)), IN(SHARED_AT(barrier), WORD(parity)));
    } while (!done);
}

/* Copies the box at these coordinates of the tensor, and counts its bytes at the barrier; zeros where the
 * tensor ends. One thread calls it. */
__device__ static inline void box_load(shared_pointer<__nv_bfloat16> to, const CUtensorMap *tensor,
                                       shared_pointer<uint64_t> barrier, int column, int part, int row, int b,
                                       PTX_CALLER)
{
    PTX("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
        "[%1, {%3, %4, %5, %6}], [%2];",
        OUT(),
        IN(SHARED_AT(to), TENSOR_AT(tensor), SHARED_AT(barrier), WORD(column), WORD(part), WORD(row),
           WORD(b)));
}

/* ---- registers ---- */

/* Sets the registers of each thread of a warpgroup, a multiple of 8: fewer, or more, which waits until others
 * have given enough. A block starts with as many as __launch_bounds__ leaves it. */
template <int COUNT> __device__ static inline void registers_give(PTX_CALLER)
{
    PTX_REGISTERS("setmaxnreg.dec.sync.aligned.u32 %0;", OUT(), IN(CONSTANT(COUNT)));
}

template <int COUNT> __device__ static inline void registers_take(PTX_CALLER)
{
    PTX_REGISTERS("setmaxnreg.inc.sync.aligned.u32 %0;", OUT(), IN(CONSTANT(COUNT)));
}

/* ---- products of a warpgroup ---- */

/* Names registers: a text without an instruction, which the compiler takes for one that changes them. */
template <int N> __device__ static inline void hold(float (&x)[N][4], PTX_CALLER)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        PTX("", OUT(ADD_FLOAT(x[i][0]), ADD_FLOAT(x[i][1]), ADD_FLOAT(x[i][2]), ADD_FLOAT(x[i][3])), IN());
}

template <int N> __device__ static inline void hold(uint32_t (&x)[N][4], PTX_CALLER)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        PTX("", OUT(ADD_WORD(x[i][0]), ADD_WORD(x[i][1]), ADD_WORD(x[i][2]), ADD_WORD(x[i][3])), IN());
}

/* Before the first product, and again after its registers were used otherwise: all registers of the products
 * up to the next group_wait. One overload for each number of arrays, because PTX_CALLER comes last. */
template <typename A> __device__ static inline void group_fence(A &a, PTX_CALLER)
{
    hold(a);
    PTX("wgmma.fence.sync.aligned;", OUT(), IN());
}

template <typename A, typename B> __device__ static inline void group_fence(A &a, B &b, PTX_CALLER)
{
    hold(a), hold(b);
    PTX("wgmma.fence.sync.aligned;", OUT(), IN());
}

template <typename A, typename B, typename C, typename D>
__device__ static inline void group_fence(A &a, B &b, C &c, D &d, PTX_CALLER)
{
    hold(a), hold(b), hold(c), hold(d);
    PTX("wgmma.fence.sync.aligned;", OUT(), IN());
}

/* Closes the group of the products so far. */
__device__ static inline void group_commit(PTX_CALLER)
{
    PTX("wgmma.commit_group.sync.aligned;", OUT(), IN());
}

/* Waits until at most PENDING of the latest groups are unfinished; names the registers of all others, the
 * left operands too: until then nothing may be written to theirs. */
template <int PENDING, typename A> __device__ static inline void group_wait(A &a, PTX_CALLER)
{
    PTX("wgmma.wait_group.sync.aligned %0;", OUT(), IN(CONSTANT(PENDING)));
    hold(a);
}

template <int PENDING, typename A, typename B>
__device__ static inline void group_wait(A &a, B &b, PTX_CALLER)
{
    PTX("wgmma.wait_group.sync.aligned %0;", OUT(), IN(CONSTANT(PENDING)));
    hold(a), hold(b);
}

template <int PENDING, typename A, typename B, typename C, typename D>
__device__ static inline void group_wait(A &a, B &b, C &c, D &d, PTX_CALLER)
{
    PTX("wgmma.wait_group.sync.aligned %0;", OUT(), IN(CONSTANT(PENDING)));
    hold(a), hold(b), hold(c), hold(d);
}

#define SUMS_1(d, n)  ADD_FLOAT(d[n][0]), ADD_FLOAT(d[n][1]), ADD_FLOAT(d[n][2]), ADD_FLOAT(d[n][3])
#define SUMS_4(d, n)  SUMS_1(d, n), SUMS_1(d, n + 1), SUMS_1(d, n + 2), SUMS_1(d, n + 3)
#define SUMS_8(d, n)  SUMS_4(d, n), SUMS_4(d, n + 4)
#define SUMS_16(d, n) SUMS_8(d, n), SUMS_8(d, n + 8)
#define LIST_32                                                                                              \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                 \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define LIST_64                                                                                              \
    LIST_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "             \
            "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

/* d (64, 8·NT), += or =, 64 rows of 16 columns of a · 8·NT rows of 16 columns of b, row by row: a and b are
 * descriptors. */
template <int NT>
__device__ static inline void group_rows(float (&d)[NT][4], uint64_t a, uint64_t b, bool add, PTX_CALLER)
{
    static_assert(NT == 8 || NT == 16, "there is code for 64 and 128 columns");
    if constexpr (NT == 8)
        PTX("{\n"
            ".reg .pred add;\n"
            "setp.ne.b32 add, %34, 0;\n"
            "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" LIST_32 "}, "
            "%32, %33, add, 1, 1, 0, 0;\n"
            "}",
            OUT(SUMS_8(d, 0)), IN(LONG(a), LONG(b), WORD((int)add)));
    else
        PTX("{\n"
            ".reg .pred add;\n"
            "setp.ne.b32 add, %66, 0;\n"
            "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" LIST_64 "}, "
            "%64, %65, add, 1, 1, 0, 0;\n"
            "}",
            OUT(SUMS_16(d, 0)), IN(LONG(a), LONG(b), WORD((int)add)));
}

/* d (64, 8·NT) += a (64, 16), in registers, · 16 rows of 8·NT columns of b. */
template <int NT>
__device__ static inline void group_columns(float (&d)[NT][4], const uint32_t (&a)[4], uint64_t b, PTX_CALLER)
{
    static_assert(NT == 8 || NT == 16, "there is code for 64 and 128 columns");
    if constexpr (NT == 8)
        PTX("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" LIST_32 "}, "
            "{%32, %33, %34, %35}, %36, 1, 1, 1, 1;",
            OUT(SUMS_8(d, 0)), IN(WORD(a[0]), WORD(a[1]), WORD(a[2]), WORD(a[3]), LONG(b)));
    else
        PTX("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" LIST_64 "}, "
            "{%64, %65, %66, %67}, %68, 1, 1, 1, 1;",
            OUT(SUMS_16(d, 0)), IN(WORD(a[0]), WORD(a[1]), WORD(a[2]), WORD(a[3]), LONG(b)));
}

#undef SUMS_1
#undef SUMS_4
#undef SUMS_8
#undef SUMS_16
#undef LIST_32
#undef LIST_64

__device__ static inline uint32_t shared_address(shared_pointer<__nv_bfloat16> at)
{
    return (uint32_t)__cvta_generic_to_shared(at);
}

/* The descriptor of an operand in shared memory. A product of rows takes 16 columns from it, and steps by
 * `stride` bytes from eight rows to the next; one of columns takes 16 rows, and steps by `stride` from eight
 * rows to the next, and by `leading` from 64 columns to the next. */
__device__ static inline uint64_t operand_at(uint32_t address, uint32_t leading, uint32_t stride)
{
    return (uint64_t)(address >> 4 & 0x3fff) | (uint64_t)(leading >> 4) << 16 |
           (uint64_t)(stride >> 4) << 32 | (uint64_t)1 << 62; /* 1: chunks permuted within 128 bytes */
}

/* Rows from `row` on, a multiple of eight, of columns [column, column + 16) of a tile. */
template <int ROWS>
__device__ static inline uint64_t rows_operand(shared_pointer<__nv_bfloat16> tile, int row, int column)
{
    return operand_at(shared_address(tile + (column / BOX * ROWS * BOX + row * BOX + column % BOX)), 16,
                      1024);
}

/* Rows [row, row + 16), row a multiple of eight, of all columns of a tile. */
template <int ROWS>
__device__ static inline uint64_t columns_operand(shared_pointer<__nv_bfloat16> tile, int row)
{
    return operand_at(shared_address(tile + row * BOX), ROWS * BOX * 2, 1024);
}

/* Loads rows [row, row + ROWS) of a head into a tile: ROWS · D · 2 bytes. */
template <int D, int ROWS>
__device__ static inline void tile_load(shared_pointer<__nv_bfloat16> tile, const CUtensorMap *tensor,
                                        shared_pointer<uint64_t> barrier, int row, int head, int b)
{
    static_assert(D % BOX == 0 && ROWS % BOX == 0, "tiles are made of boxes");
#pragma unroll
    for (int part = 0; part < D / BOX; part++)
#pragma unroll
        for (int r = 0; r < ROWS; r += BOX)
            box_load(tile + (part * ROWS + r) * BOX, tensor, barrier, 0, head * (D / BOX) + part, row + r, b);
}

#endif

/* Describes a tensor (B, T, heads, D) of bf16 for box_load, D a multiple of 64: its boxes are 64 rows of one
 * 64th column range of a head. False: the driver does not know tensor maps, or does not take this one. */
bool tensor_describe(CUtensorMap *out, const void *tensor, int B, int T, int heads, int D);

#endif
