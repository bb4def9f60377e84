/* The fused head and loss of linear_cross_entropy.h, for any device. */
#include "kernels/linear_cross_entropy.h"

/* Bytes of the rows before row `start` of a tensor with C columns. */
static size_t row_offset(int start, int C, enum precision precision)
{
    return (size_t)start * (size_t)C * precision_bytes(precision);
}

void linear_cross_entropy(const struct backend *backend, float *losses, void *dx, float *dweight,
                          const void *x, const void *weight, const int32_t *targets,
                          const struct step_control *control, int chunk_rows, void *workspace, int N, int C,
                          int V, enum precision precision, struct stream *stream)
{
    void *logits = workspace; /* (rows,V), then dlogits */
    for (int start = 0; start < N; start += chunk_rows) {
        int rows = N - start < chunk_rows ? N - start : chunk_rows;
        size_t offset = row_offset(start, C, precision);
        const unsigned char *chunk = (const unsigned char *)x + offset;
        backend->gemm(logits, chunk, weight, rows, V, C, false, true, false, stream);
        backend->cross_entropy_fused(losses + start, logits, targets + start, control, rows, V, stream);
        backend->gemm((unsigned char *)dx + offset, logits, weight, rows, C, V, false, false, false, stream);
        backend->gemm(dweight, logits, chunk, V, C, rows, true, false, true, stream);
    }
}

void linear_cross_entropy_forward(const struct backend *backend, float *losses, const void *x,
                                  const void *weight, const int32_t *targets, int chunk_rows, void *workspace,
                                  int N, int C, int V, enum precision precision, struct stream *stream)
{
    void *logits = workspace; /* (rows,V) */
    for (int start = 0; start < N; start += chunk_rows) {
        int rows = N - start < chunk_rows ? N - start : chunk_rows;
        const unsigned char *chunk = (const unsigned char *)x + row_offset(start, C, precision);
        backend->gemm(logits, chunk, weight, rows, V, C, false, true, false, stream);
        backend->cross_entropy_forward(losses + start, logits, targets + start, rows, V, stream);
    }
}

size_t linear_cross_entropy_workspace(int chunk_rows, int V, enum precision precision)
{
    return row_offset(chunk_rows, V, precision);
}
