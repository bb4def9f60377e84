/* CUDA twins of the element-wise operations, and of bias, SwiGLU and dropout, which gives the CPU's bits.
 * Memory-bound: every tensor is read or written once, 16 bytes per thread if the width and the addresses
 * allow (a cast to bf16 writes 8); in dropout a thread computes the Philox block of each four of its
 * elements. */
#include "core/base/philox.h"
#include "kernels/column_sum.cuh"
#include "kernels/element.cuh"

enum { BLOCK = 256, WORDS = 4, COLUMN_WARPS = 8 };

/* ---- cast and add ---- */

/* delta may be x, so neither is restricted. */
template <typename T, int W> __global__ void add_elements(T *x, const T *delta, size_t n)
{
    size_t i = ((size_t)blockIdx.x * BLOCK + threadIdx.x) * W;
    if (i + W <= n) {
        floats<W> a = load<W>(x + i), b = load<W>(delta + i);
        for (int k = 0; k < W; k++) a.at[k] += b.at[k];
        store<W>(x + i, a);
        return;
    }
    for (; i < n; i++) element_store(x + i, element_load(x + i) + element_load(delta + i));
}

template <typename T, int W>
__global__ void cast_elements(T *__restrict__ out, const float *__restrict__ x, size_t n)
{
    size_t i = ((size_t)blockIdx.x * BLOCK + threadIdx.x) * W;
    if (i + W <= n) {
        store<W>(out + i, load<W>(x + i));
        return;
    }
    for (; i < n; i++) element_store(out + i, x[i]);
}

void cast(void *out, const float *x, size_t n, struct stream *stream)
{
    if (out == x || n == 0) return;
    dispatch<4>(stream, 0, {out, x}, [&]<typename T, int W>() {
        LAUNCH((cast_elements<T, W>), block_count((n + W - 1) / W, BLOCK), BLOCK, 0, stream, (T *)out, x, n);
    });
}

void add(void *x, const void *delta, size_t n, struct stream *stream)
{
    if (n == 0) return;
    dispatch(stream, 0, {x, delta}, [&]<typename T, int W>() {
        LAUNCH((add_elements<T, W>), block_count((n + W - 1) / W, BLOCK), BLOCK, 0, stream, (T *)x,
               (const T *)delta, n);
    });
}

/* ---- bias ---- */

template <typename T, int W>
__global__ void bias_rows(T *__restrict__ x, const T *__restrict__ bias, size_t count, int C, int stride)
{
    size_t i = ((size_t)blockIdx.x * BLOCK + threadIdx.x) * W;
    if (i >= count) return;
    T *at = x + i / (unsigned)C * (unsigned)stride + i % (unsigned)C;
    floats<W> a = load<W>(at), b = load<W>(bias + i % (unsigned)C);
    for (int k = 0; k < W; k++) a.at[k] += b.at[k];
    store<W>(at, a);
}

/* partial (chunks, C) = the column sums of a chunk's rows. A lane has W columns, a warp every COLUMN_WARPS-th
 * row; then the warps' sums are added in order. */
template <typename T, int W>
__global__ void __launch_bounds__(COLUMN_WARPS * 32)
    bias_partial(float *__restrict__ partial, const T *__restrict__ dout, int N, int C, int stride, int rows)
{
    SHARED_ARRAY(float, sums, COLUMN_WARPS *W * 32);
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, chunk = (int)blockIdx.y;
    int c = ((int)blockIdx.x * 32 + lane) * W;
    int end = N - chunk * rows < rows ? N : (chunk + 1) * rows;
    floats<W> total = {};
#pragma unroll 4
    for (int n = chunk * rows + warp; n < (c < C ? end : 0); n += COLUMN_WARPS) {
        floats<W> d = load<W>(dout + (size_t)n * (unsigned)stride + (unsigned)c);
        for (int k = 0; k < W; k++) total.at[k] += d.at[k];
    }
    for (int k = 0; k < W; k++) sums[(warp * W + k) * 32 + lane] = total.at[k];
    __syncthreads();
    for (int k = warp; k < (c < C ? W : 0); k += COLUMN_WARPS) {
        float sum = 0;
        for (int w = 0; w < COLUMN_WARPS; w++) sum += sums[(w * W + k) * 32 + lane];
        partial[(size_t)chunk * (unsigned)C + (unsigned)(c + k)] = sum;
    }
}

void bias_forward(void *x, const void *bias, int N, int C, int stride, struct stream *stream)
{
    size_t count = (size_t)N * (size_t)C;
    dispatch(stream, C | stride, {x, bias}, [&]<typename T, int W>() {
        LAUNCH((bias_rows<T, W>), block_count(count / W, BLOCK), BLOCK, 0, stream, (T *)x, (const T *)bias,
               count, C, stride);
    });
}

void bias_backward(float *dbias, const void *dout, void *workspace, int N, int C, int stride,
                   struct stream *stream)
{
    float *partial = (float *)workspace;
    int chunks = row_chunk_count(N);
    dispatch(stream, C | stride, {dout}, [&]<typename T, int W>() {
        dim3 grid(block_count((size_t)C, 32 * W), (unsigned)chunks);
        LAUNCH((bias_partial<T, W>), grid, COLUMN_WARPS * 32, 0, stream, partial, (const T *)dout, N, C,
               stride, row_chunk_rows(N));
    });
    column_total_launch(dbias, partial, chunks, C, C, stream);
}

/* ---- SwiGLU ---- */

/* Fast, within 2^-20 where it matters: below -88 exp(-x) is infinite and the result 0. */
__device__ static inline float sigmoid(float x)
{
    return __fdividef(1.0f, 1.0f + __expf(-x));
}

