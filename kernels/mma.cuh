/* The PTX instructions of the tensor-core kernels, one function each; compute capability 8.0 and newer.
 *
 * All of them work per warp: every lane must call mma_bf16 and fragment_load, with the same position of the
 * tile. The layouts of the fragments are defined in the PTX ISA (sections "Matrix fragments for mma.m16n8k16"
 * and "ldmatrix"); with g = lane / 4 and c = lane % 4 · 2, a register holds two bf16, the lower half first:
 *
 *     a (16 × 16): rows g, g + 8, g, g + 8; columns c, c, c + 8, c + 8 and the next
 *     b (16 × 8):  rows c and c + 1, c + 8 and c + 9 of column g
 *     d (16 × 8):  [0] [1] row g, columns c and c + 1; [2] [3] row g + 8
 *
 * The simulator of tests/cuda_sim runs them, too, and checks each use. */
#ifndef ANNEAL_KERNELS_MMA_CUH
#define ANNEAL_KERNELS_MMA_CUH

#include <cuda_bf16.h>

#include "kernels/device/cuda_device.cuh"
#include "kernels/ptx.cuh"

/* d += a · b, accumulated in fp32. */
__device__ static inline void mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                                       PTX_CALLER)
{
    PTX_REGISTERS("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                  "{%8, %9}, {%0, %1, %2, %3};",
                  OUT(ADD_FLOAT(d[0]), ADD_FLOAT(d[1]), ADD_FLOAT(d[2]), ADD_FLOAT(d[3])),
                  IN(WORD(a[0]), WORD(a[1]), WORD(a[2]), WORD(a[3]), WORD(b0), WORD(b1)));
}

/* Loads four 8 × 8 matrices of bf16 from shared memory, one per register: lane l gives the address of row l %
 * 8 of matrix l / 8, 16 bytes on a 16-byte boundary. Lane l gets elements c and c + 1 of row g of each
 * matrix; TRANSPOSED: rows c and c + 1 of column g. */
template <bool TRANSPOSED>
__device__ static inline void matrices_load(uint32_t (&f)[4], shared_pointer<__nv_bfloat16> row, PTX_CALLER)
{
    if (TRANSPOSED)
        PTX("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];",
            OUT(SET_WORD(f[0]), SET_WORD(f[1]), SET_WORD(f[2]), SET_WORD(f[3])), IN(SHARED_AT(row)));
    else
        PTX("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];",
            OUT(SET_WORD(f[0]), SET_WORD(f[1]), SET_WORD(f[2]), SET_WORD(f[3])), IN(SHARED_AT(row)));
}

/* Asynchronous copies from global to shared memory, 16 bytes past the first-level cache or 4 bytes, both
 * sides aligned to that size. If not `there`, writes zeros and does not read `from`. The copying thread may
 * read the result after copy_wait, other threads after a barrier behind that. */
__device__ static inline void copy_async16(shared_pointer<__nv_bfloat16> to, const __nv_bfloat16 *from,
                                           bool there, PTX_CALLER)
{
    PTX("cp.async.cg.shared.global [%0], [%1], 16, %2;", OUT(),
        IN(SHARED_AT(to), GLOBAL_AT(from), WORD(there ? 16 : 0)));
}

__device__ static inline void copy_async4(shared_pointer<float> to, const float *from, bool there, PTX_CALLER)
{
    PTX("cp.async.ca.shared.global [%0], [%1], 4, %2;", OUT(),
        IN(SHARED_AT(to), GLOBAL_AT(from), WORD(there ? 4 : 0)));
}

/* Closes the thread's group of copies. */
__device__ static inline void copy_commit(PTX_CALLER)
{
    PTX("cp.async.commit_group;", OUT(), IN());
}

/* Waits until at most PENDING of the thread's latest groups are unfinished. */
template <int PENDING> __device__ static inline void copy_wait(PTX_CALLER)
{
    PTX("cp.async.wait_group %0;", OUT(), IN(CONSTANT(PENDING)));
}

/* 2^x within 2 units in the last place, 0 for -infinity, subnormal results flushed to zero. */
__device__ static inline float exp2_approx(float x, PTX_CALLER)
{
    float y;
    PTX_PURE("ex2.approx.ftz.f32 %0, %1;", OUT(SET_FLOAT(y)), IN(FLOAT(x)));
    return y;
}

/* Two floats rounded to bf16 in one register, the first in the lower half. */
__device__ static inline uint32_t bf16_pair(float low, float high)
{
    __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    uint32_t word;
    memcpy(&word, &pair, sizeof word);
    return word;
}

#endif
