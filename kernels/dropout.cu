/* CUDA twin of dropout.h, to the same bits. Memory-bound: a thread makes the Philox block of each four of its
 * elements and moves 16 bytes where the address allows.
 *
 * ptxas (CUDA 13.0) for sm_80 and sm_90a: 20 to 40 registers, no spills; the vector paths move 16 bytes an
 * instruction. Not yet measured on a GPU. */
#include "kernels/dropout.h"
#include "kernels/element.cuh"

#include "core/base/philox.h"

enum { BLOCK = 256, WORDS = 4 };

struct dropout_mask {
    uint32_t threshold, high, c2, c3, k0, k1;
    float scale;
    __device__ struct philox_block words(size_t block) const
    {
        return philox4x32_10((uint32_t)block, (uint32_t)(block >> 32) ^ high, c2, c3, k0, k1);
    }
    __device__ float treat(uint32_t word, float x) const
    {
        return word >> 8 >= threshold ? x * scale : 0.0f;
    }
};

/* A thread takes EACH elements, a multiple of WORDS. */
template <typename T, int W, int EACH>
__global__ void dropout_elements(T *x, size_t n, struct dropout_mask mask, const struct step_control *control)
{
    uint64_t seed = control->seed;
    mask.high = control->micro_batch << 16, mask.c2 = control->step;
    mask.k0 = (uint32_t)seed, mask.k1 = (uint32_t)(seed >> 32);
    size_t i = ((size_t)blockIdx.x * BLOCK + threadIdx.x) * EACH;
    if (W == EACH && i + EACH <= n) {
        floats<EACH> a = load<EACH>(x + i);
        for (int k = 0; k < EACH; k += WORDS) {
            struct philox_block random = mask.words((i + (unsigned)k) / WORDS);
            for (int w = 0; w < WORDS; w++) a.at[k + w] = mask.treat(random.word[w], a.at[k + w]);
        }
        store<EACH>(x + i, a);
        return;
    }
    for (int k = 0; k < EACH && i < n; k += WORDS) {
        struct philox_block random = mask.words(i / WORDS);
        for (int w = 0; w < WORDS && i < n; w++, i++)
            element_store(x + i, mask.treat(random.word[w], element_load(x + i)));
    }
}

void dropout(void *x, size_t n, float probability, struct dropout_site site, struct stream *stream)
{
    struct dropout_mask mask = {}; /* the rest is the control's */
    mask.threshold = (uint32_t)((double)probability * 16777216.0 + 0.5);
    if (mask.threshold == 0 || n == 0) return;
    mask.scale = (float)(1.0 / (1.0 - (double)probability));
    mask.c3 = (uint32_t)site.site << 16 | site.layer;
    dispatch(stream, 0, {x}, [&]<typename T, int W>() {
        constexpr int EACH = W == 1 ? WORDS : W;
        LAUNCH((dropout_elements<T, W, EACH>), block_count((n + EACH - 1) / EACH, BLOCK), BLOCK, 0, stream,
               (T *)x, n, mask, site.control);
    });
}
