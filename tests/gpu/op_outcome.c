/* See op_outcome.h. */
#include "tests/gpu/op_outcome.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void op_outcome_release(struct op_outcome *outcome)
{
    for (int i = 0; i < outcome->count; i++) free(outcome->outputs[i].values);
    *outcome = (struct op_outcome){0};
}

double op_error(const struct op_outcome *out, const struct op_outcome *ref, int output)
{
    const float *x = out->outputs[output].values, *y = ref->outputs[output].values;
    double apart = 0, size = 0;
    for (size_t i = 0; i < ref->outputs[output].n; i++) {
        double d = (double)x[i] - (double)y[i];
        apart += d * d;
        size += (double)y[i] * (double)y[i];
    }
    return apart == 0 ? 0 : sqrt(apart / size);
}

int64_t op_difference(const struct op_outcome *a, const struct op_outcome *b, int output)
{
    for (size_t i = 0; i < a->outputs[output].n; i++)
        if (memcmp(&a->outputs[output].values[i], &b->outputs[output].values[i], sizeof(float)) != 0)
            return (int64_t)i;
    return -1;
}
