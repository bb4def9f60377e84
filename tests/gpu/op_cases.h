/* Every operation of the backend's table as a case that runs on any device: it makes its inputs from the
 * shape's seed, poisons its outputs, calls the operation and brings the outputs to the host. Run on two
 * tables, the outcomes are compared. Used by the simulator's tests and by gpu-check; stands on libc alone.
 *
 * A shape in bf16 rounds the inputs that are tensors of the stream's precision to bf16, on every side. A side
 * opened in bf16 then holds them as bf16; the CPU's, in fp32, computes from the same values and is the
 * reference. So what is judged is the operation, not the rounding of its inputs. */
#ifndef ANNEAL_TESTS_GPU_OP_CASES_H
#define ANNEAL_TESTS_GPU_OP_CASES_H

#include <stdint.h>

#include "kernels/device/backend.h"
#include "tests/gpu/op_outcome.h"

/* One opened device. */
struct op_side {
    const struct backend *backend;
    struct device *device;
    struct stream *stream;
    enum precision precision;
    bool cudnn; /* attention is cuDNN's, where it can compute it */
};

enum status op_side_open(struct op_side *side, const struct backend *backend, enum precision precision,
                         struct err *err);
void op_side_close(struct op_side *side);

/* Each case uses the members that it needs; all sizes are at least 1. */
struct op_shape {
    int B, T, NH, NKV, HS; /* rows are B·T; HS even where the case rotates */
    int C, F, V;
    int window; /* of attention; 0: none */
    uint32_t seed;
    int skew; /* elements by which every array starts off its 256-byte boundary */
    enum precision precision;
};

struct op_case {
    const char *name;
    void (*run)(const struct op_side *side, struct op_shape shape, struct op_outcome *out);
};

extern const struct op_case op_cases[]; /* ends with a NULL name */

/* Those that are in op_cases_some.c. */
void op_case_all_reduce(const struct op_side *side, struct op_shape shape, struct op_outcome *out);
void op_case_class_weights(const struct op_side *side, struct op_shape shape, struct op_outcome *out);
void op_case_average(const struct op_side *side, struct op_shape shape, struct op_outcome *out);
void op_case_moments(const struct op_side *side, struct op_shape shape, struct op_outcome *out);
void op_case_muon(const struct op_side *side, struct op_shape shape, struct op_outcome *out);
void op_case_pooling(const struct op_side *side, struct op_shape shape, struct op_outcome *out);

/* A shape of the fuzz, a pure function of its number: 1, primes, tiles plus and minus one, GQA ratios. With
 * small it stays small enough for sanitizers. */
struct op_shape op_fuzz(uint32_t number, bool small);

#endif
