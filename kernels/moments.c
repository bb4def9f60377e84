/* See moments.h. Compiled once, not per instruction set: it runs while a checkpoint is read or written. */
#include "kernels/moments.h"

#include "kernels/moment_codes.h"

/* First to last: where x is in the same memory, a block ends before the elements of the next one begin. */
void moments_encode(struct moment_block *blocks, const float *x, size_t n, bool has_sign)
{
    const struct moment_codes codes = moment_codes_of(has_sign);
    for (size_t at = 0; at < n; at += MOMENT_BLOCK) {
        float block[MOMENT_BLOCK] = {0};
        size_t count = n - at < MOMENT_BLOCK ? n - at : MOMENT_BLOCK;
        memcpy(block, x + at, count * sizeof *block);
        moment_encode(&blocks[at / MOMENT_BLOCK], block, &codes);
    }
}

void moments_decode(float *x, const struct moment_block *blocks, size_t first, size_t n, bool has_sign)
{
    const struct moment_codes codes = moment_codes_of(has_sign);
    for (size_t at = first, count; at < first + n; at += count) {
        float block[MOMENT_BLOCK];
        size_t inside = at % MOMENT_BLOCK;
        count = MOMENT_BLOCK - inside;
        if (count > first + n - at) count = first + n - at;
        moment_decode(block, &blocks[at / MOMENT_BLOCK], &codes);
        memcpy(x + (at - first), block + inside, count * sizeof *block);
    }
}
