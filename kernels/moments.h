/* Moments of an optimizer in 8 bits (Dettmers, Lewis, Shleifer and Zettlemoyer, "8-bit Optimizers via
 * Block-wise Quantization", 2022): train.moments = 8bit.
 *
 * The flat arena of parameters is cut into blocks of MOMENT_BLOCK elements; the last one may be shorter. A
 * block has a scale, its element of the largest magnitude, and of each element the number of the value of
 * dynamic_map.h that is nearest to element / scale, the lower one of two that are equally near. First moments
 * take the values with a sign, second ones, which are never negative, those without. The value of a code is
 * value · scale, rounded to fp32. Three things differ from bitsandbytes:
 *
 *   - The scale of a first moment keeps its sign, + if both signs have the largest magnitude. As 1 is among
 *     the values and −1 is not, the scale itself is exact. So the codes of decoded numbers are the codes that
 *     they came from, and a checkpoint that holds the numbers in fp32 loses nothing.
 *   - A second moment above 0 never becomes 0, as the update divides by its root.
 *   - A block whose scale is below 2^-100 becomes 0: smaller numbers lose bits when they are decoded.
 *
 * The codes of 0 are 0, so zeroed memory holds zeros. */
#ifndef ANNEAL_KERNELS_MOMENTS_H
#define ANNEAL_KERNELS_MOMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MOMENT_BLOCK = 256 };
#define MOMENT_SCALE_LEAST 0x1p-100f

struct moment_block {
    float scale;
    uint8_t codes[MOMENT_BLOCK]; /* behind the last element 0 */
};

static inline size_t moment_blocks(size_t n)
{
    return (n + MOMENT_BLOCK - 1) / MOMENT_BLOCK;
}

/* Bytes of n elements. */
static inline size_t moment_bytes(size_t n)
{
    return moment_blocks(n) * sizeof(struct moment_block);
}

/* ---- on the host, for checkpoints ---- */

/* blocks (moment_blocks(n)) of x (n), which begins at a block; has_sign: of a first moment. From 65
 * elements on they may be in the memory of x. x has no NaN: an update that is not finite is skipped. An
 * infinite scale becomes the largest finite number. */
void moments_encode(struct moment_block *blocks, const float *x, size_t n, bool has_sign);

/* x (n), from element `first` of the blocks on. */
void moments_decode(float *x, const struct moment_block *blocks, size_t first, size_t n, bool has_sign);

#endif
