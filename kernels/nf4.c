/* CPU twin of nf4_dequantise. Memory-bound, nearly all of it the writing of out. */
#include "kernels/device/cpu_device.h"
#include "kernels/nf4_decode.h"
#include "kernels/real.h"

void nf4_dequantise(void *out_, const void *stored, size_t n, bool nested, struct stream *stream)
{
    real *out = out_;
    const uint8_t *codes = stored;
    const float *scales = (const float *)(codes + nf4_code_bytes(n));
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (size_t b = 0; b < nf4_blocks(n); b++) {
        int count = n - b * NF4_BLOCK < NF4_BLOCK ? (int)(n - b * NF4_BLOCK) : NF4_BLOCK;
        float values[NF4_BLOCK], scale = nf4_scale(scales, n, nested, b);
        if (count == NF4_BLOCK)
            nf4_decode_block(values, codes + b * (NF4_BLOCK / 2), scale);
        else
            nf4_decode(values, codes + b * (NF4_BLOCK / 2), scale, count);
        real_round(out + b * NF4_BLOCK, values, count);
    }
}
