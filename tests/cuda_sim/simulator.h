/* The CUDA simulator's switches, for tests: the order in which blocks and their threads run, and the faults
 * of the simulated machine.
 *
 * The simulator compiles the product's .cu files as C++ and runs every kernel on the CPU: blocks one after
 * the other, each thread a fiber that runs until it waits at a barrier. When it finds an error (a divergent
 * barrier, an access out of range, a race on shared or device memory, shared memory read before it is
 * written, device memory accessed by the host), it prints one line with kernel, block and thread, and ends
 * the process. */
#ifndef ANNEAL_TESTS_CUDA_SIM_SIMULATOR_H
#define ANNEAL_TESTS_CUDA_SIM_SIMULATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SIM_FAILURE_STATUS = 99 }; /* exit status after a finding (under a sanitizer: the sanitizer's own) */

enum sim_order { SIM_FORWARD, SIM_REVERSE, SIM_SHUFFLED };

/* The blocks of a launch run in this order, and between barriers the threads of a block. Results must not
 * depend on it. */
void sim_set_order(enum sim_order order, uint32_t seed);

/* Sets whether races on device memory are found from now on; at first they are not, as it makes kernels two
 * to three times as slow. */
void sim_set_races(bool found);

/* Only the last `count` blocks of each launch run from now on; 0: all. With more device memory than the usual
 * gibibyte, of which only what is touched takes any, tests reach offsets beyond 32 bits. */
void sim_set_last_blocks(uint64_t count);
void sim_set_device_memory(uint64_t bytes);

/* The number of different __syncthreads() and waits for asynchronous copies that kernels have reached since
 * sim_skip_barrier(-1), and a switch that disables one of them by its number, in order of appearance. */
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
    SIM_MACHINE_MIXED,        /* device 0 as the old one, device 1 as the good one */
    SIM_MACHINE_NEW_DEVICE    /* newer than the build, whose CUDA is newer than the driver's */
};
void sim_set_machine(enum sim_machine machine);

/* A good machine that fails later; N counts from 1, starting now:
 *
 *     fault_at:N[:NAME]    the N-th launch (of a kernel with NAME in its name) faults, and so do all later
 *                          calls
 *     lost_at:N[:BYTES]    the N-th copy from the device (of at least so many) fails, and so do all later
 * calls oom_at:N             the N-th allocation finds no memory no_room_at:N[:NAME]  the N-th launch (of a
 * kernel ...) finds no memory: only it fails refused_at:N         the N-th matrix product is not supported:
 * only it fails broken_at:N          the N-th matrix product fails within cuBLASLt, which the runtime's last
 * error does not show: only it fails
 *
 * $ANNEAL_SIM_MACHINE sets one of these at the start, or a machine: good, no_driver, old_driver, no_device,
 * old_device, new_device, full, launch_fault, mixed, no_cupti. */
void sim_set_fault(const char *words);

/* How many devices a good machine has. */
void sim_set_gpus(int count);

/* The compute capability of devices opened from now on, $ANNEAL_SIM_CAPABILITY or 9.0 at first. A block may
 * have 227 KiB of shared memory on 9.0, and 99 KiB on all others: the least that a supported GPU has. */
void sim_set_capability(int major, int minor);

/* $ANNEAL_SIM_GPUS=N[:I] gives a good machine N devices, and the faults above only to a process that uses
 * device I. NCCL has a stand-in, stand_in/nccl.cc; here it queues its work, which may touch device memory: a
 * finding unless [memory, memory + bytes) is some. */
struct sim_stream;
void sim_queue_exchange(struct sim_stream *stream, const char *name, void *memory, size_t bytes,
                        void (*run)(void *), void *context);

/* For stand_in/cudnn.cc: queues work that may touch device memory and takes so long; a finding unless each
 * range is some. `run` is called again if the work is replayed. */
struct sim_range {
    void *memory;
    size_t bytes;
};
void sim_queue_work(struct sim_stream *stream, const char *name, const struct sim_range *ranges, int count,
                    double microseconds, void (*run)(void *), void *context);
uint64_t sim_library_calls(void); /* of sim_queue_work, so far */

/* Runs the first kernel of a file of PTX (see compiled.hh) with one block of 64 threads: kernel(out, x). */
void sim_run_ptx(const char *path, void *out, const void *x);

/* Kernels launched, and bytes of device memory in use. */
uint64_t sim_launches(void);
uint64_t sim_device_bytes(void);

/* Sets whether the simulated machine has CUPTI (the default; a process that has found it keeps it), and how
 * many records fit in one of its buffers; 0: as many as its bytes hold. */
void sim_set_cupti(bool there, int records);

/* NVTX: the number of ranges with this name that have begun, and of all open ranges. */
uint64_t sim_ranges(const char *name);
int sim_open_ranges(void);

/* The numbers of CUDA events and of executable graphs that have been created and not destroyed. */
long sim_events(void);
long sim_graphs(void);
uint64_t sim_graph_launches(void);

/* Sets whether queued work runs as late as the runtime allows (see streams.cc) or at once (the default).
 * $ANNEAL_SIM_STREAMS=late sets the former at the start; =exchanges_first does, too, but for work that ranks
 * exchange, which runs as early as events allow. */
void sim_set_late(bool late);

/* Sets whether cudaFree waits for queued work, as the runtime does (the default). If not, queued work that
 * uses freed memory is a finding. */
void sim_set_free_waits(bool waits);

/* The number of times that the host has waited for the device: for one or all streams, for an event that had
 * not happened, in a copy from or to pageable memory, or in freeing memory. With late streams an event
 * happens only when the host waits for it or for later work. */
uint64_t sim_waits(void);

/* Sets whether devices opened from now on read pageable host memory directly: an upload then reads it when
 * the stream reaches the copy. */
void sim_set_reads_host_memory(bool reads);

/* The number of device allocations requested so far. */
uint64_t sim_mallocs(void);

/* cublasLt calls so far: queries of the heuristics (one per cached product), prepared descriptors, products
 * run; and the name of the last algorithm (see tests/cuda_sim/include/cublasLt.h). */
uint64_t sim_heuristics(void);
uint64_t sim_descriptors(void);
uint64_t sim_products(void);
const char *sim_last_algorithm(void);
/* Makes this algorithm take a hundred times as long; NULL: none. */
void sim_slow_down(const char *algorithm);
/* Sets the result of cublasLtGetVersion; 130100 at first. */
void sim_set_blas_version(uint64_t version);

#ifdef __cplusplus
}
#endif

#endif
