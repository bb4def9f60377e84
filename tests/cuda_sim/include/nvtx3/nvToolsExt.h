/* What a .cu file finds in the simulator instead of NVIDIA's NVTX: ranges that are counted. See
 * tests/cuda_sim/cupti.cc. */
#ifndef ANNEAL_TESTS_CUDA_SIM_NVTOOLSEXT_H
#define ANNEAL_TESTS_CUDA_SIM_NVTOOLSEXT_H

int nvtxRangePushA(const char *message);
int nvtxRangePop(void);

#endif
