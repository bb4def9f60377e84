/* A table over another one: each operation of kernels/operations.def is noted, with its operands, bytes and
 * FLOPs, and then passed on. Over nothing it computes nothing: the planner records a pass in this way. Only
 * the operations have slots here; all else stays with the device's own table. */
#ifndef ANNEAL_KERNELS_DEVICE_OBSERVED_H
#define ANNEAL_KERNELS_DEVICE_OBSERVED_H

#include "kernels/device/backend.h"

enum operation {
#define OPERATION(name, ...) OPERATION_##name,
#include "kernels/operations.def"
    OPERATIONS
};

enum access { ACCESS_READ, ACCESS_WRITTEN, ACCESS_ADDED, ACCESS_SCRATCH };

struct operand {
    const void *at;
    int64_t bytes;
    enum access access;
    struct gemm_layout layout; /* of a matrix */
};

enum { CALL_OPERANDS_MAX = 12, CALL_COUNTS_MAX = 8 };

struct operation_call {
    enum operation operation;
    const char *label; /* as operations.def has it: static text; NULL: not part of a profile */
    struct operand operands[CALL_OPERANDS_MAX];
    int operand_count;
    int64_t counts[CALL_COUNTS_MAX]; /* the integers, as the list has them */
    int count_count;
    int64_t bytes, flops; /* that it must move and compute at least */
};

struct observer {
    void (*note)(void *context, const struct operation_call *call); /* before the call */
    void *context;
    const struct backend *backend; /* what calls are passed on to; NULL: nothing */
    struct stream *stream;         /* of it */
    enum precision precision;      /* of the stream */
};

/* The table, and the stream to give its slots. `observer` is borrowed. */
const struct backend *observed_backend(void);
struct stream *observed_stream(struct observer *observer);

/* The product that a call of gemm is. */
struct gemm_shape operation_product(const struct operation_call *call);

const char *operation_name(enum operation operation); /* the slot's: "gemm" */

#endif
