/* Copies of an operand of a product, in the order in which inner loops read it: words of 32 bits, each a
 * number in fp32 (bf16 widens exactly) or two steps of k in bf16. Private to the CPU twins. */
#ifndef ANNEAL_KERNELS_PACK_H
#define ANNEAL_KERNELS_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/simd.h"

/* A word as products read it. */
typedef float tile_word __attribute__((aligned(2), may_alias));

/* Whether products of pairs are possible. */
#if defined(KERNELS_BF16) && defined(__AVX512BF16__)
enum { TILE_PAIRS = 1 };
#else
enum { TILE_PAIRS = 0 };
#endif

/* sum + x·y; pairs: words of two steps, both of whose products are added. */
INLINE simd_vector words_step(simd_vector sum, simd_vector x, simd_vector y, const bool pairs)
{
#ifdef __AVX512BF16__
    if (pairs) return (simd_vector)_mm512_dpbf16_ps((__m512)sum, (__m512bh)x, (__m512bh)y);
#endif
    (void)pairs;
    return sum + x * y;
}

/* The same with one word x for all lanes. */
INLINE simd_vector tile_step(simd_vector sum, float x, simd_vector y, const bool pairs)
{
#ifdef __AVX512BF16__
    if (pairs) return words_step(sum, (simd_vector)_mm512_set1_ps(x), y, true);
#endif
    (void)pairs;
    return sum + x * y;
}

/* An operand as lines, which are rows of op(a) or columns of op(b). */
struct lines {
    const char *at;
    ptrdiff_t line, step; /* bytes from a line to the next, and from a step of k to the next */
    int element_bytes;    /* one of the two */
};

static inline const char *element_at(const struct lines *x, int line, int step)
{
    return x->at + line * x->line + step * x->step;
}

typedef uint32_t quad __attribute__((vector_size(16)));
typedef uint32_t unaligned_quad __attribute__((vector_size(16), aligned(2), may_alias));
typedef uint32_t unaligned_words __attribute__((vector_size(SIMD_LANES * 4), aligned(4), may_alias));

static inline void words_store(uint32_t *out, simd_words x)
{
    *(unaligned_words *)out = x;
}

/* Four words of every fourth line, beginning with that of `line`. */
static inline simd_words words_of_lines(const char *const *line, ptrdiff_t byte)
{
#define QUAD(i) ((quad) * (const unaligned_quad *)(line[i] + byte))
#if SIMD_LANES == 4
    return QUAD(0);
#else
    typedef uint32_t octet __attribute__((vector_size(32)));
    octet low = __builtin_shufflevector(QUAD(0), QUAD(4), 0, 1, 2, 3, 4, 5, 6, 7);
#if SIMD_LANES == 8
    return low;
#else
    octet high = __builtin_shufflevector(QUAD(8), QUAD(12), 0, 1, 2, 3, 4, 5, 6, 7);
    return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#endif
#endif
#undef QUAD
}

/* In each four lanes, words i to l of the eight that a and b have there. */
#define WORD(i, four)          ((i) < 4 ? (i) + 4 * (four) : (i)-4 + SIMD_LANES + 4 * (four))
#define FOUR(i, j, k, l, four) WORD(i, four), WORD(j, four), WORD(k, four), WORD(l, four)
#if SIMD_LANES == 4
#define IN_FOURS(a, b, i, j, k, l) __builtin_shufflevector(a, b, FOUR(i, j, k, l, 0))
#elif SIMD_LANES == 8
#define IN_FOURS(a, b, i, j, k, l) __builtin_shufflevector(a, b, FOUR(i, j, k, l, 0), FOUR(i, j, k, l, 1))
#else
#define IN_FOURS(a, b, i, j, k, l)                                                                           \
    __builtin_shufflevector(a, b, FOUR(i, j, k, l, 0), FOUR(i, j, k, l, 1), FOUR(i, j, k, l, 2),             \
                            FOUR(i, j, k, l, 3))
#endif

/* Word `four` of SIMD_LANES lines for each of four words that lie one after the other in a line. */
static inline void words_transpose(simd_words out[4], const char *const *line, ptrdiff_t byte)
{
    simd_words a = words_of_lines(line, byte), b = words_of_lines(line + 1, byte),
               c = words_of_lines(line + 2, byte), d = words_of_lines(line + 3, byte);
    simd_words ab = IN_FOURS(a, b, 0, 4, 1, 5), cd = IN_FOURS(c, d, 0, 4, 1, 5);
    out[0] = IN_FOURS(ab, cd, 0, 1, 4, 5);
    out[1] = IN_FOURS(ab, cd, 2, 3, 6, 7);
    ab = IN_FOURS(a, b, 2, 6, 3, 7), cd = IN_FOURS(c, d, 2, 6, 3, 7);
    out[2] = IN_FOURS(ab, cd, 0, 1, 4, 5);
    out[3] = IN_FOURS(ab, cd, 2, 3, 6, 7);
}

