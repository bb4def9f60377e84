/* The CUDA simulator's switches, for tests: in which order the threads of a block run, and what the pretended
 * machine lacks.
 *
 * The simulator compiles the product's .cu files as C++ and runs every kernel on the CPU: blocks one after
 * the other, each thread a fiber that runs until it waits at a barrier. What it finds wrong (a divergent
 * barrier, an access out of range, a race on shared memory, shared memory read before it is written, device
 * memory touched by the host) it prints in one line with kernel, block and thread, and ends the process. */
#ifndef ANNEAL_TESTS_CUDA_SIM_SIMULATOR_H
#define ANNEAL_TESTS_CUDA_SIM_SIMULATOR_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SIM_FAILURE_STATUS = 99 }; /* exit status after a finding (under a sanitizer: the sanitizer's own) */

enum sim_order { SIM_FORWARD, SIM_REVERSE, SIM_SHUFFLED };

/* Threads of a block that no barrier orders run in this order. Results must not depend on it. */
void sim_set_order(enum sim_order order, uint32_t seed);

/* How many different __syncthreads() and waits for asynchronous copies the kernels have come through since
 * sim_skip_barrier(-1), and a switch that takes the one of this number, counted in order of appearance, away.
 */
int sim_barriers(void);
void sim_skip_barrier(int barrier);

enum sim_machine {
    SIM_MACHINE_GOOD,         /* one device of compute capability 9.0 */
    SIM_MACHINE_NO_DRIVER,    /* no driver is installed */
    SIM_MACHINE_OLD_DRIVER,   /* the driver is older than the runtime */
    SIM_MACHINE_NO_DEVICE,    /* a driver without a device */
    SIM_MACHINE_OLD_DEVICE,   /* a device of compute capability 7.0 */
    SIM_MACHINE_FULL,         /* no device memory is free */
    SIM_MACHINE_LAUNCH_FAULT, /* the first kernel that is launched faults */
    SIM_MACHINE_MIXED         /* device 0 as the old one, device 1 as the good one */
};
void sim_set_machine(enum sim_machine machine);

/* A good machine that fails later, counted from 1 and from now on:
 *
 *     fault_at:N[:NAME]    the N-th launch (of a kernel with NAME in its name) faults, and all calls after it
 *     lost_at:N[:BYTES]    the N-th copy from the device (of at least so many) fails, and all calls after it
 *     oom_at:N             the N-th allocation finds no memory
 *     no_room_at:N[:NAME]  the N-th launch (of a kernel ...) finds no memory: it alone fails
 *     refused_at:N         the N-th matrix product is not supported: it alone fails
 *
 * $ANNEAL_SIM_MACHINE says one of these at the start, or a machine: good, no_driver, old_driver, no_device,
 * old_device, full, launch_fault, mixed. */
void sim_set_fault(const char *words);

/* Kernels launched, and bytes of device memory in use. */
uint64_t sim_launches(void);
uint64_t sim_device_bytes(void);

/* Whether the pretended machine has CUPTI (it has at first; a process that has found it keeps it); and how
 * many records fit in one of its buffers, 0: as many as its bytes hold. */
void sim_set_cupti(bool there, int records);

/* NVTX: how many ranges of this name have begun, and how many of any are open. */
uint64_t sim_ranges(const char *name);
int sim_open_ranges(void);

/* CUDA events, and graphs that can be launched, that have been created and not destroyed. */
long sim_events(void);
long sim_graphs(void);
uint64_t sim_graph_launches(void);

/* Whether what is queued on a stream runs as late as the runtime allows (see streams.cc) or, as at first, at
 * once. $ANNEAL_SIM_STREAMS=late says so at the start. */
void sim_set_late(bool late);

/* Whether cudaFree waits for what is queued, as at first and as the runtime does: where it does not, memory
 * that is given back too early is gone for who still uses it, and that is a finding. */
void sim_set_free_waits(bool waits);

/* How often so far the host has waited for the device: for a stream or all of them, for an event that had not
 * happened, in a copy from or to ordinary memory, in freeing memory. Where streams are late, an event has
 * happened only once somebody waited for it or for later work. */
uint64_t sim_waits(void);

/* Whether devices that are opened from here on read ordinary host memory by themselves: then an upload from
 * it is read when the stream comes to it. */
void sim_set_reads_host_memory(bool reads);

/* Allocations of device memory asked for so far. */
uint64_t sim_mallocs(void);

/* Of cublasLt, so far: heuristics asked (a cached product asks once), descriptors prepared, products run; and
 * the name of the algorithm that ran last (see tests/cuda_sim/include/cublasLt.h). */
uint64_t sim_heuristics(void);
uint64_t sim_descriptors(void);
uint64_t sim_products(void);
const char *sim_last_algorithm(void);
/* Makes this algorithm take a hundred times as long; NULL: none. */
void sim_slow_down(const char *algorithm);
/* What cublasLtGetVersion says from here on; 130100 at first. */
void sim_set_blas_version(uint64_t version);

#ifdef __cplusplus
}
#endif

#endif
