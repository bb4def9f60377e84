/* CUDA twin of pooling. Memory-bound: every row of a sequence is read or written once. The block of a
 * sequence's last row goes through its rows, one thread a column; so a block reads and writes only rows of
 * its own sequence, and sums in the order of the rows. Blocks of all other rows end at once. */
#include "kernels/element.cuh"

enum { BLOCK = 256 };

/* The first row of the sequence that ends in row n. */
__device__ static inline int first_row(const int32_t *positions, int n, int T)
{
    return n - (positions ? positions[n] : n % T);
}

template <typename T>
__global__ void __launch_bounds__(BLOCK)
    mean_of_rows(T *x, const int32_t *__restrict__ targets, const int32_t *__restrict__ positions, int length,
                 int C)
{
    int n = (int)blockIdx.x;
    if (targets[n] < 0) return;
    int first = first_row(positions, n, length);
    for (int c = (int)threadIdx.x; c < C; c += BLOCK) {
        T *last = x + (size_t)n * (unsigned)C + c;
        float sum = element_load(last);
        for (int m = first; m < n; m++) sum += element_load(x + (size_t)m * (unsigned)C + c);
        element_store(last, sum * (1.0f / (float)(n - first + 1)));
    }
}

template <typename T>
__global__ void __launch_bounds__(BLOCK)
    share_among_rows(T *dx, const int32_t *__restrict__ targets, const int32_t *__restrict__ positions,
                     int length, int C)
{
    int n = (int)blockIdx.x;
    if (targets[n] < 0) return;
    int first = first_row(positions, n, length);
    for (int c = (int)threadIdx.x; c < C; c += BLOCK) {
        float share = element_load(dx + (size_t)n * (unsigned)C + c) * (1.0f / (float)(n - first + 1));
        for (int m = first; m <= n; m++) element_store(dx + (size_t)m * (unsigned)C + c, share);
    }
}

void mean_pool_forward(void *x, const int32_t *targets, const int32_t *positions, int B, int T, int C,
                       struct stream *stream)
{
    dispatch_scalar(stream, [&]<typename E>() {
        LAUNCH((mean_of_rows<E>), (unsigned)(B * T), BLOCK, 0, stream, (E *)x, targets, positions, T, C);
    });
}

void mean_pool_backward(void *dx, const int32_t *targets, const int32_t *positions, int B, int T, int C,
                        struct stream *stream)
{
    dispatch_scalar(stream, [&]<typename E>() {
        LAUNCH((share_among_rows<E>), (unsigned)(B * T), BLOCK, 0, stream, (E *)dx, targets, positions, T, C);
    });
}
