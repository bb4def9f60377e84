/* See planted.h. */
#include "tests/cuda_sim/planted.h"

#include "kernels/device/cuda_device.cuh"
#include "kernels/mma.cuh"

enum { N = 64 };

static void reverse(float *x, enum planted bug)
{
    SHARED_ARRAY(float, tile, N);
    SHARED_ARRAY(float, untouched, N);
    int i = (int)threadIdx.x;
    tile[bug == PLANTED_SHARED_OFF_BY_ONE ? i + 1 : i] = x[i];
    if (bug == PLANTED_THREAD_EXITS && i == 5) return;
    if (bug == PLANTED_TWO_BARRIERS && i < N / 2)
        __syncthreads();
    else if (bug != PLANTED_MISSING_BARRIER)
        __syncthreads();
    float value = bug == PLANTED_UNINITIALISED ? (float)untouched[i] : (float)tile[N - 1 - i];
    if (bug == PLANTED_LANE_EXITS && i == 40) return;
    value += 0 * __shfl_xor_sync(bug == PLANTED_MASK && i == 3 ? 0xfffffff0u : 0xffffffffu, value, 1);
    if (bug == PLANTED_WARP_RACE) {
        tile[i] = value; /* no __syncwarp(), and a shuffle orders no memory */
        value = tile[i ^ 1];
    }
    x[i] = value;
    if (bug == PLANTED_WRITE_OFF_BY_ONE && i == N - 1) x[i + 1] = value;
    if (bug == PLANTED_WRITE_BELOW && i == 0) x[-1] = value;
    if (bug == PLANTED_WRITE_FAR && i == 7) x[N + 5000] = value;
}

void planted_run(enum planted bug, float *x, struct stream *stream)
{
    LAUNCH(reverse, dim3(1, 1), dim3(N), 0, stream, x, bug);
}

static void reverse_halves(float *x, enum planted_grid bug)
{
    int i = (int)threadIdx.x, half = (int)blockIdx.x * N, lane = i % 32;
    float all = x[2 * N], value = x[half + i];
    if (bug != GRID_MISSING_BARRIER) __syncthreads();
    if (bug == GRID_LANES) {
        x[half + i] = value;
        value = x[half + i - lane + (lane ^ 1)];
        __syncthreads();
    }
    if (bug == GRID_READ_ELSEWHERE && half > 0) value = x[i];
    x[half + N - 1 - i] = value + 0 * all;
    if (bug == GRID_WRITTEN_TWICE && i == N - 1) x[0] = 1;
    if (bug == GRID_READ_BY_ALL && half + i == 0) x[2 * N] = value;
    if (bug == GRID_HALVES) {
        __syncthreads();
        if (i < 2) reinterpret_cast<uint16_t *>(x + half)[i] = 1;
    }
    if (bug == GRID_ORDER && i == 0) x[2 * N + 1 + (int)atomicAdd(x + 2 * N, 1.0f)] = (float)blockIdx.x;
}

void planted_grid_run(enum planted_grid bug, float *x, struct stream *stream)
{
    LAUNCH(reverse_halves, dim3(2), dim3(N), 0, stream, x, bug);
}

static void naive_attention(float *out, const float *qkv, int T, int NH, int NKV, int HS, bool swapped)
{
    int t = (int)blockIdx.x, h = (int)blockIdx.y, b = (int)blockIdx.z, group = NH / NKV, width = NH + 2 * NKV;
    int kv = swapped ? h % NKV : h / group;
    const float *rows = qkv + (size_t)b * (size_t)T * (size_t)(width * HS);
    const float *q = rows + (t * width + h) * HS;
    if (threadIdx.x != 0) return;
    float total = 0, *o = out + (((size_t)b * (size_t)T + (size_t)t) * (size_t)NH + (size_t)h) * (size_t)HS;
    for (int i = 0; i < HS; i++) o[i] = 0;
    for (int u = 0; u <= t; u++) {
        const float *k = rows + (u * width + NH + kv) * HS, *v = k + NKV * HS;
        float s = 0;
        for (int i = 0; i < HS; i++) s += q[i] * k[i];
        float p = expf(s / sqrtf((float)HS));
        total += p;
        for (int i = 0; i < HS; i++) o[i] += p * v[i];
    }
    for (int i = 0; i < HS; i++) o[i] /= total;
}

