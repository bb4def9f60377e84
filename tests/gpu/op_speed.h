/* How fast each operation is at sizes that fill a chip: the operations as a table of timed calls. Each call
 * reports the bytes it moved and the operations it computed, so the numbers are next to the arguments they
 * follow from.
 *
 * Always: times are measured with the device's events, never the host's clock; operands are larger than a
 * chip's caches; inputs are noise and never written, so no product is of zeros or grows until it
 * overflows. */
#ifndef ANNEAL_TESTS_GPU_OP_SPEED_H
#define ANNEAL_TESTS_GPU_OP_SPEED_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/device/backend.h"

/* All at least 1; HS even. */
struct op_speed_sizes {
    int B, T, NH, NKV, HS, C, F, V;
    int rows;   /* of logits, at most B·T */
    int square; /* side of the large matrix product that others are measured by */
    size_t n;   /* parameters that an optimizer's step updates; at least 8 */
    int calls;  /* at most so many between two events */
};

/* About 4.5 GB in fp32. */
extern const struct op_speed_sizes op_speed_large;

/* The bytes and operations of one call: each element of each tensor is read or written once, a multiply-add
 * is two operations. Flops are 0 for calls limited by memory. */
struct op_work {
    double bytes, flops;
};

struct op_bench; /* opaque: a device with the operands of all calls */

struct op_speed_case {
    const char *name;
    struct op_work (*run)(struct op_bench *bench);
    double least; /* share of its bound, below which gpu-check fails (speeds.c); 0: timed only */
};

/* The first two are the references for the others: a copy within the device, a large matrix product. */
enum { OP_SPEED_COPY, OP_SPEED_GEMM };
extern const struct op_speed_case op_speed_cases[]; /* ends with a NULL name */

/* Opens a device of its own. STATUS_NO_MEMORY: the operands do not fit. */
enum status op_bench_open(const struct backend *backend, enum precision precision,
                          const struct op_speed_sizes *sizes, struct op_bench **out, struct err *err);
void op_bench_close(struct op_bench *bench);

/* Has cuDNN compute the attention of the cases, where it can. STATUS_NOT_FOUND: cuDNN is missing. */
enum status op_bench_use_cudnn(struct op_bench *bench, bool window, struct err *err);

/* Median milliseconds of a call, warmed up and repeated. */
enum status op_bench_time(struct op_bench *bench, const struct op_speed_case *op, double *ms,
                          struct op_work *work, struct err *err);

#endif
