/* The simulator's multiprocessor: runs a launch block by block, in any order, each thread of a block as a
 * fiber. A fiber runs until it waits. A warp continues when all lanes of the mask wait at the same line, a
 * block when all its threads wait at the same __syncthreads(). If neither is possible, a barrier is
 * divergent.
 *
 * Shared memory has a mark for every two bytes (its writer, its readers, the interval between barriers). If
 * two threads access them in one interval and one writes, that is a race, whichever ran first. A launch may
 * use 48 KiB, or as much dynamic memory as cudaFuncSetAttribute allowed its kernel; in total never more than
 * a block may have: see sim_set_capability. */
#include <boost/context/detail/fcontext.hpp>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <numeric>

#include "tests/cuda_sim/machine.hh"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define ASAN 1
#else
#define ASAN 0
#endif

namespace context = boost::context::detail;

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

int sim::running = -1;
uint32_t sim::block_epoch = 1, sim::launch_begin, sim::block_begin, sim::warp_epoch[THREADS_MAX / WARP];

namespace {

enum state { READY, AT_WARP, AT_BLOCK, AT_CONDITION, DONE };
using sim::THREADS_MAX, sim::WARP, sim::running, sim::block_epoch, sim::warp_epoch;
/* The stacks of a block's threads begin at different places of their pages, or all would want the same lines of
 * a cache. */
enum { STACK = ASAN ? 256 << 10 : 64 << 10, STACK_STEP = 1088 };
enum { SHARED_FREE = 48 << 10, SHARED_MAX = 227 << 10 };

struct fiber {
    context::fcontext_t context;
    unsigned char *stack;
    void *fake_stack;
    state now;
    uint3 index;
    const char *file;
    int line;
    bool memory_barrier; /* __syncwarp, not a shuffle */
    unsigned mask;
    uint64_t value;
    void *operands; /* operands of an instruction of the whole warp, else NULL */
    void (*work)(void *const operands[WARP], int thread);
    bool (*reached)(void *context); /* AT_CONDITION */
    void *context_of_condition;
};

fiber fibers[THREADS_MAX];
int thread_count;
context::fcontext_t scheduler;
#if ASAN
void *scheduler_fake_stack;
const void *scheduler_bottom;
size_t scheduler_size;
#endif
const std::function<void()> *body;
const char *kernel_name;
uint64_t launches;

uint64_t snapshot[THREADS_MAX];

unsigned char dynamic_bytes[SHARED_MAX] __attribute__((aligned(1024)));
sim::mark dynamic_marks[SHARED_MAX / sim::MARKED];
size_t dynamic_size;
auto &allowed = *new std::map<const void *, size_t>; /* dynamic shared memory, by kernel */

/* Arrays of shared memory that this launch has reached. */
enum { ARRAYS_MAX = 64 };
const void *arrays[ARRAYS_MAX];
int array_count;
size_t array_bytes, shared_limit;

/* Barriers and waits for copies reached so far, in order, and the one that sim_skip_barrier disables. */
enum { SITES_MAX = 64 };
struct site {
    const char *file;
    int line;
} sites[SITES_MAX];
int site_count, skipped = -1;

enum sim_order order = SIM_FORWARD;
uint32_t order_seed, order_state;
uint64_t last; /* of a launch only so many blocks run; 0: all */

/* `turn` of `count` in the chosen order: a rotation in a random direction is enough to run any two threads in
 * both orders within a few blocks. */
int choose(int turn, int count, uint32_t draw)
{
    if (order == SIM_FORWARD) return turn;
    if (order == SIM_REVERSE) return count - 1 - turn;
    int at = (int)(((uint32_t)turn + draw) % (uint32_t)count);
    return draw & 1 << 16 ? count - 1 - at : at;
}

uint32_t draw()
{
    order_state = order_state * 1664525u + 1013904223u;
    return order_state >> 8;
}

void fiber_main(context::transfer_t transfer)
{
#if ASAN
    __sanitizer_finish_switch_fiber(NULL, &scheduler_bottom, &scheduler_size);
#endif
    scheduler = transfer.fctx;
    (*body)();
    sim::copies_end();
    sim::hopper_thread_ends();
    fibers[running].now = DONE;
#if ASAN
    __sanitizer_start_switch_fiber(NULL, scheduler_bottom, scheduler_size);
#endif
    context::jump_fcontext(scheduler, NULL);
    abort(); /* a thread that is done never runs again */
}

void resume(int thread)
{
    fiber *f = &fibers[thread];
    running = thread;
    threadIdx = f->index;
#if ASAN
    __sanitizer_start_switch_fiber(&scheduler_fake_stack, f->stack, STACK);
#endif
    f->context = context::jump_fcontext(f->context, NULL).fctx;
#if ASAN
    __sanitizer_finish_switch_fiber(scheduler_fake_stack, NULL, NULL);
#endif
}

/* The running fiber waits; the scheduler continues. */
void wait(state why, const char *file, int line)
{
    fiber *f = &fibers[running];
    f->now = why;
    f->file = file;
    f->line = line;
#if ASAN
    __sanitizer_start_switch_fiber(&f->fake_stack, scheduler_bottom, scheduler_size);
#endif
    scheduler = context::jump_fcontext(scheduler, NULL).fctx;
#if ASAN
    __sanitizer_finish_switch_fiber(f->fake_stack, &scheduler_bottom, &scheduler_size);
#endif
}

/* Describes why `thread` does not reach the barrier at which `waiting` waits. */
[[noreturn]] void divergent(int waiting, int thread)
{
    fiber *w = &fibers[waiting], *f = &fibers[thread];
    threadIdx = f->index;
    running = thread;
    if (f->now == DONE)
        sim::fail("divergent barrier: it has ended, but thread (%u,%u,%u) waits for it at %s:%d", w->index.x,
                  w->index.y, w->index.z, w->file, w->line);
    sim::fail("divergent barrier: it waits at %s:%d, but thread (%u,%u,%u) waits for it at %s:%d", f->file,
              f->line, w->index.x, w->index.y, w->index.z, w->file, w->line);
}

/* Releases the lanes that wait together with fibers[thread]; false: one of them is not there yet. `elsewhere`
 * becomes the last that waits at another place, and may come after that. */
bool release_warp(int thread, int *elsewhere)
{
    fiber *f = &fibers[thread];
    int first = thread / WARP * WARP;
    for (int l = 0; l < WARP && first + l < thread_count; l++)
        if (f->mask >> l & 1 && fibers[first + l].now == AT_CONDITION) return false;
    for (int l = 0; l < WARP; l++) {
        if (!(f->mask >> l & 1)) continue;
        if (first + l >= thread_count) {
            running = thread;
            threadIdx = f->index;
            sim::fail("%s:%d: the mask %#x names lane %d, which this block does not have", f->file, f->line,
                      f->mask, l);
        }
        fiber *other = &fibers[first + l];
        if (other->now == READY) return false;
        if (other->now != AT_WARP) divergent(thread, first + l);
        if (other->line == f->line && other->mask == f->mask && other->work == f->work) continue;
        *elsewhere = first + l;
        return false;
    }
    if (f->work != NULL) {
        void *operands[WARP];
        for (int l = 0; l < WARP; l++) operands[l] = fibers[first + l].operands;
        f->work(operands, first);
    }
    if (f->memory_barrier) warp_epoch[first / WARP]++;
    unsigned mask = f->mask;
    for (int l = 0; l < WARP; l++) {
        if (!(mask >> l & 1)) continue;
        snapshot[first + l] = fibers[first + l].value;
        fibers[first + l].now = READY;
    }
    return true;
}

/* Runs until every lane is done or waits for others than its warp. */
void run_warp(int first)
{
    int count = thread_count - first < WARP ? thread_count - first : WARP;
    for (;;) {
        uint32_t random = order == SIM_SHUFFLED ? draw() : 0;
        for (int turn = 0; turn < count; turn++) {
            int thread = first + choose(turn, count, random);
            if (fibers[thread].now == READY) resume(thread);
        }
        bool released = false, hope = false;
        int waiting = -1, elsewhere = -1;
        for (int l = 0; l < count; l++) {
            if (fibers[first + l].now == AT_CONDITION) hope = true;
            if (fibers[first + l].now != AT_WARP) continue;
            int other = -1;
            if (release_warp(first + l, &other)) released = true;
            if (other >= 0) waiting = first + l, elsewhere = other;
        }
        if (released) continue;
        if (elsewhere >= 0 && !hope) divergent(waiting, elsewhere);
        return;
    }
}

void prepare_fibers(dim3 block)
{
    for (int t = 0; t < thread_count; t++) {
        fiber *f = &fibers[t];
        if (f->stack == NULL) {
            void *memory =
                mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (memory == MAP_FAILED) sim::fail("no memory for a thread's stack");
            f->stack = (unsigned char *)memory;
        }
#if ASAN
        __asan_unpoison_memory_region(f->stack + STACK - 4096, 4096);
#endif
        size_t used = STACK - (ASAN ? 0 : (size_t)t * STACK_STEP % (STACK / 2));
        f->context = context::make_fcontext(f->stack + used, used, fiber_main);
        f->now = READY;
        unsigned i = (unsigned)t;
        f->index = {i % block.x, i / block.x % block.y, i / (block.x * block.y)};
    }
}

/* Lets threads go on whose condition is met; false: none is. */
bool conditions_met()
{
    bool met = false;
    for (int t = 0; t < thread_count; t++)
        if (fibers[t].now == AT_CONDITION && fibers[t].reached(fibers[t].context_of_condition)) {
            fibers[t].now = READY;
            met = true;
        }
    return met;
}

/* For a block none of whose threads can go on. True: one waits for a condition, and now there is hope. */
bool box_awaited()
{
    int t = 0;
    while (t < thread_count && fibers[t].now != AT_CONDITION) t++;
    if (t == thread_count) return false;
    if (sim::box_arrives()) return true;
    sim::act_as(t);
    sim::fail("it waits at %s:%d for what no thread and no copy will do", fibers[t].file, fibers[t].line);
}

void run_block(dim3 block)
{
    int warps = (thread_count + WARP - 1) / WARP;
    sim::block_begin = ++block_epoch;
    prepare_fibers(block);
    for (;;) {
        uint32_t random = order == SIM_SHUFFLED ? draw() : 0;
        for (int turn = 0; turn < warps; turn++) run_warp(choose(turn, warps, random) * WARP);
        if (conditions_met() || box_awaited()) continue;
        int waiting = -1;
        for (int t = 0; t < thread_count && waiting < 0; t++)
            if (fibers[t].now == AT_BLOCK) waiting = t;
        if (waiting < 0) {
            sim::hopper_block_ends();
            return;
        }
        for (int t = 0; t < thread_count; t++)
            if (fibers[t].now != AT_BLOCK || fibers[t].line != fibers[waiting].line ||
                strcmp(fibers[t].file, fibers[waiting].file) != 0)
                divergent(waiting, t);
        block_epoch++;
        sim::hopper_barrier();
        for (int t = 0; t < thread_count; t++) fibers[t].now = READY;
    }
}

/* All blocks or the last ones, in the chosen order; a shuffled one goes through them in steps of a number
 * that has no divisor in common with theirs. */
void run_blocks(dim3 grid, dim3 block)
{
    uint64_t all = (uint64_t)grid.x * grid.y * grid.z, count = last > 0 && last < all ? last : all;
    uint64_t step = 1, at = 0;
    if (order == SIM_REVERSE) step = at = count - 1;
    if (order == SIM_SHUFFLED) {
        at = draw() % count;
        step = count * 5 / 8 | 1;
        while (std::gcd(step, count) != 1) step++;
    }
    for (uint64_t turn = 0; turn < count; turn++, at = (at + step) % count) {
        uint64_t place = all - count + at;
        blockIdx = {(unsigned)(place % grid.x), (unsigned)(place / grid.x % grid.y),
                    (unsigned)(place / grid.x / grid.y)};
        run_block(block);
    }
}

/* What a block may have. Of the supported GPUs, those of 8.6, 8.9 and 12.x allow the least. */
size_t shared_most()
{
    return sim::capability() == 90 ? (size_t)SHARED_MAX : (size_t)99 << 10;
}

void check_shared()
{
    if (array_bytes + dynamic_size > shared_limit)
        sim::fail("%zu bytes of shared memory, %zu of them dynamic: the launch has leave for %zu "
                  "(cudaFuncSetAttribute gives more, up to %zu with what is not dynamic)",
                  array_bytes + dynamic_size, dynamic_size, shared_limit, shared_most());
}

} // namespace

