/* The instructions of kernels/mma.cuh in the simulator: fragments have the layout of the PTX ISA, every
 * access to shared memory is checked, and asynchronous copies arrive only when the kernel waits for them. */
#ifndef ANNEAL_TESTS_CUDA_SIM_TENSOR_CORE_H
#define ANNEAL_TESTS_CUDA_SIM_TENSOR_CORE_H
#ifdef __cplusplus

#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace sim {

/* d = a · b + c */
void mma_bf16(float *const d[4], const uint32_t a[4], const uint32_t b[2], const float c[4], const char *file,
              int line);
void matrices_load(uint32_t *const f[4], const span &row, bool transposed, const char *file, int line);
void copy_async(const span &to, const void *from, bool there);
void copy_commit();
/* The point where waits are counted, as sim_skip_barrier counts barriers. */
void copy_wait(int pending, const char *file, int line);

} // namespace sim

#endif
#endif
