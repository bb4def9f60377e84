/* The fused head and loss of linear_cross_entropy.h, for any device. */
#include "kernels/linear_cross_entropy.h"

/* The rows from `start` on of a tensor with C columns. */
static struct matrix rows_from(const void *tensor, int start, int C, enum precision precision)
{
    enum element element = precision_element(precision);
    size_t offset = (size_t)start * (size_t)C * element_bytes(element);
    return matrix_view((const unsigned char *)tensor + offset, element, C);
}

void linear_cross_entropy(const struct backend *backend, float *losses, void *dx, float *dweight,
                          const void *x, struct matrix weight, const int32_t *targets,
                          const float *class_weights, const struct step_control *control, int chunk_rows,
                          bool adds, void *workspace, int N, int C, int V, enum precision precision,
                          struct stream *stream)
{
    struct matrix logits = rows_from(workspace, 0, V, precision); /* (rows,V), then dlogits */
    for (int start = 0; start < N; start += chunk_rows) {
        int rows = N - start < chunk_rows ? N - start : chunk_rows;
        struct matrix chunk = rows_from(x, start, C, precision);
        backend->gemm(logits, chunk, weight, rows, V, C, false, true, false, 1, stream);
        if (!control) {
            backend->cross_entropy_forward(losses + start, logits.at, targets + start, rows, V, stream);
            if (class_weights)
                backend->weigh_classes(losses + start, NULL, targets + start, class_weights, rows, V, stream);
            continue;
        }
        backend->cross_entropy_fused(losses + start, logits.at, targets + start, control, rows, V, stream);
        if (class_weights)
            backend->weigh_classes(losses + start, logits.at, targets + start, class_weights, rows, V,
                                   stream);
        if (dx)
            backend->gemm(rows_from(dx, start, C, precision), logits, weight, rows, C, V, false, false, false,
                          1, stream);
        if (dweight)
            backend->gemm(matrix_view(dweight, ELEMENT_FP32, C), logits, chunk, V, C, rows, true, false,
                          adds || start > 0, 1, stream);
    }
}
