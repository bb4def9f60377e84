/* How fast each operation is at sizes that fill a chip: the operations as a table of timed calls. A call says
 * itself what it moved and computed, so the number stands beside the arguments that it follows from.
 *
 * Always: the device's own events measure, never the host's clock; operands are larger than a chip's caches;
 * inputs are noise and no call writes to them, so no product is of zeros or grows until it overflows. */
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

/* What one call has to move and to compute: each element of each tensor read or written once, two operations
 * a multiply-add. Of what is bound by arithmetic, flops; of what is bound by memory, flops are 0. */
struct op_work {
    double bytes, flops;
};

struct op_bench; /* opaque: a device with the operands of all calls */

struct op_speed_case {
    const char *name;
    struct op_work (*run)(struct op_bench *bench);
};

/* The first two are what the others are measured by: a copy within the device, a large matrix product. */
enum { OP_SPEED_COPY, OP_SPEED_GEMM };
extern const struct op_speed_case op_speed_cases[]; /* ends with a NULL name */

/* Opens a device of its own. STATUS_NO_MEMORY: the operands do not fit. */
enum status op_bench_open(const struct backend *backend, enum precision precision,
                          const struct op_speed_sizes *sizes, struct op_bench **out, struct err *err);
void op_bench_close(struct op_bench *bench);

/* Median milliseconds of a call, warmed up and repeated. */
enum status op_bench_time(struct op_bench *bench, const struct op_speed_case *op, double *ms,
                          struct op_work *work, struct err *err);

#endif
