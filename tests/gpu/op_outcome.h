/* The results of an operation on one device, and how far two devices are apart. */
#ifndef ANNEAL_TESTS_GPU_OP_OUTCOME_H
#define ANNEAL_TESTS_GPU_OP_OUTCOME_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

enum { OP_OUTPUTS_MAX = 5 };

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

void op_outcome_release(struct op_outcome *outcome);

/* ‖out − ref‖ / ‖ref‖ of one output; NaN if only one of them is finite at some index; 0 for zeros. */
double op_error(const struct op_outcome *out, const struct op_outcome *ref, int output);
/* The first index whose bits differ, or −1. */
int64_t op_difference(const struct op_outcome *a, const struct op_outcome *b, int output);

#endif
