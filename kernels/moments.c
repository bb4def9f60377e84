/* See moments.h. Compiled once, not per instruction set: it runs while a checkpoint is read or written. */
#include "kernels/moments.h"

#include "kernels/moment_codes.h"

/* Elements that a block has of n, from `at` on. */
static int count_at(size_t at, size_t n)
{
    return n - at < MOMENT_BLOCK ? (int)(n - at) : MOMENT_BLOCK;
}

/* First to last: where x is in the same memory, a block ends before the elements of the next one begin. */
void moments_encode(struct moment_block *blocks, const float *x, size_t n, bool has_sign)
{
    const struct moment_codes codes = moment_codes_of(has_sign);
    for (size_t at = 0; at < n; at += MOMENT_BLOCK) {
        float block[MOMENT_BLOCK];
        int count = count_at(at, n);
        memcpy(block, x + at, (size_t)count * sizeof *block);
        moment_encode(&blocks[at / MOMENT_BLOCK], block, count, &codes);
    }
}

void moments_decode(float *x, const struct moment_block *blocks, size_t first, size_t n, bool has_sign)
{
    const struct moment_codes codes = moment_codes_of(has_sign);
    for (size_t at = first, count; at < first + n; at += count) {
        int inside = (int)(at % MOMENT_BLOCK);
        count = (size_t)(MOMENT_BLOCK - inside);
        if (count > first + n - at) count = first + n - at;
        moment_decode(x + (at - first), &blocks[at / MOMENT_BLOCK], inside, (int)count, &codes);
    }
}
