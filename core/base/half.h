/* Numbers in two bytes: IEEE 754 binary16 ("F16"), and bfloat16 ("BF16"), the upper half of a binary32. Both
 * round to the nearest, ties to even; infinities and NaN stay what they are. */
#ifndef ANNEAL_CORE_BASE_HALF_H
#define ANNEAL_CORE_BASE_HALF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float float_of_bf16(uint16_t narrow)
{
    return float_of_bits((uint32_t)narrow << 16);
}

static inline uint16_t bf16_of_float(float value)
{
    uint32_t bits = float_bits(value);
    if (value != value) return (uint16_t)((bits | 0x400000u) >> 16);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

static inline float float_of_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 1023;
    if (exponent == 0) { /* zero or subnormal */
        float value = (float)fraction * 0x1p-24f;
        return sign ? -value : value;
    }
    return float_of_bits(sign | (exponent == 31 ? 255u : exponent + 112) << 23 | fraction << 13);
}

/* Values from 65520 on become infinite. */
static inline uint16_t f16_of_float(float value)
{
    uint32_t bits = float_bits(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return (uint16_t)(sign | 0x7e00);
    if (magnitude >= 0x47800000) return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) return (uint16_t)(sign | (uint32_t)lrintf(fabsf(value) * 0x1p24f));
    return (uint16_t)(sign | (magnitude + 0xfff + (magnitude >> 13 & 1) - (112u << 23)) >> 13);
}

#endif
