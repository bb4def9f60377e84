/* CPU twins of the element-wise operations, and of bias, SwiGLU and dropout. Memory-bound, except dropout:
 * ten rounds of Philox per four elements, vectorised over blocks. */
#include <string.h>

#include "kernels/device/cpu_device.h"
#include "kernels/real.h"

/* Flat ranges are divided into pieces, so that only the last has a part of a vector. */
enum { PIECE = 4096 };

static inline int piece_length(size_t n, size_t at)
{
    return n - at < PIECE ? (int)(n - at) : PIECE;
}

void cast(void *out_, const float *x, size_t n, struct stream *stream)
{
    real *out = out_;
    if (out_ == x) return;
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (size_t at = 0; at < n; at += PIECE) real_round(out + at, x + at, piece_length(n, at));
}

void add(void *x_, const void *delta_, size_t n, struct stream *stream)
{
    real *x = x_;
    const real *delta = delta_;
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (size_t at = 0; at < n; at += PIECE) real_add(x + at, delta + at, piece_length(n, at));
}

void bias_forward(void *x_, const void *bias_, int N, int C, int stride, struct stream *stream)
{
    real *x = x_;
    const real *bias = bias_;
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (int n = 0; n < N; n++) real_add(x + (size_t)n * stride, bias, C);
}

void bias_backward(float *dbias, const void *dout_, void *workspace, int N, int C, int stride,
                   struct stream *stream)
{
    const real *dout = dout_;
    float *partial = workspace; /* (chunks, C) */
    int chunks = row_chunk_count(N), rows = row_chunk_rows(N);
#pragma omp parallel num_threads(stream->threads)
    {
#pragma omp for schedule(static)
        for (int chunk = 0; chunk < chunks; chunk++) {
            float *total = partial + (size_t)chunk * C;
            memset(total, 0, (size_t)C * sizeof(float));
            int end = N - chunk * rows < rows ? N : (chunk + 1) * rows;
            for (int n = chunk * rows; n < end; n++) real_sum(total, dout + (size_t)n * stride, C);
        }
#pragma omp for schedule(static)
        for (int c = 0; c < C; c++) chunks_add(dbias + c, partial + c, chunks, C);
    }
}

static void swiglu_row(real *out, const real *gate, int F)
{
    const real *up = gate + F;
    real_fetch(gate + 2 * F, 2 * F);
    EACH_VECTOR(F, f, count, {
        simd_vector g = real_at(gate + f, count);
        real_put(out + f, g * real_sigmoid(g) * real_at(up + f, count), count);
    });
}

void swiglu_forward(void *out_, const void *gate_up_, int N, int F, struct stream *stream)
{
    real *out = out_;
    const real *gate_up = gate_up_;
    if (N == 1) {
        swiglu_row(out, gate_up, F);
        return;
    }
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (int n = 0; n < N; n++) swiglu_row(out + (size_t)n * F, gate_up + (size_t)n * 2 * F, F);
}

void swiglu_backward(void *dgate_up_, void *out_, const void *dout_, const void *gate_up_, int N, int F,
                     struct stream *stream)
{
    real *dgate_up = dgate_up_, *out = out_;
    const real *dout = dout_, *gate_up = gate_up_;
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (int n = 0; n < N; n++) {
        const real *gate = gate_up + (size_t)n * 2 * F, *up = gate + F, *d = dout + (size_t)n * F;
        real *dgate = dgate_up + (size_t)n * 2 * F, *dup = dgate + F, *act = out ? out + (size_t)n * F : NULL;
        real_fetch(gate + 2 * F, 2 * F);
        real_fetch(d + F, F);
        EACH_VECTOR(F, f, count, {
            simd_vector g = real_at(gate + f, count), u = real_at(up + f, count), h = real_at(d + f, count);
            simd_vector sigma = real_sigmoid(g);
            real_put(dgate + f, h * u * sigma * (1.0f + g * (1.0f - sigma)), count);
            real_put(dup + f, h * g * sigma, count);
            if (act) real_put(act + f, g * sigma * u, count);
        });
    }
}

#define BATCH 64 /* Philox blocks at a time: 1 KiB of random words, in the first-level cache */

/* Lanes of 64 bits. The words of a block are their lower halves; the upper halves are ignored. */
typedef uint64_t simd_longs __attribute__((vector_size(SIMD_LANES * 4)));
enum { LONGS = SIMD_LANES / 2 };

