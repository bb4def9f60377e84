/* Reading NF4 (nf4.h) in kernels. Values are looked up in shared memory, where equal codes are broadcast and
 * different ones are in different banks. Private to the .cu files. */
#ifndef ANNEAL_KERNELS_NF4_CUH
#define ANNEAL_KERNELS_NF4_CUH

#include "kernels/element.cuh"
#include "kernels/nf4.h"

/* Where the scales are. */
struct nf4_scales {
    const float *at;
    const uint8_t *codes; /* of nested scales; else NULL */
};

/* Products and sums are rounded one by one, as on the host. */
__device__ static inline float nf4_scale(struct nf4_scales scales, size_t b)
{
    if (!scales.codes) return scales.at[b];
    float deviation =
        __fmul_rn(scales.at[NF4_AT_VALUES + scales.codes[b]], scales.at[NF4_AT_GROUPS + b / NF4_GROUP]);
    return __fadd_rn(deviation, scales.at[NF4_AT_MEAN]);
}

/* The codes of the W elements from i on, the first one in the upper bits of the lowest byte. */
template <int W> __device__ static inline uint32_t nf4_codes(const uint8_t *codes, size_t i)
{
    if constexpr (W == 8) return *reinterpret_cast<const uint32_t *>(codes + i / 2);
    if constexpr (W == 4) return *reinterpret_cast<const uint16_t *>(codes + i / 2);
    return i % 2 ? (uint32_t)codes[i / 2] << 4 : codes[i / 2];
}

/* Element k of those codes. */
__device__ static inline int nf4_code(uint32_t codes, int k)
{
    return (int)(codes >> (k % 2 ? 4 * (k - 1) : 4 * (k + 1)) & 15);
}

/* Fills the values, by the first threads of a block; a barrier must follow. */
__device__ static inline void nf4_values(shared_pointer<float> values)
{
    constexpr float codebook[NF4_VALUES] = NF4_CODEBOOK;
#pragma unroll
    for (int k = 0; k < NF4_VALUES; k++)
        if ((int)threadIdx.x == k) values[k] = codebook[k];
}

/* The scales of n elements stored at `codes`. */
static inline struct nf4_scales nf4_scales_of(const void *stored, size_t n, bool nested)
{
    struct nf4_scales scales = {(const float *)((const uint8_t *)stored + nf4_code_bytes(n)), NULL};
    if (nested) scales.codes = (const uint8_t *)(scales.at + NF4_AT_GROUPS + nf4_groups(n));
    return scales;
}

#endif
