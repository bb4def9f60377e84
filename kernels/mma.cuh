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
 * The simulator of tests/cuda_sim implements the same functions in tensor_core.h and checks each use. */
#ifndef ANNEAL_KERNELS_MMA_CUH
#define ANNEAL_KERNELS_MMA_CUH

#include <cuda_bf16.h>

#include "kernels/device/cuda_device.cuh"

#ifdef ANNEAL_CUDA_SIM
#include <tensor_core.h>
#else

/* d += a · b, accumulated in fp32. */
__device__ static inline void mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Loads four 8 × 8 matrices of bf16 from shared memory, one per register: lane l gives the address of row l %
 * 8 of matrix l / 8, 16 bytes on a 16-byte boundary. Lane l gets elements c and c + 1 of row g of each
 * matrix; TRANSPOSED: rows c and c + 1 of column g. */
template <bool TRANSPOSED>
__device__ static inline void matrices_load(uint32_t (&f)[4], shared_pointer<__nv_bfloat16> row)
{
    uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
    if (TRANSPOSED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3])
                     : "r"(at)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3])
                     : "r"(at)
                     : "memory");
}

/* Asynchronous copies from global to shared memory, 16 bytes past the first-level cache or 4 bytes, both
 * sides aligned to that size. If not `there`, writes zeros and does not read `from`. The copying thread may
 * read the result after copy_wait, other threads after a barrier behind that. */
__device__ static inline void copy_async16(shared_pointer<__nv_bfloat16> to, const __nv_bfloat16 *from,
                                           bool there)
{
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((uint32_t)__cvta_generic_to_shared(to)),
        "l"(__cvta_generic_to_global(from)), "r"(there ? 16 : 0)
        : "memory");
}

__device__ static inline void copy_async4(shared_pointer<float> to, const float *from, bool there)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"((uint32_t)__cvta_generic_to_shared(to)),
                 "l"(__cvta_generic_to_global(from)), "r"(there ? 4 : 0)
                 : "memory");
}

/* Closes the thread's group of copies. */
__device__ static inline void copy_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until at most PENDING of the thread's latest groups are unfinished. */
template <int PENDING> __device__ static inline void copy_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

/* 2^x within 2 units in the last place, 0 for -infinity, subnormal results flushed to zero. */
__device__ static inline float exp2_approx(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#endif

/* Two floats rounded to bf16 in one register, the first in the lower half. */
__device__ static inline uint32_t bf16_pair(float low, float high)
{
    __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    uint32_t word;
    memcpy(&word, &pair, sizeof word);
    return word;
}

#endif
