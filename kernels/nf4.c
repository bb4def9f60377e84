/* CPU twin of nf4_dequantise. Memory-bound, nearly all of it the writing of out. */
#include "kernels/device/cpu_device.h"
#include "kernels/nf4_decode.h"

void nf4_dequantise(void *out_, const void *stored, size_t n, bool nested, struct stream *stream)
{
    float *out = out_;
    const uint8_t *codes = stored;
    const float *scales = (const float *)(codes + nf4_code_bytes(n));
    size_t whole = n / NF4_BLOCK;
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (size_t b = 0; b < whole; b++)
        nf4_decode_block(out + b * NF4_BLOCK, codes + b * (NF4_BLOCK / 2), nf4_scale(scales, n, nested, b));
    if (n % NF4_BLOCK)
        nf4_decode(out + whole * NF4_BLOCK, codes + whole * (NF4_BLOCK / 2),
                   nf4_scale(scales, n, nested, whole), (int)(n % NF4_BLOCK));
}
