/* Reading NF4 (nf4.h) on a CPU: the scale of a block and its 64 values. The 16 values are multiplied by the
 * scale once, so that an element costs a look-up; AVX2 looks up 8 at a time, AVX-512 16. Private to
 * kernels/. */
#ifndef ANNEAL_KERNELS_NF4_DECODE_H
#define ANNEAL_KERNELS_NF4_DECODE_H

#include "kernels/nf4.h"
#include "kernels/simd.h"

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

#ifdef __AVX2__
/* The 16 values in registers. */
struct nf4_table {
#ifdef __AVX512F__
    __m512 values;
#else
    __m256 low, high; /* of codes 0 to 7, and 8 to 15 */
#endif
};

static inline struct nf4_table nf4_table_of(float scale)
{
#ifdef __AVX512F__
    return (struct nf4_table){_mm512_mul_ps(_mm512_loadu_ps(nf4_codebook), _mm512_set1_ps(scale))};
#else
    __m256 factor = _mm256_set1_ps(scale);
    return (struct nf4_table){_mm256_mul_ps(_mm256_loadu_ps(nf4_codebook), factor),
                              _mm256_mul_ps(_mm256_loadu_ps(nf4_codebook + 8), factor)};
#endif
}

/* The first SIMD_LANES bytes, each in a word. */
static inline simd_words nf4_words(__m128i bytes)
{
#ifdef __AVX512F__
    return (simd_words)_mm512_cvtepu8_epi32(bytes);
#else
    return (simd_words)_mm256_cvtepu8_epi32(bytes);
#endif
}

static inline simd_words nf4_words_at(const uint8_t *bytes)
{
    const __m128i *at = (const __m128i *)bytes;
    return nf4_words(SIMD_LANES == 16 ? _mm_loadu_si128(at) : _mm_loadl_epi64(at));
}

/* The values of SIMD_LANES codes: of each word the lowest four bits. */
static inline simd_vector nf4_look_up(struct nf4_table table, simd_words codes)
{
#ifdef __AVX512F__
    return (simd_vector)_mm512_permutexvar_ps((__m512i)codes, table.values);
#else
    __m256 low = _mm256_permutevar8x32_ps(table.low, (__m256i)codes),
           high = _mm256_permutevar8x32_ps(table.high, (__m256i)codes);
    return (simd_vector)_mm256_blendv_ps(low, high, (__m256)(codes << 28));
#endif
}

/* out (NF4_BLOCK) */
static inline void nf4_decode_block(float *out, const uint8_t *codes, float scale)
{
    const struct nf4_table table = nf4_table_of(scale);
    const __m128i low = _mm_set1_epi8(15);
    for (int half = 0; half < 2; half++) {
        __m128i two = _mm_loadu_si128((const __m128i *)(codes + (size_t)half * 16));
        __m128i first = _mm_and_si128(_mm_srli_epi16(two, 4), low), second = _mm_and_si128(two, low);
        __m128i sixteen[2] = {_mm_unpacklo_epi8(first, second), _mm_unpackhi_epi8(first, second)};
        for (int i = 0; i < 2; i++, out += 16) {
            simd_store(out, nf4_look_up(table, nf4_words(sixteen[i])));
            if (SIMD_LANES == 8)
                simd_store(out + 8, nf4_look_up(table, nf4_words(_mm_srli_si128(sixteen[i], 8))));
        }
    }
}
#else
static inline void nf4_decode_block(float *out, const uint8_t *codes, float scale)
{
    nf4_decode(out, codes, scale, NF4_BLOCK);
}
#endif

#endif
