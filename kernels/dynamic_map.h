/* The 256 values of a number in 8 bits, denser near zero (Dettmers, "8-Bit Approximations for Parallelism in
 * Deep Learning", 2015), with the bits that bitsandbytes has for them. Private to kernels/. */
#ifndef ANNEAL_KERNELS_DYNAMIC_MAP_H
#define ANNEAL_KERNELS_DYNAMIC_MAP_H

#include <math.h>
#include <stdbool.h>

enum { DYNAMIC_VALUES = 256 };

/* The place of 0 among the values, which are ascending. */
static inline int dynamic_zero(bool has_sign)
{
    return has_sign ? DYNAMIC_VALUES / 2 - 1 : 0;
}

/* The values: 0, 1, and for each e from 0 to 6 the middles of 2^e equal parts of [0.1, 1], times 10^(e − 6),
 * and with a sign their negatives; without one there are twice as many parts. So −1 is not among them. The
 * ends of the parts are computed from the nearer end of the range, with one rounding. */
static inline void dynamic_values(float out[DYNAMIC_VALUES], bool has_sign)
{
    static const float powers[] = {1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1};
    const float low = 0.1f, high = 1;
    float *zero = out + dynamic_zero(has_sign), *positive = zero;
    *zero = 0;
    for (int e = 0; e < 7; e++) {
        int parts = (has_sign ? 1 : 2) << e;
        float step = (high - low) / (float)parts, from = low;
        for (int i = 1; i <= parts; i++) {
            float to =
                i < (parts + 1) / 2 ? fmaf(step, (float)i, low) : fmaf(-step, (float)(parts - i), high);
            *++positive = powers[e] * ((from + to) / 2);
            if (has_sign) zero[zero - positive] = -*positive;
            from = to;
        }
    }
    *++positive = 1;
}

#endif
