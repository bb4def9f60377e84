/* The speed of every operation, judged by a copy and a large matrix product of the same run. */
#ifndef ANNEAL_TESTS_GPU_SPEEDS_H
#define ANNEAL_TESTS_GPU_SPEEDS_H

#include "tests/gpu/check.h"
#include "tests/gpu/op_speed.h"

/* What this GPU reached when it was measured, in one precision. */
struct speed_rates {
    double copy; /* bytes per second, read and written */
    double gemm; /* FLOP/s */
    double peak; /* FLOP/s as published; 0: unknown */
};

/* Times and judges all operations that are wanted. */
void speeds_check(struct check *check, enum precision precision);

/* The large matrix product is the measure of all others, so it must reach a share of the published peak. */
void speeds_judge_gemm(struct check *check, enum precision precision, const struct speed_rates *rates);

/* Judges a call by its time, or only prints it, where the case or the precision is not judged. */
void speeds_judge(struct check *check, const struct op_speed_case *op, enum precision precision, double ms,
                  const struct op_work *work, const struct speed_rates *rates);

#endif
