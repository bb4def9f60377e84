/* A table in front of another one: it records each operation of kernels/operations.def, with its operands,
 * bytes and FLOPs, and forwards it. Without another table it computes nothing: that is how the planner
 * records a pass. Only operations have slots here; use the device's own table for everything else. */
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
    const char *label; /* from operations.def: static text; NULL: profiles leave it out */
    struct operand operands[CALL_OPERANDS_MAX];
    int operand_count;
    int64_t counts[CALL_COUNTS_MAX]; /* the integers, in the order of the list */
    int count_count;
    int64_t bytes, flops; /* least bytes moved and operations computed */
};

struct observer {
    void (*note)(void *context, const struct operation_call *call); /* before the call */
    void *context;
    const struct backend *backend; /* calls are forwarded to it; NULL: not forwarded */
    struct stream *stream;         /* of `backend` */
    enum precision precision;      /* of the stream */
};

/* The observing table, and the stream to pass to its slots. `observer` is borrowed. */
const struct backend *observed_backend(void);
struct stream *observed_stream(struct observer *observer);

/* The product that a call of gemm computes. */
struct gemm_shape operation_product(const struct operation_call *call);

/* The attention that a call of attention_forward or attention_backward computes. */
struct attention_problem operation_attention(const struct operation_call *call);

const char *operation_name(enum operation operation); /* the slot's: "gemm" */

#endif
