/* Shared by the CPU twins: the device and stream behind the opaque handles of backend.h, and the twins'
 * prototypes. Private to kernels/.
 *
 * A parallel region always has exactly the stream's thread count (an if-clause or a smaller team would make
 * libgomp build a new team, which allocates). An operation of generating that has one row does without a
 * region: entering and leaving one takes longer than the row. */
#ifndef ANNEAL_KERNELS_DEVICE_CPU_DEVICE_H
#define ANNEAL_KERNELS_DEVICE_CPU_DEVICE_H

#include "kernels/device/cpu.h"
#include "kernels/device/cpu_threads.h"

/* A slot's parameters are those of every device. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

struct device {
    int threads;                  /* 1 to CPU_THREADS_MAX */
    _Atomic size_t pool_reserved; /* bytes handed out by pool_alloc */
    _Atomic int64_t allocations;  /* so far */
};

struct worker;

/* Calls are synchronous on the CPU: a stream only carries the thread count. Only collectives on a stream of
 * stream_beside are carried out later, by its thread. */
struct stream {
    int threads;
    enum precision precision;
    struct worker *worker; /* NULL: none */
    void *products;        /* product_bytes() for each thread */
    enum product_way product_way;
    const struct backend *bf16; /* the table that has the operations in bf16 */
};

#define OPERATION(name, label, operands, flops) void name(PARAMETERS(operands) struct stream *stream);
#include "kernels/operations.def"

/* *total += the partial sums of row chunks, `stride` apart */
static inline void chunks_add(float *total, const float *partial, int chunks, int stride)
{
    double sum = 0;
    for (int chunk = 0; chunk < chunks; chunk++) sum += partial[(size_t)chunk * stride];
    *total = (float)(*total + sum);
}

/* The next task of a counter that threads share, from 0 on. */
static inline long task_next(long *counter)
{
    long task;
#pragma omp atomic capture
    task = (*counter)++;
    return task;
}

#endif
