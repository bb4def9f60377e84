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

/* One opened device. */
struct op_side {
    const struct backend *backend;
    struct device *device;
    struct stream *stream;
    enum precision precision;
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

enum { OP_OUTPUTS_MAX = 4 };

/* The outputs of a case: names, values as floats, and the allowed relative error to the values of an fp32
 * side. For a shape in bf16 the fp32 side's own tolerances apply. Free with op_outcome_release. */
struct op_outcome {
    int count;
    struct {
        const char *name;
        float *values;
        size_t n;
        double tolerance;
    } outputs[OP_OUTPUTS_MAX];
    enum status status; /* of stream_wait */
    struct err err;
};

struct op_case {
    const char *name;
    void (*run)(const struct op_side *side, struct op_shape shape, struct op_outcome *out);
};

extern const struct op_case op_cases[]; /* ends with a NULL name */

/* Those that are in op_cases_some.c. */
void op_case_all_reduce(const struct op_side *side, struct op_shape shape, struct op_outcome *out);
void op_case_class_weights(const struct op_side *side, struct op_shape shape, struct op_outcome *out);
void op_case_pooling(const struct op_side *side, struct op_shape shape, struct op_outcome *out);

/* A shape of the fuzz, a pure function of its number: 1, primes, tiles plus and minus one, GQA ratios. With
 * small it stays small enough for sanitizers. */
struct op_shape op_fuzz(uint32_t number, bool small);

void op_outcome_release(struct op_outcome *outcome);

/* ‖out − ref‖ / ‖ref‖ of one output; NaN if only one of them is finite at some index; 0 for zeros. */
double op_error(const struct op_outcome *out, const struct op_outcome *ref, int output);
/* The first index whose bits differ, or −1. */
int64_t op_difference(const struct op_outcome *a, const struct op_outcome *b, int output);

#endif
