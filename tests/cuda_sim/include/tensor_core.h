/* The functions of kernels/mma.cuh in the simulator: fragments have the layout of the PTX ISA, every access
 * to shared memory is checked, and asynchronous copies arrive only when the kernel waits for them. */
#ifndef ANNEAL_TESTS_CUDA_SIM_TENSOR_CORE_H
#define ANNEAL_TESTS_CUDA_SIM_TENSOR_CORE_H
#ifdef __cplusplus

#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace sim {

void mma_bf16(float *d, const uint32_t *a, uint32_t b0, uint32_t b1, const char *file, int line);
void matrices_load(uint32_t *f, const span &row, bool transposed, const char *file, int line);
void copy_async(const span &to, const void *from, bool there);
void copy_commit();
/* The point where waits are counted, as sim_skip_barrier counts barriers. */
void copy_wait(int pending, const char *file, int line);

} // namespace sim

static inline void mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                            const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    sim::mma_bf16(d, a, b0, b1, file, line);
}

template <bool TRANSPOSED>
static inline void matrices_load(uint32_t (&f)[4], sim::pointer<__nv_bfloat16> row,
                                 const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    sim::matrices_load(f, row.span(16), TRANSPOSED, file, line);
}

static inline void copy_async16(sim::pointer<__nv_bfloat16> to, const __nv_bfloat16 *from, bool there)
{
    sim::copy_async(to.span(16), from, there);
}

static inline void copy_async4(sim::pointer<float> to, const float *from, bool there)
{
    sim::copy_async(to.span(4), from, there);
}

static inline void copy_commit()
{
    sim::copy_commit();
}

template <int PENDING>
static inline void copy_wait(const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    sim::copy_wait(PENDING, file, line);
}

static inline float exp2_approx(float x)
{
    return exp2f(x);
}

#endif
#endif
