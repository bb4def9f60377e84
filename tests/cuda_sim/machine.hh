/* What the simulator's own files share. */
#ifndef ANNEAL_TESTS_CUDA_SIM_MACHINE_HH
#define ANNEAL_TESTS_CUDA_SIM_MACHINE_HH

#include <cuda_runtime.h>

#include "tests/cuda_sim/simulator.h"

namespace sim {

/* Opens all device memory to this process, or closes it: only kernels, copies and products may touch it. */
void memory_open(bool open);
/* Looks at the guard bytes behind every allocation; fails naming `who`, the last to run. */
void memory_check(const char *who);
/* Fails unless [memory, memory + bytes) lies in one allocation. */
void memory_expect(const void *memory, size_t bytes, const char *what);
/* True once a launch has faulted, as sim_set_machine asked. */
bool faulted();
enum sim_machine machine();
/* Lets pretended time pass; see clock.cc. */
void clock_advance(double microseconds);
void catch_faults();

} // namespace sim

#endif
