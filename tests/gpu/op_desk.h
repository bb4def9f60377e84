/* The arrays of a case in op_cases.h, on one side's device: filled from the shape's seed with the same values
 * on every side, poisoned, or brought back as floats. Every array starts shape.skew elements off its
 * boundary. The program ends if memory is short or filling an array fails. */
#ifndef ANNEAL_TESTS_GPU_OP_DESK_H
#define ANNEAL_TESTS_GPU_OP_DESK_H

#include "tests/gpu/op_cases.h"

/* Allowed relative errors. */
#define ELEMENTWISE 1e-6
#define REDUCTION   1e-5

struct desk {
    const struct op_side *side;
    struct op_shape shape;
    void *memory[16];
    int count;
    uint32_t draws;
};

/* Clears the outcome; close frees every array and takes the stream's status into it. */
struct desk desk_open(const struct op_side *side, struct op_shape shape, struct op_outcome *out);
void desk_close(struct desk *desk, struct op_outcome *out);

/* An fp32 side of a shape in bf16, of which the others are judged. */
bool desk_is_reference(const struct desk *desk);

/* A copy of `bytes` at host, which are elements of `element` bytes. */
void *desk_put(struct desk *desk, const void *host, size_t bytes, size_t element);
/* n in [middle − spread, middle + spread), of what is fp32 in every precision. */
float *desk_floats(struct desk *desk, size_t n, float middle, float spread);
/* The same as elements of the side's precision, of values rounded to the shape's. */
void *desk_tensor(struct desk *desk, size_t n, float middle, float spread);
/* Logits (B·T,V) as such a tensor, of whose rows half the shapes have a gap after each, up to a multiple
 * of 64. */
struct matrix desk_logits(struct desk *desk, float spread);
/* n given values as such a tensor. */
void *desk_elements(struct desk *desk, size_t n, const float *values);
/* n weights in NF4 (kernels/nf4.h), 16-aligned: the same on every side, quantised on the host. */
void *desk_nf4(struct desk *desk, size_t n, bool nested);
/* In [0, below), half of them among few; with `ignored` a fifth of them −100. */
int32_t *desk_tokens(struct desk *desk, size_t n, int below, bool ignored);
/* All NaN: n floats, n elements of the side's precision, bytes. */
float *desk_blank(struct desk *desk, size_t n);
void *desk_blank_tensor(struct desk *desk, size_t n);
void *desk_scratch(struct desk *desk, size_t bytes);

/* Where the side wants it: has cuDNN compute this attention. */
void desk_use_cudnn(struct desk *desk, struct attention_problem problem);

/* On the device: a control, set there as a training step does it; a clip state with the norm 2; and matrices,
 * vectors, and what groups of parameters make of them: boundaries inside a thread's piece, ranges of one
 * element. */
struct step_control *desk_control(struct desk *desk, struct step_control control);
struct clip_state *desk_clip(struct desk *desk, float scale, int64_t updates);
struct update_range *desk_ranges(struct desk *desk, size_t n, int *count);

/* Where the reference stands in for bf16: rounds n elements that an operation has written, as the other
 * side's are, so that the next operation has the same inputs on both. */
void desk_round(struct desk *desk, void *tensor, size_t n);

/* An output of n floats. */
void desk_result(struct desk *desk, struct op_outcome *out, const char *name, const float *memory, size_t n,
                 double tolerance);
/* An output of n elements of the side's precision. In bf16 its error may be twice that of the reference
 * rounded to bf16 (three times for a few numbers), plus the tolerance of fp32; if fp32 must agree to the bit
 * (tolerance 0), so must bf16: its error is that of the rounding. No operation rounds anything between a load
 * and the store of a result, so none needs more. */
void desk_tensor_result(struct desk *desk, struct op_outcome *out, const char *name, const void *memory,
                        size_t n, double tolerance);

#endif
