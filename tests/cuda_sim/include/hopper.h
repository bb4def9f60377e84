/* The functions of kernels/hopper.cuh in the simulator, see tests/cuda_sim/hopper.hh. */
#ifndef ANNEAL_TESTS_CUDA_SIM_HOPPER_H
#define ANNEAL_TESTS_CUDA_SIM_HOPPER_H
#ifdef __cplusplus

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#define __grid_constant__

namespace sim {

uint32_t shared_address(const span &at);
void barrier_init(const span &barrier, unsigned count);
void barriers_ready();
void barrier_arrive(const span &barrier, unsigned bytes);
/* Waits are counted as sim_skip_barrier counts barriers, and group_wait's, too. */
void barrier_wait(const span &barrier, unsigned parity, const char *file, int line);
void box_load(uint32_t to, const CUtensorMap *tensor, const span &barrier, const int (&at)[4]);

/* Registers that a thread names in a fence or in a wait. */
struct registers {
    void *at;
    size_t bytes;
};
/* A product of a warpgroup, as one thread calls it. */
struct group_product {
    float *d;
    size_t columns;    /* of d */
    const uint32_t *a; /* left operand in registers, or NULL: a_at */
    uint64_t a_at, b_at;
    bool add;
};
void group_fence(const registers *list, size_t count, const char *file, int line);
void group_product_begin(const group_product &product, const char *file, int line);
void group_commit(const char *file, int line);
void group_wait(int pending, const registers *list, size_t count, const char *file, int line);
void registers_set(int count, bool more, const char *file, int line);

} // namespace sim

static inline uint32_t shared_address(sim::pointer<__nv_bfloat16> at)
{
    return sim::shared_address(at.span(16));
}

static inline void barrier_init(sim::pointer<uint64_t> barrier, unsigned count)
{
    sim::barrier_init(barrier.span(8), count);
}

static inline void barriers_ready()
{
    sim::barriers_ready();
}

static inline void barrier_arrive(sim::pointer<uint64_t> barrier)
{
    sim::barrier_arrive(barrier.span(8), 0);
}

static inline void barrier_expect(sim::pointer<uint64_t> barrier, unsigned bytes)
{
    sim::barrier_arrive(barrier.span(8), bytes);
}

static inline void barrier_wait(sim::pointer<uint64_t> barrier, unsigned parity,
                                const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    sim::barrier_wait(barrier.span(8), parity, file, line);
}

static inline void box_load(sim::pointer<__nv_bfloat16> to, const CUtensorMap *tensor,
                            sim::pointer<uint64_t> barrier, int column, int part, int row, int b)
{
    sim::box_load(shared_address(to), tensor, barrier.span(8), {column, part, row, b});
}

/* One overload for each number of arrays, because the caller's line comes last. */
template <typename A>
static inline void group_fence(A &a, const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    const sim::registers list[] = {{a, sizeof a}};
    sim::group_fence(list, 1, file, line);
}

template <typename A, typename B>
static inline void group_fence(A &a, B &b, const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    const sim::registers list[] = {{a, sizeof a}, {b, sizeof b}};
    sim::group_fence(list, 2, file, line);
}

template <typename A, typename B, typename C, typename D>
static inline void group_fence(A &a, B &b, C &c, D &d, const char *file = __builtin_FILE(),
                               int line = __builtin_LINE())
{
    const sim::registers list[] = {{a, sizeof a}, {b, sizeof b}, {c, sizeof c}, {d, sizeof d}};
    sim::group_fence(list, 4, file, line);
}

template <int PENDING, typename A>
static inline void group_wait(A &a, const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    const sim::registers list[] = {{a, sizeof a}};
    sim::group_wait(PENDING, list, 1, file, line);
}

template <int PENDING, typename A, typename B>
static inline void group_wait(A &a, B &b, const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    const sim::registers list[] = {{a, sizeof a}, {b, sizeof b}};
    sim::group_wait(PENDING, list, 2, file, line);
}

template <int COUNT>
static inline void registers_give(const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    sim::registers_set(COUNT, false, file, line);
}

template <int COUNT>
static inline void registers_take(const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    sim::registers_set(COUNT, true, file, line);
}

static inline void group_commit(const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    sim::group_commit(file, line);
}

template <int NT>
static inline void group_rows(float (&d)[NT][4], uint64_t a, uint64_t b, bool add,
                              const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    sim::group_product_begin({d[0], 8 * NT, NULL, a, b, add}, file, line);
}

template <int NT>
static inline void group_columns(float (&d)[NT][4], const uint32_t (&a)[4], uint64_t b,
                                 const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    sim::group_product_begin({d[0], 8 * NT, a, 0, b, true}, file, line);
}

#endif
#endif