namespace sim {

void fail(const char *format, ...)
{
    va_list args;
    if (kernel_name == NULL)
        fprintf(stderr, "cuda_sim: outside any kernel: ");
    else
        fprintf(stderr, "cuda_sim: kernel %s, block (%u,%u,%u), thread (%u,%u,%u): ", kernel_name, blockIdx.x,
                blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    fflush(NULL);
    _exit(SIM_FAILURE_STATUS);
}

bool allow_shared(const void *kernel, size_t bytes)
{
    if (bytes > shared_most()) return false;
    allowed[kernel] = bytes;
    return true;
}

/* Every thread reaches the same arrays, so those of one thread are enough. */
void count_shared(const void *array, size_t bytes)
{
    if (running != 0) return;
    for (int i = 0; i < array_count; i++)
        if (arrays[i] == array) return;
    if (array_count == ARRAYS_MAX) fail("more than %d arrays of shared memory", ARRAYS_MAX);
    arrays[array_count++] = array;
    array_bytes += bytes;
    check_shared();
}

static void run_grid(const char *kernel, const void *at, dim3 grid, dim3 block, size_t shared_bytes,
                     const std::function<void()> &run)
{
    uint64_t threads = (uint64_t)block.x * block.y * block.z;
    catch_faults();
    launches++;
    if (!launch_runs(kernel)) return;
    kernel_name = kernel;
    if (threads == 0 || threads > THREADS_MAX || block.z > 64) fail("a block of %lu threads", threads);
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535)
        fail("a grid of (%u,%u,%u) blocks", grid.x, grid.y, grid.z);
    gridDim = grid;
    blockDim = block;
    thread_count = (int)threads;
    dynamic_size = shared_bytes;
    array_count = 0;
    array_bytes = 0;
    auto leave = allowed.find(at);
    shared_limit = SHARED_FREE;
    if (leave != allowed.end()) /* the rest is left for static memory */
        shared_limit = shared_bytes > leave->second ? leave->second : shared_most();
    check_shared();
    order_state = order_seed;
    body = &run;
    memory_open(true);
    launch_begin = block_epoch + 1;
    races_watch(true);
    run_blocks(grid, block);
    races_watch(false);
    running = -1;
    work_done(KERNEL, kernel, 0,
              (double)(((size_t)grid.x * grid.y * grid.z * block.x * block.y * block.z + 1023) / 1024),
              {grid, block, array_bytes, dynamic_size});
    memory_check(kernel);
    memory_open(false);
    kernel_name = NULL;
}

void launch(const char *kernel, const void *at, cudaStream_t stream, dim3 grid, dim3 block,
            size_t shared_bytes, const std::function<void()> &run)
{
    if (launch_taken(kernel)) queue(stream, [=] { run_grid(kernel, at, grid, block, shared_bytes, run); });
}

void sync_threads(const char *file, int line)
{
    if (!skipped_here(file, line)) wait(AT_BLOCK, file, line);
}

bool skipped_here(const char *file, int line)
{
    int at = 0;
    while (at < site_count && (sites[at].line != line || strcmp(sites[at].file, file) != 0)) at++;
    if (at == site_count && site_count < SITES_MAX) sites[site_count++] = {file, line};
    return at == skipped;
}

void exchange(unsigned mask, uint64_t value, const char *file, int line)
{
    fiber *f = &fibers[running];
    if (!(mask >> lane() & 1)) fail("%s:%d: the mask %#x leaves out the lane that calls", file, line, mask);
    f->mask = mask;
    f->value = value;
    f->work = NULL;
    f->memory_barrier = false;
    wait(AT_WARP, file, line);
}

void sync_warp(unsigned mask, const char *file, int line)
{
    fiber *f = &fibers[running];
    f->mask = mask;
    f->value = 0;
    f->work = NULL;
    f->memory_barrier = true;
    wait(AT_WARP, file, line);
}

void collective(void *operands, void (*work)(void *const operands[WARP], int thread), const char *file,
                int line)
{
    fiber *f = &fibers[running];
    f->mask = 0xffffffffu;
    f->value = 0;
    f->operands = operands;
    f->work = work;
    f->memory_barrier = false;
    wait(AT_WARP, file, line);
}

void act_as(int thread)
{
    running = thread;
    threadIdx = fibers[thread].index;
}

void wait_for(bool (*reached)(void *), void *context, const char *file, int line)
{
    fiber *f = &fibers[running];
    if (reached(context)) return;
    f->reached = reached;
    f->context_of_condition = context;
    wait(AT_CONDITION, file, line);
}

int pick(int count)
{
    return choose(0, count, order == SIM_SHUFFLED ? draw() : 0);
}

int acting()
{
    return running;
}

uint64_t exchanged(int source)
{
    fiber *f = &fibers[running];
    if (source < 0 || source >= WARP || !(f->mask >> source & 1))
        fail("%s:%d: a shuffle from lane %d, which is not in the mask", f->file, f->line, source);
    return snapshot[running / WARP * WARP + source];
}

int lane()
{
    return running % WARP;
}

unsigned ballot(unsigned mask, bool predicate, const char *file, int line)
{
    unsigned votes = 0;
    exchange(mask, predicate, file, line);
    for (int l = 0; l < WARP; l++)
        if (mask >> l & 1 && snapshot[running / WARP * WARP + l]) votes |= 1u << l;
    return votes;
}

uint3 index_of(int thread)
{
    return fibers[thread].index;
}

void dynamic_shared(unsigned char **base, mark **marks, size_t *bytes)
{
    *base = dynamic_bytes;
    *marks = dynamic_marks;
    *bytes = dynamic_size;
}

} // namespace sim

extern "C" void sim_set_order(enum sim_order to, uint32_t seed)
{
    order = to;
    order_seed = seed;
}

extern "C" void sim_set_last_blocks(uint64_t count)
{
    last = count;
}

extern "C" uint64_t sim_launches(void)
{
    return launches;
}

extern "C" int sim_barriers(void)
{
    return site_count;
}

extern "C" void sim_skip_barrier(int barrier)
{
    skipped = barrier;
    if (barrier < 0) site_count = 0;
}