static inline simd_longs long_products(simd_longs x, uint64_t y)
{
#if defined(__AVX512F__)
    return (simd_longs)_mm512_mul_epu32((__m512i)x, (__m512i)((simd_longs){0} + y));
#elif defined(__AVX2__)
    return (simd_longs)_mm256_mul_epu32((__m256i)x, (__m256i)((simd_longs){0} + y));
#elif defined(__SSE2__)
    return (simd_longs)_mm_mul_epu32((__m128i)x, (__m128i)((simd_longs){0} + y));
#else
    return (x & 0xffffffff) * y;
#endif
}

/* The words of LONGS blocks of philox4x32_10, whose counters begin with c0, c0 + 1, ... */
static inline void random_words(uint32_t *words, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3,
                                uint32_t k0, uint32_t k1)
{
#if SIMD_LANES == 16 /* block i in the even lanes, then the odd ones */
    const simd_longs order = {0, 4, 1, 5, 2, 6, 3, 7};
#define ALTERNATE(a, b, i)                                                                                   \
    __builtin_shufflevector(a, b, i, i + 8, i + 2, i + 10, i + 4, i + 12, i + 6, i + 14)
#elif SIMD_LANES == 8
    const simd_longs order = {0, 2, 1, 3};
#define ALTERNATE(a, b, i) __builtin_shufflevector(a, b, i, i + 4, i + 2, i + 6)
#else
    const simd_longs order = {0, 1};
#define ALTERNATE(a, b, i) __builtin_shufflevector(a, b, i, i + 2)
#endif
    simd_longs w0 = order + c0, w1 = (simd_longs){0} + c1, w2 = (simd_longs){0} + c2,
               w3 = (simd_longs){0} + c3;
#pragma GCC unroll 10
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        simd_longs p0 = long_products(w0, 0xD2511F53u), p1 = long_products(w2, 0xCD9E8D57u);
        w0 = (p1 >> 32) ^ w1 ^ k0, w2 = (p0 >> 32) ^ w3 ^ k1;
        w1 = p1, w3 = p0;
    }
    w0 = (w0 & 0xffffffff) | w1 << 32, w2 = (w2 & 0xffffffff) | w3 << 32;
    simd_longs first = ALTERNATE(w0, w2, 0), second = ALTERNATE(w0, w2, 1);
#undef ALTERNATE
    memcpy(words, &first, sizeof first);
    memcpy(words + SIMD_LANES, &second, sizeof second);
}

/* Elements [first, first + n) of a micro-batch; x is the first of them. */
static void drop(real *x, size_t first, size_t n, uint32_t micro_batch, uint32_t threshold, float scale,
                 const struct dropout_site *site, struct stream *stream)
{
    const struct step_control *control = site->control;
    const uint32_t k0 = (uint32_t)control->seed, k1 = (uint32_t)(control->seed >> 32);
    const uint32_t c2 = control->step, c3 = (uint32_t)site->site << 16 | site->layer,
                   high = micro_batch << 16;
    const size_t end = first + n, begin = first / (4 * BATCH), batches = (end + 4 * BATCH - 1) / (4 * BATCH);
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (size_t batch = begin; batch < batches; batch++) {
        uint32_t words[4 * BATCH];
        size_t block = batch * BATCH;
        /* a batch never crosses a multiple of 2^32 blocks: BATCH divides it */
        uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32) ^ high;
        for (int j = 0; j < BATCH; j += LONGS)
            random_words(words + 4 * j, c0 + (uint32_t)j, c1, c2, c3, k0, k1);
        size_t from = first > 4 * block ? first : 4 * block,
               to = end < 4 * (block + BATCH) ? end : 4 * (block + BATCH);
        real *at = x + (from - first);
        EACH_VECTOR((int)(to - from), i, count, {
            simd_words word = (simd_words)float_at((const float *)words + (from - 4 * block) + i, count);
            simd_truth dropped = (simd_truth)(word >> 8) < (int32_t)threshold;
            real_put(at + i, (simd_vector)(~dropped & (simd_truth)(real_at(at + i, count) * scale)), count);
        });
    }
}

void dropout(void *x, size_t n, float probability, struct dropout_site site, struct stream *stream)
{
    const struct step_control *control = site.control;
    uint32_t threshold = (uint32_t)((double)probability * 16777216.0 + 0.5),
             micro_batch = control->micro_batch;
    if (threshold == 0) return;
    const float scale = (float)(1.0 / (1.0 - (double)probability));
    const size_t size = control->rows * site.width; /* of a micro-batch; 0: no end */
    size_t first = control->row * site.width;
    for (size_t at = 0, count; at < n; at += count, first = 0) {
        count = size && size - first < n - at ? size - first : n - at;
        drop((real *)x + at, first, count, micro_batch++, threshold, scale, &site, stream);
    }
}
