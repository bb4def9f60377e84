/* CUDA twin of the embedding. Forward is memory-bound: C elements in and out per token, 16 bytes per thread
 * if C and the addresses allow.
 *
 * Backward uses no atomics and no workspace: the block of a token's first position owns the row. It searches
 * the following tokens, 256 at a time, lists the matching positions in ascending order, and each of its
 * threads sums one column of those rows. So a row's summands are added in the order of the CPU twin, to the
 * same bits. This costs (distinct tokens) · N comparisons, spread over all blocks; columns are divided over
 * blockIdx.y, so that one very frequent token does not delay the rest. */
#include "kernels/element.cuh"

enum { BLOCK = 256, WARPS = BLOCK / 32 };

template <typename T, int W>
__global__ void embedding_gather(T *__restrict__ out, const int32_t *__restrict__ tokens,
                                 const T *__restrict__ weight, size_t count, int C, int stride)
{
    size_t i = ((size_t)blockIdx.x * BLOCK + threadIdx.x) * W;
    if (i >= count) return;
    size_t n = i / (unsigned)C, c = i - n * (unsigned)C;
    store<W>(out + i, load<W>(weight + (size_t)tokens[n] * (unsigned)stride + c));
}

void embedding_forward(void *out, const int32_t *tokens, struct matrix weight, int N, int V, int C,
                       struct stream *stream)
{
    size_t count = (size_t)N * (size_t)C;
    (void)V;
    if (weight.element != precision_element(stream->precision)) {
        stream_decline(stream, "embedding", "the GPU's kernel takes weights of the stream's precision", false);
        return;
    }
    int width = C | weight.stride; /* a multiple of W only if both are */
    dispatch(stream, width, {out, weight.at}, [&]<typename T, int W>() {
        LAUNCH((embedding_gather<T, W>), block_count(count / W, BLOCK), BLOCK, 0, stream, (T *)out, tokens,
               (const T *)weight.at, count, C, weight.stride);
    });
}

/* blockIdx.x: a token's position; blockIdx.y: BLOCK columns. */
template <typename T>
__global__ void __launch_bounds__(BLOCK)
    embedding_scatter(float *__restrict__ dweight, const T *__restrict__ dout,
                      const int32_t *__restrict__ tokens, int N, int C)
{
    SHARED_ARRAY(int, matches, BLOCK);
    SHARED_ARRAY(int, warp_matches, WARPS);
    SHARED_ARRAY(int, seen, WARPS);
    int first = (int)blockIdx.x, token = tokens[first], warp = (int)threadIdx.x / 32,
        lane = (int)threadIdx.x % 32;
    for (int start = 0; start < first; start += BLOCK) { /* a repetition: another block owns the row */
        int n = start + (int)threadIdx.x;
        bool same = n < first && tokens[n] == token;
        bool any = __any_sync(0xffffffffu, same);
        if (lane == 0) seen[warp] = any;
        __syncthreads();
        bool earlier = false;
        for (int w = 0; w < WARPS; w++) earlier |= seen[w] != 0;
        __syncthreads();
        if (earlier) return;
    }
    int c = (int)blockIdx.y * BLOCK + (int)threadIdx.x;
    float *at = dweight + (size_t)token * (unsigned)C + (unsigned)c;
    float sum = c < C ? *at : 0.0f;
    for (int start = first; start < N; start += BLOCK) {
        int n = start + (int)threadIdx.x;
        bool same = n < N && tokens[n] == token;
        unsigned votes = __ballot_sync(0xffffffffu, same);
        if (lane == 0) warp_matches[warp] = __popc(votes);
        __syncthreads();
        int before = 0, count = 0;
        for (int w = 0; w < WARPS; w++) {
            int more = warp_matches[w];
            before += w < warp ? more : 0;
            count += more;
        }
        if (same) matches[before + __popc(votes & ((1u << lane) - 1))] = n;
        __syncthreads();
        if (c < C) {
#pragma unroll 8
            for (int i = 0; i < count; i++)
                sum += element_load(dout + (size_t)matches[i] * (unsigned)C + (unsigned)c);
        }
        __syncthreads();
    }
    if (c < C) *at = sum;
}

void embedding_backward(float *dweight, const void *dout, const int32_t *tokens, int N, int, int C,
                        struct stream *stream)
{
    dispatch_scalar(stream, [&]<typename T>() {
        LAUNCH(embedding_scatter<T>, dim3((unsigned)N, block_count((size_t)C, BLOCK)), BLOCK, 0, stream,
               dweight, (const T *)dout, tokens, N, C);
    });
}
