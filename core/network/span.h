/* A piece of a training step: one operation of one layer in one phase, when, and for how long. The profiler
 * measures spans, the run store adds them up, the trace draws them. Plain data. */
#ifndef ANNEAL_CORE_NETWORK_SPAN_H
#define ANNEAL_CORE_NETWORK_SPAN_H

#include <stdint.h>

enum phase {
    PHASE_DATA, /* until the batch is where the forward pass reads it */
    PHASE_FORWARD,
    PHASE_BACKWARD,
    PHASE_RECOMPUTE, /* activations again, within the backward pass */
    PHASE_OPTIMIZER,
    PHASES
};

struct span {
    enum phase phase;
    int layer;       /* -1: of no layer */
    const char *op;  /* static text: "attention", "gemm gate_up", … */
    double start_us; /* microseconds since the step began, on the clock of the device */
    double time_us;  /* until the next span's start; NaN: not measured */
    int64_t bytes;   /* moved to and from memory at least, by the operation's shapes */
    int64_t flops;   /* two for a multiply-add */
};

const char *phase_name(enum phase phase); /* "data", "forward", … */

#endif
