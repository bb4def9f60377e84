/* CPU twin of dropout.h. Compute-bound: ten rounds of Philox per four elements, vectorised over blocks. */
#include "kernels/dropout.h"

#include "core/base/philox.h"
#include "kernels/device/cpu_device.h"

#define BATCH 64 /* Philox blocks at a time: 1 KiB of random words, in the first-level cache */

void dropout(void *x_, size_t n, float probability, struct dropout_site site, struct stream *stream)
{
    float *x = x_;
    uint32_t threshold = (uint32_t)((double)probability * 16777216.0 + 0.5);
    if (threshold == 0) return;
    const float scale = (float)(1.0 / (1.0 - (double)probability));
    const struct step_control *control = site.control;
    const uint32_t k0 = (uint32_t)control->seed, k1 = (uint32_t)(control->seed >> 32);
    const uint32_t c2 = control->step, c3 = (uint32_t)site.site << 16 | site.layer,
                   high = control->micro_batch << 16;
    size_t batches = (n + 4 * BATCH - 1) / (4 * BATCH);
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (size_t batch = 0; batch < batches; batch++) {
        uint32_t words[4][BATCH];
        size_t block = batch * BATCH;
        /* a batch never crosses a multiple of 2^32 blocks: BATCH divides it */
        uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32) ^ high;
#pragma omp simd
        for (int j = 0; j < BATCH; j++) {
            struct philox_block random = philox4x32_10(c0 + (uint32_t)j, c1, c2, c3, k0, k1);
            words[0][j] = random.word[0];
            words[1][j] = random.word[1];
            words[2][j] = random.word[2];
            words[3][j] = random.word[3];
        }
        float *at = x + 4 * block;
        int count = n - 4 * block < 4 * BATCH ? (int)(n - 4 * block) : 4 * BATCH;
        int whole = count / 4;
#pragma omp simd
        for (int j = 0; j < whole; j++)
            for (int w = 0; w < 4; w++)
                at[4 * j + w] = words[w][j] >> 8 >= threshold ? at[4 * j + w] * scale : 0.0f;
        for (int i = 4 * whole; i < count; i++)
            at[i] = words[i % 4][i / 4] >> 8 >= threshold ? at[i] * scale : 0.0f;
    }
}
