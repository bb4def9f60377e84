/* What the simulator's own files share. */
#ifndef ANNEAL_TESTS_CUDA_SIM_MACHINE_HH
#define ANNEAL_TESTS_CUDA_SIM_MACHINE_HH

#include <cuda_runtime.h>

#include <source_location>

#include "tests/cuda_sim/simulator.h"

namespace sim {

/* Opens all device memory to this process, or closes it: only kernels, copies and products may touch it. */
void memory_open(bool open);
/* Looks at the guard bytes behind every allocation; fails naming `who`, the last to run. */
void memory_check(const char *who);
/* Takes all of it back from whoever has it. */
void memory_release();
/* Fails unless [memory, memory + bytes) lies in one allocation. */
void memory_expect(const void *memory, size_t bytes, const char *what);
enum sim_machine machine();
/* Lets pretended time pass; see clock.cc. */
void clock_advance(double microseconds);

/* ---- faults; see faults.cc ---- */

/* For the start of every call that may touch the device. True: it returns sticky_error(), which its caller
 * knows from then on; to call again is a finding. */
bool faulted(std::source_location where = std::source_location::current());
cudaError_t sticky_error();
/* Whether a launch runs: not the one that fails, nor those after it. */
bool launch_runs(const char *kernel);
cudaError_t last_error(std::source_location where = std::source_location::current());
/* Before each copy from the device. */
void download_begins(size_t bytes);
bool allocation_fails();

void catch_faults();

} // namespace sim

#endif
