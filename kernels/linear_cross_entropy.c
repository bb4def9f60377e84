/* The fused head and loss of linear_cross_entropy.h, for any device. */
#include "kernels/linear_cross_entropy.h"

void linear_cross_entropy(const struct backend *backend, float *losses, float *dx, float *dweight,
                          const float *x, const float *weight, const int32_t *targets, float loss_scale,
                          int chunk_rows, void *workspace, int N, int C, int V, struct stream *stream)
{
    float *logits = workspace; /* (rows,V), then dlogits */
    for (int start = 0; start < N; start += chunk_rows) {
        int rows = N - start < chunk_rows ? N - start : chunk_rows;
        const float *chunk = x + (size_t)start * C;
        backend->gemm(logits, chunk, weight, rows, V, C, false, true, false, stream);
        backend->cross_entropy_fused(losses + start, logits, targets + start, loss_scale, rows, V, stream);
        backend->gemm(dx + (size_t)start * C, logits, weight, rows, C, V, false, false, false, stream);
        backend->gemm(dweight, logits, chunk, V, C, rows, true, false, true, stream);
    }
}

void linear_cross_entropy_forward(const struct backend *backend, float *losses, const float *x,
                                  const float *weight, const int32_t *targets, int chunk_rows,
                                  void *workspace, int N, int C, int V, struct stream *stream)
{
    float *logits = workspace; /* (rows,V) */
    for (int start = 0; start < N; start += chunk_rows) {
        int rows = N - start < chunk_rows ? N - start : chunk_rows;
        backend->gemm(logits, x + (size_t)start * C, weight, rows, V, C, false, true, false, stream);
        backend->cross_entropy_forward(losses + start, logits, targets + start, rows, V, stream);
    }
}

size_t linear_cross_entropy_workspace(int chunk_rows, int V)
{
    return (size_t)chunk_rows * (size_t)V * sizeof(float);
}
