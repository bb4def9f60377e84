/* Replaces NVIDIA's NVTX for .cu files in the simulator: counts the ranges. See tests/cuda_sim/cupti.cc. */
#ifndef ANNEAL_TESTS_CUDA_SIM_NVTOOLSEXT_H
#define ANNEAL_TESTS_CUDA_SIM_NVTOOLSEXT_H

int nvtxRangePushA(const char *message);
int nvtxRangePop(void);

#endif
