/* CUDA twin of gemm_few_rows. Memory-bound: N · K elements of w, each read once, 16 bytes per thread if K and
 * the addresses allow. A warp has a row of w: its lanes read consecutive pieces, multiply them with all rows
 * of x, which the first-level cache holds for the block, and add up their sums at the end in a fixed order.
 * Tensor cores would not help: they wait for w as well. NF4: a lane reads EIGHT codes, of one block. */
#include "kernels/nf4.cuh"

enum { BLOCK = 128, WARPS = BLOCK / 32, EIGHT = 8 };

/* ROWS: M rounded up to a power of two, so that the sums are in registers. */
template <typename T, int W, int ROWS>
__global__ void __launch_bounds__(BLOCK)
    few_rows(T *__restrict__ out, int out_stride, const T *__restrict__ x, int x_stride,
             const T *__restrict__ w, int w_stride, int M, int N, int K)
{
    int n = (int)blockIdx.x * WARPS + (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    if (n >= N) return; /* the whole warp */
    const T *row = w + (size_t)n * (unsigned)w_stride;
    float sum[ROWS] = {};
    for (int k = lane * W; k < K; k += 32 * W) {
        floats<W> b = load<W>(row + k);
        for (int m = 0; m < ROWS; m++) {
            if (m >= M) continue;
            floats<W> a = load<W>(x + (size_t)m * (unsigned)x_stride + k);
            for (int i = 0; i < W; i++) sum[m] += a.at[i] * b.at[i];
        }
    }
    for (int m = 0; m < ROWS; m++) {
        float total = warp_sum(sum[m]);
        if (lane == 0 && m < M) element_store(out + (size_t)m * (unsigned)out_stride + n, total);
    }
}

template <typename T, int W, int ROWS>
__global__ void __launch_bounds__(BLOCK)
    few_rows_nf4(T *__restrict__ out, int out_stride, const T *__restrict__ x, int x_stride,
                 const uint8_t *__restrict__ codes, struct nf4_scales scales, int M, int N, int K)
{
    SHARED_ARRAY(float, values, NF4_VALUES);
    nf4_values(values);
    __syncthreads();
    int n = (int)blockIdx.x * WARPS + (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    if (n >= N) return; /* the whole warp */
    size_t row = (size_t)n * (unsigned)K;
    float sum[ROWS] = {};
    for (int k = lane * EIGHT; k < K; k += 32 * EIGHT) {
        uint32_t code = nf4_codes<EIGHT>(codes, row + (unsigned)k);
        float scale = nf4_scale(scales, (row + (unsigned)k) / NF4_BLOCK);
        for (int i = 0; i < EIGHT; i += W) {
            floats<W> b;
            for (int j = 0; j < W; j++) b.at[j] = values[nf4_code(code, i + j)] * scale;
            for (int m = 0; m < ROWS; m++) {
                if (m >= M) continue;
                floats<W> a = load<W>(x + (size_t)m * (unsigned)x_stride + k + i);
                for (int j = 0; j < W; j++) sum[m] += a.at[j] * b.at[j];
            }
        }
    }
    for (int m = 0; m < ROWS; m++) {
        float total = warp_sum(sum[m]);
        if (lane == 0 && m < M) element_store(out + (size_t)m * (unsigned)out_stride + n, total);
    }
}

/* Calls launch.template operator()<ROWS>(). */
template <typename Launch> static void by_rows(int M, Launch launch)
{
    if (M == 1)
        launch.template operator()<1>();
    else if (M <= 4)
        launch.template operator()<4>();
    else
        launch.template operator()<FEW_ROWS_MAX>();
}

static void few_rows_of_nf4(struct matrix out, struct matrix x, struct matrix w, int M, int N, int K,
                            struct stream *stream)
{
    size_t n = (size_t)N * (size_t)K;
    const uint8_t *codes = (const uint8_t *)w.at;
    struct nf4_scales scales = nf4_scales_of(codes, n, w.element == ELEMENT_NF4_NESTED);
    dispatch(stream, x.stride, {x.at}, [&]<typename T, int W>() {
        by_rows(M, [&]<int ROWS>() {
            LAUNCH((few_rows_nf4<T, W, ROWS>), block_count((size_t)N, WARPS), BLOCK, 0, stream, (T *)out.at,
                   out.stride, (const T *)x.at, x.stride, codes, scales, M, N, K);
        });
    });
}

void gemm_few_rows(struct matrix out, struct matrix x, struct matrix w, int M, int N, int K,
                   struct stream *stream)
{
    enum element element = precision_element(stream->precision);
    bool nf4 = element_is_nf4(w.element) && w.stride == K && K % NF4_BLOCK == 0;
    if (out.element != element || x.element != element || (w.element != element && !nf4)) {
        stream_decline(stream, "gemm_few_rows", "the GPU's kernel takes operands of the stream's precision",
                       false);
        return;
    }
    if (nf4) {
        few_rows_of_nf4(out, x, w, M, N, K, stream);
        return;
    }
    int width = K | x.stride | w.stride; /* a multiple of W only if all are */
    dispatch(stream, width, {x.at, w.at}, [&]<typename T, int W>() {
        by_rows(M, [&]<int ROWS>() {
            LAUNCH((few_rows<T, W, ROWS>), block_count((size_t)N, WARPS), BLOCK, 0, stream, (T *)out.at,
                   out.stride, (const T *)x.at, x.stride, (const T *)w.at, w.stride, M, N, K);
        });
    });
}
