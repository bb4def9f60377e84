/* CUDA twin of bias.h. Memory-bound: x is read and written once. */
#include "kernels/bias.h"
#include "kernels/column_sum.cuh"

enum { BLOCK = 256 };

template <typename T>
__global__ void bias_rows(T *__restrict__ x, const T *__restrict__ bias, size_t count, int C)
{
    size_t i = (size_t)blockIdx.x * BLOCK + threadIdx.x;
    if (i < count) x[i] += bias[i % (unsigned)C];
}

struct bias_term {
    const float *dout;
    int C;
    __device__ float operator()(int n, int c) const
    {
        return dout[(size_t)n * (unsigned)C + (unsigned)c];
    }
};

void bias_forward(void *x_, const void *bias_, int N, int C, struct stream *stream)
{
    float *x = (float *)x_;
    const float *bias = (const float *)bias_;
    size_t count = (size_t)N * (size_t)C;
    LAUNCH(bias_rows<float>, block_count(count, BLOCK), BLOCK, 0, stream, x, bias, count, C);
}

void bias_backward(float *dbias, const void *dout_, void *workspace, int N, int C, struct stream *stream)
{
    const float *dout = (const float *)dout_;
    column_sum(dbias, (float *)workspace, bias_term{dout, C}, N, C, stream);
}
