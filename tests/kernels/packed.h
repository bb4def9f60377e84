/* Rows that hold several sequences one after the other, for tests of operations that take positions. */
#ifndef ANNEAL_TESTS_KERNELS_PACKED_H
#define ANNEAL_TESTS_KERNELS_PACKED_H

#include <stdint.h>

/* positions (B,T) of sequences of 1 to 2 · each − 1 tokens, `each` on average; the rows differ. */
static inline void packed_positions(int32_t *positions, int B, int T, int each)
{
    for (int b = 0, k = 0; b < B; b++)
        for (int t = 0, left = 0, at = 0; t < T; t++, at++, left--) {
            if (left == 0) left = 1 + (k += 7) % (2 * each - 1), at = 0;
            positions[b * T + t] = at;
        }
}

#endif