enum form { FORM_FLOATS, FORM_WIDENED, FORM_PAIRS }; /* of words: see above */

/* Two numbers of bf16 that lie at these places; none is 0. */
static inline uint32_t pair(const char *first, const char *second)
{
    uint16_t low, high = 0;
    memcpy(&low, first, sizeof low);
    if (second) memcpy(&high, second, sizeof high);
    return low | (uint32_t)high << 16;
}

/* Lines whose steps lie one after the other. */
INLINE void pack_rows(uint32_t *out, int width, const struct lines *x, int count, int steps,
                      const enum form form)
{
    const int each = form == FORM_FLOATS ? 4 : 8; /* steps at a time */
    const int word_steps = form == FORM_PAIRS ? 2 : 1;
    for (int i = 0; i < width; i += SIMD_LANES) {
        const char *line[SIMD_LANES]; /* the first one, too, for those that do not exist */
        uint32_t *to = out + i;
        int k = 0;
        for (int j = 0; j < SIMD_LANES; j++) line[j] = element_at(x, i + j < count ? i + j : 0, 0);
        for (; k + each <= steps; k += each) {
            simd_words words[4];
            words_transpose(words, line, (ptrdiff_t)k * x->element_bytes);
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) {
                words_store(to, form == FORM_WIDENED ? words[j] << 16 : words[j]);
                to += width;
                if (form != FORM_WIDENED) continue;
                words_store(to, words[j] & 0xffff0000);
                to += width;
            }
        }
        for (; k < steps; k += word_steps, to += width)
            for (int j = 0; j < SIMD_LANES; j++) {
                const char *at = line[j] + k * x->step;
                if (form == FORM_FLOATS)
                    memcpy(to + j, at, sizeof *to);
                else if (form == FORM_WIDENED)
                    to[j] = pair(at, NULL) << 16;
                else
                    to[j] = pair(at, k + 1 < steps ? at + x->step : NULL);
            }
    }
}

/* `count` elements that lie one after the other, as words; bf16 is widened. */
INLINE simd_words words_at(const char *at, int count, const enum form form)
{
    return form == FORM_FLOATS ? (simd_words)float_at((const float *)(const void *)at, count)
                               : (simd_words)bf16_at((const uint16_t *)(const void *)at, count);
}

/* Lines whose elements of a step lie one after the other. */
INLINE void pack_columns(uint32_t *out, int width, const struct lines *x, int count, int steps,
                         const enum form form)
{
    for (int k = 0; k < steps; k += form == FORM_PAIRS ? 2 : 1, out += width)
        for (int i = 0; i < width; i += SIMD_LANES) {
            int left = count - i, here = left > SIMD_LANES ? SIMD_LANES : left > 0 ? left : 0;
            const char *at = element_at(x, i, k);
            if (width == 2 * SIMD_LANES) /* the next panel's; tiles fetch those of strips */
                __builtin_prefetch(at + (2 * width - 1) * x->element_bytes, 0, 2);
            simd_words words = words_at(at, here, form);
            if (form == FORM_PAIRS)
                words = words >> 16 | (k + 1 < steps ? words_at(at + x->step, here, form) : (simd_words){0});
            words_store(out + i, words);
        }
}

/* out (words, width), width a multiple of SIMD_LANES: for each word of the steps, that of each line. Of the
 * lines `count` exist from here on; the others' words are not used. */
static inline void pack(uint32_t *out, int width, const struct lines *from, int line, int step, int count,
                        int steps, enum form form)
{
    struct lines x = *from;
    bool columns = x.line == x.element_bytes;
    x.at = element_at(from, line, step);
#define PACK(form)                                                                                           \
    (columns ? pack_columns(out, width, &x, count, steps, form)                                              \
             : pack_rows(out, width, &x, count, steps, form))
    if (form == FORM_FLOATS)
        PACK(FORM_FLOATS);
    else if (form == FORM_WIDENED)
        PACK(FORM_WIDENED);
    else
        PACK(FORM_PAIRS);
#undef PACK
}

#endif
