/* CUDA twin of nf4_dequantise. Memory-bound: for each element half a byte is read and 2 or 4 are written. A
 * thread writes 16 bytes, neighbouring threads neighbouring ones; it reads as many codes as that takes, so
 * that a warp reads one stretch of 64 or 128 bytes, and has PIECES such loads under way. Values are looked up
 * in shared memory, where equal codes are broadcast and different ones are in different banks. */
#include "kernels/nf4.cuh"

enum { BLOCK = 256, PIECES = 4 };

/* codes start on a 16-byte boundary; W 1: out need not. */
template <typename T, int W>
__global__ void __launch_bounds__(BLOCK)
    dequantise(T *__restrict__ out, const uint8_t *__restrict__ codes, struct nf4_scales scales, size_t n)
{
    SHARED_ARRAY(float, values, NF4_VALUES);
    uint32_t code[PIECES];
    float scale[PIECES];
    size_t from = ((size_t)blockIdx.x * PIECES * BLOCK + threadIdx.x) * W, apart = (size_t)BLOCK * W;
    nf4_values(values);
#pragma unroll
    for (int p = 0; p < PIECES; p++) {
        size_t i = from + p * apart;
        code[p] = i < n ? nf4_codes<W>(codes, i) : 0;
        scale[p] = i < n ? nf4_scale(scales, i / NF4_BLOCK) : 0;
    }
    __syncthreads();
#pragma unroll
    for (int p = 0; p < PIECES; p++) {
        size_t i = from + p * apart;
        floats<W> x;
        for (int k = 0; k < W; k++) x.at[k] = values[nf4_code(code[p], k)] * scale[p];
        if (i + W <= n)
            store<W>(out + i, x);
        else
            for (int k = 0; k < W && i + k < n; k++) element_store(out + i + k, x.at[k]);
    }
}

void nf4_dequantise(void *out, const void *stored, size_t n, bool nested, struct stream *stream)
{
    const uint8_t *codes = (const uint8_t *)stored;
    struct nf4_scales scales = nf4_scales_of(stored, n, nested);
    if (n == 0) return;
    dispatch(stream, 0, {out, stored}, [&]<typename T, int W>() {
        LAUNCH((dequantise<T, W>), block_count((n + W - 1) / W, BLOCK * PIECES), BLOCK, 0, stream, (T *)out,
               codes, scales, n);
    });
}
