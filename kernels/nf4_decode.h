/* Reading NF4 (nf4.h) on a CPU: the scale of a block and its 64 values. The 16 values are multiplied by the
 * scale once, so that an element costs a look-up; with AVX-512 one instruction looks up 16. Private to
 * kernels/. */
#ifndef ANNEAL_KERNELS_NF4_DECODE_H
#define ANNEAL_KERNELS_NF4_DECODE_H

#include "kernels/nf4.h"

#if defined(__AVX512F__) && defined(__AVX512BW__)
#include <immintrin.h>
#endif

static const float nf4_codebook[NF4_VALUES] = NF4_CODEBOOK;

/* The scale of block b of n elements. */
static inline float nf4_scale(const float *scales, size_t n, bool nested, size_t b)
{
    if (!nested) return scales[b];
    const float *groups = scales + NF4_AT_GROUPS;
    uint8_t code = ((const uint8_t *)(groups + nf4_groups(n)))[b];
    /* volatile: rounded before the addition, not fused with it */
    volatile float deviation = scales[NF4_AT_VALUES + code] * groups[b / NF4_GROUP];
    return deviation + scales[NF4_AT_MEAN];
}

/* out (count) of a block */
static inline void nf4_decode(float *out, const uint8_t *codes, float scale, int count)
{
    float values[NF4_VALUES];
    for (int i = 0; i < NF4_VALUES; i++) values[i] = nf4_codebook[i] * scale;
    for (int i = 0; i < count; i++) out[i] = values[i % 2 ? codes[i / 2] & 15 : codes[i / 2] >> 4];
}

#if defined(__AVX512F__) && defined(__AVX512BW__)
/* out (NF4_BLOCK) */
static inline void nf4_decode_block(float *out, const uint8_t *codes, float scale)
{
    const __m512 values = _mm512_mul_ps(_mm512_loadu_ps(nf4_codebook), _mm512_set1_ps(scale));
    const __m128i low = _mm_set1_epi8(15);
    for (int half = 0; half < 2; half++) {
        __m128i two = _mm_loadu_si128((const __m128i *)(codes + (size_t)half * 16));
        __m128i first = _mm_and_si128(_mm_srli_epi16(two, 4), low), second = _mm_and_si128(two, low);
        __m128i index[2] = {_mm_unpacklo_epi8(first, second), _mm_unpackhi_epi8(first, second)};
        for (int i = 0; i < 2; i++)
            _mm512_storeu_ps(out + (size_t)(half * 2 + i) * 16,
                             _mm512_permutexvar_ps(_mm512_cvtepu8_epi32(index[i]), values));
    }
}
#else
static inline void nf4_decode_block(float *out, const uint8_t *codes, float scale)
{
    nf4_decode(out, codes, scale, NF4_BLOCK);
}
#endif

#endif
