/* CPU twin of nf4_dequantise. Memory-bound, nearly all of it the writing of out: a block of 64 codes is read
 * with its scale, and the 16 values are multiplied by that once, so that an element costs a look-up; with
 * AVX-512 one instruction looks up 16. */
#include "kernels/nf4.h"

#include "kernels/device/cpu_device.h"
#include "kernels/simd.h"

#if defined(__AVX512F__) && defined(__AVX512BW__)
#include <immintrin.h>
#endif

static const float codebook[NF4_VALUES] = NF4_CODEBOOK;

/* The scale of block b of n elements. */
static inline float scale_of(const float *scales, size_t n, bool nested, size_t b)
{
    if (!nested) return scales[b];
    const float *groups = scales + NF4_AT_GROUPS;
    uint8_t code = ((const uint8_t *)(groups + nf4_groups(n)))[b];
    /* volatile: rounded before the addition, not fused with it */
    volatile float deviation = scales[NF4_AT_VALUES + code] * groups[b / NF4_GROUP];
    return deviation + scales[NF4_AT_MEAN];
}

/* out (count) of a block */
static inline void decode(float *out, const uint8_t *codes, float scale, int count)
{
    float values[NF4_VALUES];
    for (int i = 0; i < NF4_VALUES; i++) values[i] = codebook[i] * scale;
    for (int i = 0; i < count; i++) out[i] = values[i % 2 ? codes[i / 2] & 15 : codes[i / 2] >> 4];
}

#if defined(__AVX512F__) && defined(__AVX512BW__)
/* out (NF4_BLOCK) */
static inline void decode_block(float *out, const uint8_t *codes, float scale)
{
    const __m512 values = _mm512_mul_ps(_mm512_loadu_ps(codebook), _mm512_set1_ps(scale));
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
static inline void decode_block(float *out, const uint8_t *codes, float scale)
{
    decode(out, codes, scale, NF4_BLOCK);
}
#endif

void nf4_dequantise(void *out_, const void *stored, size_t n, bool nested, struct stream *stream)
{
    float *out = out_;
    const uint8_t *codes = stored;
    const float *scales = (const float *)(codes + nf4_code_bytes(n));
    size_t whole = n / NF4_BLOCK;
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (size_t b = 0; b < whole; b++)
        decode_block(out + b * NF4_BLOCK, codes + b * (NF4_BLOCK / 2), scale_of(scales, n, nested, b));
    if (n % NF4_BLOCK)
        decode(out + whole * NF4_BLOCK, codes + whole * (NF4_BLOCK / 2), scale_of(scales, n, nested, whole),
               (int)(n % NF4_BLOCK));
}