template <typename T, int W>
__global__ void swiglu_out(T *__restrict__ out, const T *__restrict__ gate_up, size_t count, int F)
{
    size_t i = ((size_t)blockIdx.x * BLOCK + threadIdx.x) * W;
    if (i >= count) return;
    size_t n = i / (unsigned)F;
    const T *at = gate_up + i + n * (unsigned)F;
    floats<W> gate = load<W>(at), up = load<W>(at + F);
    for (int k = 0; k < W; k++) gate.at[k] = gate.at[k] * sigmoid(gate.at[k]) * up.at[k];
    store<W>(out + i, gate);
}

/* dgate_up may be gate_up, and out dout: a thread writes only elements that it alone has read. out NULL: not
 * computed. */
template <typename T, int W>
__global__ void swiglu_gradient(T *dgate_up, T *out, const T *dout, const T *gate_up, size_t count, int F)
{
    size_t i = ((size_t)blockIdx.x * BLOCK + threadIdx.x) * W;
    if (i >= count) return;
    size_t at = i + i / (unsigned)F * (unsigned)F;
    floats<W> gate = load<W>(gate_up + at), up = load<W>(gate_up + at + F), d = load<W>(dout + i);
    for (int k = 0; k < W; k++) {
        float g = gate.at[k], u = up.at[k], h = d.at[k], sigma = sigmoid(g);
        gate.at[k] = h * u * sigma * (1.0f + g * (1.0f - sigma));
        up.at[k] = h * g * sigma;
        d.at[k] = g * sigma * u;
    }
    if (out != NULL) store<W>(out + i, d);
    store<W>(dgate_up + at, gate);
    store<W>(dgate_up + at + F, up);
}

void swiglu_forward(void *out, const void *gate_up, int N, int F, struct stream *stream)
{
    size_t count = (size_t)N * (size_t)F;
    dispatch(stream, F, {out, gate_up}, [&]<typename T, int W>() {
        LAUNCH((swiglu_out<T, W>), block_count(count / W, BLOCK), BLOCK, 0, stream, (T *)out,
               (const T *)gate_up, count, F);
    });
}

void swiglu_backward(void *dgate_up, void *out, const void *dout, const void *gate_up, int N, int F,
                     struct stream *stream)
{
    size_t count = (size_t)N * (size_t)F;
    dispatch(stream, F, {dgate_up, out, dout, gate_up}, [&]<typename T, int W>() {
        LAUNCH((swiglu_gradient<T, W>), block_count(count / W, BLOCK), BLOCK, 0, stream, (T *)dgate_up,
               (T *)out, (const T *)dout, (const T *)gate_up, count, F);
    });
}

/* ---- dropout ---- */

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

/* A rank's part of the rows: element 0 is number `first` of a micro-batch of `size`, and others follow. size
 * 0: all are of one micro-batch. */
struct dropout_part {
    size_t first, size;
    uint32_t micro_batch;
    __device__ bool whole_words() const
    {
        return size == 0 || (first % WORDS == 0 && size % WORDS == 0);
    }
    /* The random words of element i, and those up to the next multiple of WORDS. */
    __device__ struct philox_block words(struct dropout_mask mask, size_t i, unsigned *within) const
    {
        size_t at = first + i, batch = size > 0 ? at / size : 0, in = at - batch * size;
        mask.high = (micro_batch + (uint32_t)batch) << 16;
        *within = (unsigned)(in % WORDS);
        return mask.words(in / WORDS);
    }
};

/* A thread processes EACH elements, a multiple of WORDS. */
template <typename T, int W, int EACH>
__global__ void __launch_bounds__(BLOCK, 6) dropout_elements(T *x, size_t n, struct dropout_mask mask,
                                                             size_t width, const struct step_control *control)
{
    uint64_t seed = control->seed;
    mask.c2 = control->step, mask.k0 = (uint32_t)seed, mask.k1 = (uint32_t)(seed >> 32);
    size_t i = ((size_t)blockIdx.x * BLOCK + threadIdx.x) * EACH, end = i + EACH < n ? i + EACH : n;
    struct dropout_part part = {control->row * width, control->rows * width, control->micro_batch};
    unsigned within;
    if (part.first == 0 && n <= part.size) part.size = 0; /* no division */
    if (W == EACH && i + EACH <= n && part.whole_words()) {
        floats<EACH> a = load<EACH>(x + i);
        for (int k = 0; k < EACH; k += WORDS) {
            struct philox_block random = part.words(mask, i + (unsigned)k, &within);
            for (int w = 0; w < WORDS; w++) a.at[k + w] = mask.treat(random.word[w], a.at[k + w]);
        }
        store<EACH>(x + i, a);
        return;
    }
    while (i < end) {
        struct philox_block random = part.words(mask, i, &within);
        for (unsigned w = within; w < WORDS && i < end; w++, i++)
            element_store(x + i, mask.treat(random.word[w], element_load(x + i)));
    }
}

void dropout(void *x, size_t n, float probability, struct dropout_site site, struct stream *stream)
{
    struct dropout_mask mask = {}; /* the rest comes from the control */
    mask.threshold = (uint32_t)((double)probability * 16777216.0 + 0.5);
    if (mask.threshold == 0 || n == 0) return;
    mask.scale = (float)(1.0 / (1.0 - (double)probability));
    mask.c3 = (uint32_t)site.site << 16 | site.layer;
    dispatch(stream, 0, {x}, [&]<typename T, int W>() {
        constexpr int EACH = W == 1 ? WORDS : W;
        LAUNCH((dropout_elements<T, W, EACH>), block_count((n + EACH - 1) / EACH, BLOCK), BLOCK, 0, stream,
               (T *)x, n, mask, site.width, site.control);
    });
}
