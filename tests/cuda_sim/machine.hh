/* Shared by the files of the simulator. */
#ifndef ANNEAL_TESTS_CUDA_SIM_MACHINE_HH
#define ANNEAL_TESTS_CUDA_SIM_MACHINE_HH

#include <cuda_runtime.h>

#include <functional>

#include "tests/cuda_sim/simulator.h"

namespace sim {

/* Opens all device memory to this process, or closes it: only kernels, copies and products may touch it. */
void memory_open(bool open);
/* Looks at the guard bytes behind every allocation; fails naming `who`, the last to run. */
void memory_check(const char *who);
/* Ends one allocation; false: there is none at this address. */
bool memory_free(void *memory);
/* All device memory lies in this range of addresses, so that a place in it has one in a shadow. */
constexpr size_t RANGE = (size_t)256 << 30;
extern unsigned char *range_begin;
/* Bytes that the pool holds and nobody uses. */
size_t pool_idle();
/* Takes all of it back from whoever has it. */
void memory_release();
/* Forgets what is queued, and all events. */
void streams_release();
/* Fails unless [memory, memory + bytes) lies in one allocation. */
void memory_expect(const void *memory, size_t bytes, const char *what);
enum sim_machine machine();
int gpus();       /* of a good machine */
int capability(); /* of its GPUs: 90 is 9.0 */
void use_gpu(int device);
/* Lets the pretended time pass that a piece of work on the device takes, see clock.cc, and tells the
 * pretended CUPTI of it, see cupti.cc. */
enum work { KERNEL, UPLOAD, DOWNLOAD, COPY, FILL };
struct launch_shape {
    dim3 grid, block;
    size_t static_shared, dynamic_shared; /* bytes */
};
void work_done(work kind, const char *name, size_t bytes, double microseconds,
               const launch_shape &shape = {});
/* Pretended microseconds since the start. */
double clock_now();
void cupti_record(work kind, const char *name, size_t bytes, double from, double to,
                  const launch_shape &shape);

/* ---- races on device memory; see races.cc ---- */

void races_open();
/* While a kernel runs. */
void races_watch(bool kernel);
/* For memory that ends. */
void races_forget(const void *memory, size_t bytes);
/* For accesses to global memory that are not loads and stores of compiled kernels. */
void memory_touched(const void *at, size_t bytes, bool writes);
/* For a load that may take stale bytes where the kernel has written, also from its own thread: ld.global.nc. */
void memory_constant(const void *at, size_t bytes);
/* Fails for byte `at` of the range. */
[[noreturn]] void memory_race(ptrdiff_t at, const char *what, const char *who);

/* ---- streams; see streams.cc ---- */

using task = std::function<void()>;
/* Runs the work: now, late, or whenever the graph that is being captured is launched. */
void queue(cudaStream_t stream, task run);
/* Runs what is queued on the stream, or on all. */
void drain(cudaStream_t stream);
void drain_all();
bool late();
/* For calls that may not be in a capture: whether the stream is captured, which is then spoilt. */
bool spoils_capture(cudaStream_t stream);
/* For calls that the thread that captures may not make at all. */
bool spoils_capture();
bool is_pinned(const void *memory, size_t bytes);
/* Counts a wait of the host for the device. */
void host_waits();

/* Sets the dynamic shared memory that launches of this kernel may use from now on; false: too much. */
bool allow_shared(const void *kernel, size_t bytes);

/* ---- faults; see faults.cc ---- */

/* For the start of every call that may touch the device. True: it returns sticky_error(), which its caller
 * knows from then on; to call again is a finding. */
bool faulted(const char *caller = __builtin_FUNCTION());
cudaError_t sticky_error();
/* Whether the device has failed, for work that runs later and gets no error code. */
bool device_failed();
/* Whether a launch is taken: not where there is no memory for it; last_error returns that, once. */
bool launch_taken(const char *kernel);
/* Whether one that was taken runs: not the one that fails, nor those after it. */
bool launch_runs(const char *kernel);
/* Whether cuBLASLt does not support the product that is asked for, or fails in it. */
bool product_refused();
bool product_broken();
cudaError_t last_error(const char *caller = __builtin_FUNCTION());
/* Before each copy from the device. */
void download_begins(size_t bytes);
bool allocation_fails();

void catch_faults();

/* ---- for instructions of a whole warp and asynchronous copies: tensor_core.cc ---- */

enum { WARP = 32, THREADS_MAX = 1024 };

/* The moment: the running thread (-1: none), the number of barriers and blocks so far with its value at the
 * beginning of launch and block, and the number of barriers of each warp. */
extern int running;
extern uint32_t block_epoch, launch_begin, block_begin, warp_epoch[THREADS_MAX / WARP];
/* The place of a thread in its block. */
uint3 index_of(int thread);

/* Waits for the warp's other lanes at the same place, then `work` runs once over what each lane posted,
 * before any goes on; thread: that of lane 0. */
void collective(void *operands, void (*work)(void *const operands[WARP], int thread), const char *file,
                int line);
/* Findings and marks from here on are this thread's. */
void act_as(int thread);
/* The thread that runs. */
int acting();
/* An asynchronous copy of the running thread begins to write, and has written: neither a thread's own reads
 * nor another's are in order with it in between. */
void check_copy_begin(mark *mark, const char *name, ptrdiff_t index);
void check_copy_end(mark *mark, const char *name, ptrdiff_t index);
/* Counts the barrier or wait of this place; true where sim_skip_barrier took it away. */
bool skipped_here(const char *file, int line);
/* Fails where the running thread, which has ended, left copies that it never waited for. */
void copies_end();
/* The running thread goes on when reached(context). */
void wait_for(bool (*reached)(void *), void *context, const char *file, int line);
/* A number below `count`: which of several things that may happen in any order happens next. */
int pick(int count);

/* ---- compute capability 9.0: hopper.cc ---- */

/* One box that is on its way arrives; false: there is none. */
bool box_arrives();
/* A barrier of the whole block, the end of the running thread, the end of the block. */
void hopper_barrier();
void hopper_thread_ends();
void hopper_block_ends();

} // namespace sim

#endif
