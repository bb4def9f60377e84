/* Dropout with inverted scaling, in place: x[i] = keep(i) ? x[i] · 1/(1−p) : 0. The mask is a pure function
 * of the site and the element's index, so the backward pass is the same call on the gradient, a recomputation
 * gives the same mask, and every device gives the same bits.
 *
 * The mask, exactly. Element i belongs to block j = i / 4 (64 bits), word w = i % 4 of
 *
 *     philox4x32_10(c0, c1, c2, c3, k0, k1)                    (core/base/philox.h)
 *     c0 = low 32 bits of j                                    k0 = low 32 bits of seed
 *     c1 = high 32 bits of j, xor (micro_batch · 65536)        k1 = high 32 bits of seed
 *     c2 = step
 *     c3 = site · 65536 + layer
 *
 * with seed, micro_batch and step of *site.control, and arithmetic modulo 2^32. keep(i) is: word >> 8 >=
 * threshold, where threshold = floor(p · 2^24 + 0.5) computed in double from the fp32 probability. The scale
 * is the fp32 value nearest to 1 / (1 − p), computed in double. So distinct (seed, step, micro_batch < 65536,
 * layer, site, i < 2^50) never share a word.
 *
 * 0 <= p < 1; p = 0 leaves x untouched. Dropped elements become +0 even where x was not finite. */
#ifndef ANNEAL_KERNELS_DROPOUT_H
#define ANNEAL_KERNELS_DROPOUT_H

#include "kernels/device/backend.h"

void dropout(void *x, size_t n, float probability, struct dropout_site site, struct stream *stream);

#endif
