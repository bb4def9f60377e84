/* CUDA twin of the embedding. Forward is memory-bound: C elements in and out per token, 16 bytes per thread
 * if C and the addresses allow.
 *
 * Backward uses no atomics. One block sorts the positions of the tokens, by token and then in ascending
 * order; then the threads of a token's first position sum their columns over its rows, 16 bytes of a row at a
 * time. So a row's summands are added in the order of the CPU twin, to the same bits. */
#include "kernels/element.cuh"

enum { BLOCK = 256, DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS, AHEAD = 4 };
constexpr unsigned SORT_WARPS = 32;

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
        stream_decline(stream, "embedding", "the GPU's kernel takes weights of the stream's precision",
                       false);
        return;
    }
    int width = C | weight.stride; /* a multiple of W only if both are */
    dispatch(stream, width, {out, weight.at}, [&]<typename T, int W>() {
        LAUNCH((embedding_gather<T, W>), block_count(count / W, BLOCK), BLOCK, 0, stream, (T *)out, tokens,
               (const T *)weight.at, count, C, weight.stride);
    });
}

/* The lanes with the digit of this lane, which has none if it is negative. */
__device__ static inline unsigned lanes_with(int digit)
{
    unsigned same = __ballot_sync(0xffffffffu, digit >= 0);
    for (int bit = 0; bit < DIGIT_BITS; bit++) {
        unsigned set = __ballot_sync(0xffffffffu, digit >> bit & 1);
        same &= digit >> bit & 1 ? set : ~set;
    }
    return digit >= 0 ? same : 0;
}

/* order (N) = the positions of the tokens, sorted by token; those of a token stay in ascending order. order
 * has room for 2·N: a pass over each digit of the tokens, the lowest first, moves the positions from one half
 * to the other. Each warp has a section of them: it counts the digits, from which follows where its positions
 * with each digit begin. Reads are issued AHEAD at a time, as a block alone waits for each of them. */
__global__ static void __launch_bounds__(SORT_WARPS * 32)
    embedding_sort(int32_t *order, const int32_t *__restrict__ tokens, int N, int passes)
{
    SHARED_ARRAY(int, places, SORT_WARPS *DIGITS);
    SHARED_ARRAY(int, totals, SORT_WARPS);
    int thread = (int)threadIdx.x, warps = (int)blockDim.x / 32, warp = thread / 32, lane = thread % 32;
    int section = (N + 32 * warps - 1) / (32 * warps) * 32, first = warp * section,
        end = N - first < section ? N : first + section;
    for (int pass = 0; pass < passes; pass++) {
        const int32_t *from = order + (size_t)((passes - pass) % 2) * (unsigned)N;
        int32_t *to = order + (size_t)((passes - pass - 1) % 2) * (unsigned)N;
        auto visit = [&](bool moves) {
            for (int base = first; base < end; base += 32 * AHEAD) {
                int n[AHEAD], digit[AHEAD];
#pragma unroll
                for (int j = 0; j < AHEAD; j++) {
                    int i = base + 32 * j + lane;
                    n[j] = i >= end ? -1 : pass == 0 ? i : from[i];
                }
#pragma unroll
                for (int j = 0; j < AHEAD; j++)
                    digit[j] = n[j] < 0 ? -1 : tokens[n[j]] >> (pass * DIGIT_BITS) & (DIGITS - 1);
#pragma unroll
                for (int j = 0; j < AHEAD; j++) {
                    unsigned same = lanes_with(digit[j]), before = same & ((1u << lane) - 1);
                    int at = warp * DIGITS + digit[j], place = same != 0 ? (int)places[at] : 0;
                    if (moves && same != 0) to[place + __popc(before)] = n[j];
                    __syncwarp();
                    if (same != 0 && before == 0) places[at] = place + __popc(same);
                    __syncwarp();
                }
            }
        };
        for (int i = thread; i < warps * DIGITS; i += (int)blockDim.x) places[i] = 0;
        __syncthreads();
        visit(false);
        __syncthreads();
        /* counts become the sums of all before them, digit by digit and warp by warp */
        auto place = [&](int k) {
            int i = thread * (DIGITS / 32) + k;
            return i % warps * DIGITS + i / warps;
        };
        int own = 0, sum = 0;
        for (int k = 0; k < DIGITS / 32; k++) own += places[place(k)];
        for (int from_lane = 0; from_lane < 32; from_lane++) {
            int other = __shfl_sync(0xffffffffu, own, from_lane);
            sum += from_lane < lane ? other : 0;
        }
        if (lane == 31) totals[warp] = sum + own;
        __syncthreads();
        for (int w = 0; w < warp; w++) sum += totals[w];
        for (int k = 0; k < DIGITS / 32; k++) {
            int count = places[place(k)];
            places[place(k)] = sum;
            sum += count;
        }
        __syncthreads();
        visit(true);
        __syncthreads();
    }
}

/* A thread has W columns of a place in the order. It sums them over all rows of the place's token, if the
 * place is the token's first. */
template <typename T, int W>
__global__ void embedding_scatter(float *__restrict__ dweight, const T *__restrict__ dout,
                                  const int32_t *__restrict__ tokens, const int32_t *__restrict__ order,
                                  int N, int C)
{
    size_t at = (size_t)blockIdx.x * BLOCK + threadIdx.x;
    int pieces = C / W, first = (int)(at / (unsigned)pieces), c = (int)(at % (unsigned)pieces) * W;
    if (first >= N) return;
    int token = tokens[order[first]];
    auto is_same = [&](int place) { return tokens[order[place]] == token; };
    if (first > 0 && is_same(first - 1)) return;
    int last = first, end = first + 1; /* the last place known to be the token's, and one that may be */
    while (end < N && is_same(end)) {
        last = end;
        end = N - end < end - first ? N : 2 * end - first;
    }
    while (end - last > 1) {
        int middle = last + (end - last) / 2;
        if (is_same(middle))
            last = middle;
        else
            end = middle;
    }
    float *to = dweight + (size_t)token * (unsigned)C + (unsigned)c;
    floats<W> sum = load<W>(to);
#pragma unroll 8
    for (int i = first; i < end; i++) {
        floats<W> d = load<W>(dout + (size_t)order[i] * (unsigned)C + (unsigned)c);
        for (int k = 0; k < W; k++) sum.at[k] += d.at[k];
    }
    store<W>(to, sum);
}

void embedding_backward(float *dweight, const void *dout, const int32_t *tokens, void *workspace, int N,
                        int V, int C, struct stream *stream)
{
    int32_t *order = (int32_t *)workspace;
    unsigned warps = block_count((size_t)N, 32);
    int passes = 1;
    while (passes * DIGIT_BITS < 31 && (V - 1) >> passes * DIGIT_BITS > 0) passes++;
    LAUNCH(embedding_sort, 1, 32 * (warps < SORT_WARPS ? warps : SORT_WARPS), 0, stream, order, tokens, N,
           passes);
    dispatch(stream, C, {dweight, dout}, [&]<typename T, int W>() {
        LAUNCH((embedding_scatter<T, W>), block_count((size_t)N * (size_t)(C / W), BLOCK), BLOCK, 0, stream,
               dweight, (const T *)dout, tokens, order, N, C);
    });
}
