/* CUDA twin of nf4_dequantise. Memory-bound: for each element half a byte is read and 2 or 4 are written. A
 * thread writes 16 bytes, neighbouring threads neighbouring ones; it reads as many codes as that takes, so
 * that a warp reads one stretch of 64 or 128 bytes, and has PIECES such loads under way. Values are looked up
 * in shared memory, where equal codes are broadcast and different ones are in different banks. */
#include "kernels/element.cuh"
#include "kernels/nf4.h"

enum { BLOCK = 256, PIECES = 4 };

/* Where the scales are. */
struct nf4_scales {
    const float *at;
    const uint8_t *codes; /* of nested scales; else NULL */
};

/* Products and sums are rounded one by one, as on the host. */
__device__ static inline float scale_of(struct nf4_scales scales, size_t b)
{
    if (!scales.codes) return scales.at[b];
    float deviation =
        __fmul_rn(scales.at[NF4_AT_VALUES + scales.codes[b]], scales.at[NF4_AT_GROUPS + b / NF4_GROUP]);
    return __fadd_rn(deviation, scales.at[NF4_AT_MEAN]);
}

/* The codes of the W elements from i on, the first one in the upper bits of the lowest byte. */
template <int W> __device__ static inline uint32_t codes_at(const uint8_t *codes, size_t i)
{
    if constexpr (W == 8) return *reinterpret_cast<const uint32_t *>(codes + i / 2);
    if constexpr (W == 4) return *reinterpret_cast<const uint16_t *>(codes + i / 2);
    return i % 2 ? (uint32_t)codes[i / 2] << 4 : codes[i / 2];
}

/* codes start on a 16-byte boundary; W 1: out need not. */
template <typename T, int W>
__global__ void __launch_bounds__(BLOCK)
    dequantise(T *__restrict__ out, const uint8_t *__restrict__ codes, struct nf4_scales scales, size_t n)
{
    SHARED_ARRAY(float, values, NF4_VALUES);
    constexpr float codebook[NF4_VALUES] = NF4_CODEBOOK;
    uint32_t code[PIECES];
    float scale[PIECES];
    size_t from = ((size_t)blockIdx.x * PIECES * BLOCK + threadIdx.x) * W, apart = (size_t)BLOCK * W;
#pragma unroll
    for (int k = 0; k < NF4_VALUES; k++)
        if ((int)threadIdx.x == k) values[k] = codebook[k];
#pragma unroll
    for (int p = 0; p < PIECES; p++) {
        size_t i = from + p * apart;
        code[p] = i < n ? codes_at<W>(codes, i) : 0;
        scale[p] = i < n ? scale_of(scales, i / NF4_BLOCK) : 0;
    }
    __syncthreads();
#pragma unroll
    for (int p = 0; p < PIECES; p++) {
        size_t i = from + p * apart;
        floats<W> x;
        for (int k = 0; k < W; k++) /* high half of each byte first */
            x.at[k] = values[code[p] >> (k % 2 ? 4 * (k - 1) : 4 * (k + 1)) & 15] * scale[p];
        if (i + W <= n)
            store<W>(out + i, x);
        else
            for (int k = 0; k < W && i + k < n; k++) element_store(out + i + k, x.at[k]);
    }
}

void nf4_dequantise(void *out, const void *stored, size_t n, bool nested, struct stream *stream)
{
    const uint8_t *codes = (const uint8_t *)stored;
    struct nf4_scales scales = {(const float *)(codes + nf4_code_bytes(n)), NULL};
    if (n == 0) return;
    if (nested) scales.codes = (const uint8_t *)(scales.at + NF4_AT_GROUPS + nf4_groups(n));
    dispatch(stream, 0, {out, stored}, [&]<typename T, int W>() {
        LAUNCH((dequantise<T, W>), block_count((n + W - 1) / W, BLOCK * PIECES), BLOCK, 0, stream, (T *)out,
               codes, scales, n);
    });
}
