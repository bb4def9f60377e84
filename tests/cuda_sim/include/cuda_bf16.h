/* The part of NVIDIA's cuda_bf16.h that the product uses, for the simulator: the upper half of an fp32,
 * rounded to nearest, ties to even. */
#ifndef ANNEAL_TESTS_CUDA_SIM_CUDA_BF16_H
#define ANNEAL_TESTS_CUDA_SIM_CUDA_BF16_H
#ifdef __cplusplus

#include <stdint.h>
#include <string.h>

struct alignas(2) __nv_bfloat16 {
    uint16_t bits;
};

struct alignas(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;
};

static inline __nv_bfloat16 __float2bfloat16_rn(float value)
{
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    if ((word & 0x7fffffffu) > 0x7f800000u) return {0x7fff}; /* NaN, as the hardware writes it */
    word += 0x7fffu + (word >> 16 & 1);
    return {(uint16_t)(word >> 16)};
}

static inline float __bfloat162float(__nv_bfloat16 value)
{
    uint32_t word = (uint32_t)value.bits << 16;
    float out;
    memcpy(&out, &word, sizeof out);
    return out;
}

static inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y)
{
    return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)};
}

#endif
#endif
