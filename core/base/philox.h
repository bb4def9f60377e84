/* Philox4x32-10, the counter-based generator of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"
 * (SC 2011). A pure function of counter and key: the same on every device and in every order of evaluation.
 *
 * Everything is inline and without state so that kernels of any instruction set and CUDA can include it. */
#ifndef ANNEAL_CORE_BASE_PHILOX_H
#define ANNEAL_CORE_BASE_PHILOX_H

#include <stdint.h>

#ifdef __CUDACC__
#define PHILOX_FN static __host__ __device__ inline
#else
#define PHILOX_FN static inline
#endif

struct philox_block {
    uint32_t word[4];
};

PHILOX_FN struct philox_block philox4x32_10(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint32_t k0,
                                            uint32_t k1)
{
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    struct philox_block out = {{c0, c1, c2, c3}};
    return out;
}

/* [0, 1) with 24 bits: exactly representable in fp32. */
PHILOX_FN float philox_uniform(uint32_t word)
{
    return (float)(word >> 8) * (1.0f / 16777216.0f);
}

#undef PHILOX_FN
#endif
