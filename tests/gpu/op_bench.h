/* What the cases of op_speed.h have in common: an opened device and the operands of all calls. Private to
 * op_speed.c, which prepares and times, and op_speed_cases.c, which calls. */
#ifndef ANNEAL_TESTS_GPU_OP_BENCH_H
#define ANNEAL_TESTS_GPU_OP_BENCH_H

#include "tests/gpu/op_speed.h"

enum { OP_BENCH_BUFFERS_MAX = 24 };

struct op_bench {
    const struct backend *backend;
    enum precision precision;
    struct device *device;
    struct stream *stream;
    struct event *marks[2];
    struct op_speed_sizes s;
    int N, Q;          /* B·T rows; (NH+2·NKV)·HS columns of qkv */
    size_t bytes;      /* of each of */
    void *x, *y;       /* noise in [−1, 1), never written to */
    void *a, *b, *c;   /* written to */
    float *second;     /* second moments: noise in [0, 1) */
    float *rstd, *lse; /* (N, NH+NKV), (B, NH, T) */
    float *losses, *small, *cos_sin;
    int32_t *tokens;
    int32_t *rows; /* (2, N): slots and positions of all tokens of B cached sequences, the last ones first;
                    * then (2, T): of the tokens of one sequence */
    void *workspace;
    struct clip_state *clip;
    struct step_control *control;
    struct update_range *ranges; /* (2) as without groups of parameters: nine tenths decay */
    void *memory[OP_BENCH_BUFFERS_MAX];
    int count;
    bool first; /* the call that prepares what the others of its case need */
};

/* The window of the cases that have one. */
int op_bench_window(const struct op_bench *bench);

/* The matrix products among the cases, and their shapes. */
enum op_bench_products { LARGE, QKV, GATE_UP, DOWN, GATE_UP_DX, GATE_UP_DWEIGHT, HEAD, OP_BENCH_PRODUCTS };
struct gemm_shape op_bench_product(const struct op_bench *bench, enum op_bench_products product);

#endif
