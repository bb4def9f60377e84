/* CUDA twin of dropout.h, to the same bits. A thread makes one Philox block and treats its four elements. */
#include "kernels/cuda_device.cuh"
#include "kernels/dropout.h"

#include "core/base/philox.h"

enum { BLOCK = 256 };

struct dropout_mask {
    uint32_t threshold, high, c2, c3, k0, k1;
    float scale;
};

template <typename T, int W> __global__ void dropout_elements(T *x, size_t n, struct dropout_mask mask)
{
    size_t block = (size_t)blockIdx.x * BLOCK + threadIdx.x, i = 4 * block;
    if (i >= n) return;
    struct philox_block random = philox4x32_10((uint32_t)block, (uint32_t)(block >> 32) ^ mask.high, mask.c2,
                                               mask.c3, mask.k0, mask.k1);
    if (W == 4 && i + 4 <= n) {
        pack<T, W> a = load<W>(x + i);
        for (int w = 0; w < W; w++)
            a.at[w] = random.word[w] >> 8 >= mask.threshold ? a.at[w] * mask.scale : 0.0f;
        store<W>(x + i, a);
        return;
    }
    for (int w = 0; w < 4 && i + (unsigned)w < n; w++)
        x[i + (unsigned)w] = random.word[w] >> 8 >= mask.threshold ? x[i + (unsigned)w] * mask.scale : 0.0f;
}

void dropout(void *x_, size_t n, float probability, struct dropout_site site, struct stream *stream)
{
    float *x = (float *)x_;
    struct dropout_mask mask;
    mask.threshold = (uint32_t)((double)probability * 16777216.0 + 0.5);
    if (mask.threshold == 0 || n == 0) return;
    mask.scale = (float)(1.0 / (1.0 - (double)probability));
    mask.high = site.micro_batch << 16;
    mask.c2 = site.step;
    mask.c3 = (uint32_t)site.site << 16 | site.layer;
    mask.k0 = (uint32_t)site.seed;
    mask.k1 = (uint32_t)(site.seed >> 32);
    unsigned blocks = block_count((n + 3) / 4, BLOCK);
    if (aligned16(x))
        LAUNCH((dropout_elements<float, 4>), blocks, BLOCK, 0, stream, x, n, mask);
    else
        LAUNCH((dropout_elements<float, 1>), blocks, BLOCK, 0, stream, x, n, mask);
}