void planted_attention(float *out, const float *qkv, int B, int T, int NH, int NKV, int HS, bool swapped,
                       struct stream *stream)
{
    LAUNCH(naive_attention, dim3((unsigned)T, (unsigned)NH, (unsigned)B), dim3(32), 0, stream, out, qkv, T,
           NH, NKV, HS, swapped);
}

static void product(float *out, const __nv_bfloat16 *x, enum planted_product bug)
{
    enum { ROWS = 16, COLUMNS = 32 };
    SHARED_ARRAY(__nv_bfloat16, rows, ROWS * COLUMNS);
    int i = (int)threadIdx.x, warp = i / 32, lane = i % 32;
    if (bug == PRODUCT_HALVES || bug == PRODUCT_SAME_HALF) {
        rows[bug == PRODUCT_HALVES ? i : i / 2] = x[i];
        __syncthreads();
    }
    copy_async16(rows + i * 8, x + i * 8 + (bug == PRODUCT_SOURCE_UNALIGNED && i == 9), true);
    if (bug != PRODUCT_MISSING_COMMIT) copy_commit();
    if (bug != PRODUCT_MISSING_WAIT) copy_wait<0>();
    if (bug != PRODUCT_MISSING_BARRIER) __syncthreads();
    uint32_t a[4], b[4];
    float d[4] = {};
    int row = lane % 16 + (bug == PRODUCT_ROW_OFF_BY_ONE), column = warp * 16 + lane / 16 * 8;
    matrices_load<false>(a, rows + (row * COLUMNS + column + (bug == PRODUCT_ROW_UNALIGNED)));
    if (bug == PRODUCT_TRANSPOSED)
        matrices_load<true>(b, rows + (row * COLUMNS + column));
    else
        matrices_load<false>(b, rows + (row * COLUMNS + column));
    if (bug == PRODUCT_LANE_MISSING && i == 45) return;
    if (bug == PRODUCT_SWAPPED_HALVES)
        mma_bf16(d, a, b[2], b[0]);
    else
        mma_bf16(d, a, b[0], b[bug == PRODUCT_SWAPPED_FRAGMENT ? 1 : 2]);
    if (bug == PRODUCT_COPIED_OVER) {
        copy_async16(rows + i * 8, x, false);
        copy_commit();
        copy_wait<0>();
    }
    if (bug == PRODUCT_COPIES_LEFT) {
        __syncthreads();
        copy_async16(rows + i * 8, x, true);
    }
    for (int j = 0; j < 4; j++) out[(warp * 16 + lane / 4 + j / 2 * 8) * 8 + lane % 4 * 2 + j % 2] = d[j];
}

void planted_product(enum planted_product bug, float *out, const void *x, struct stream *stream)
{
    LAUNCH(product, dim3(1, 1), dim3(64), 0, stream, out, (const __nv_bfloat16 *)x, bug);
}

static void reverse_at_the_end(float *x, int last)
{
    SHARED_DYNAMIC(float, far);
    SHARED_ARRAY(float, tile, N);
    int i = (int)threadIdx.x;
    far[last - i] = x[i];
    __syncthreads();
    tile[i] = far[last - (N - 1) + i];
    x[i] = tile[i];
}

void planted_shared(size_t bytes, size_t leave, float *x, struct stream *stream)
{
    if (leave > 0) allow_shared(stream, reverse_at_the_end, leave);
    LAUNCH(reverse_at_the_end, dim3(1, 1), dim3(N), bytes, stream, x, (int)(bytes / sizeof(float)) - 1);
}
