/* The fused head and loss of linear_cross_entropy.h, for any device. */
#include "kernels/linear_cross_entropy.h"

/* The rows from `start` on of a tensor with C columns. */
static struct matrix rows_from(const void *tensor, int start, int C, enum element element)
{
    size_t offset = (size_t)start * (size_t)C * element_bytes(element);
    return matrix_view((const unsigned char *)tensor + offset, element, C);
}

void linear_cross_entropy(const struct backend *backend, float *losses, void *dx, float *dweight,
                          const void *x, struct matrix weight, const int32_t *targets,
                          const float *class_weights, const struct step_control *control, int chunk_rows,
                          bool adds, struct matrix logits, int N, int C, int V, struct stream *stream)
{
    struct matrix none = {NULL, logits.element, V};
    for (int start = 0; start < N; start += chunk_rows) {
        int rows = N - start < chunk_rows ? N - start : chunk_rows;
        struct matrix chunk = rows_from(x, start, C, logits.element);
        backend->gemm(logits, chunk, weight, rows, V, C, false, true, false, 1, stream);
        if (!control) {
            backend->cross_entropy_forward(losses + start, logits, targets + start, rows, V, stream);
            if (class_weights)
                backend->weigh_classes(losses + start, none, targets + start, class_weights, rows, V, stream);
            continue;
        }
        backend->cross_entropy_fused(losses + start, logits, targets + start, control, rows, V, stream);
        if (class_weights)
            backend->weigh_classes(losses + start, logits, targets + start, class_weights, rows, V, stream);
        if (dx)
            backend->gemm(rows_from(dx, start, C, logits.element), logits, weight, rows, C, V, false, false,
                          false, 1, stream);
        if (dweight)
            backend->gemm(matrix_view(dweight, ELEMENT_FP32, C), logits, chunk, V, C, rows, true, false,
                          adds || start > 0, 1, stream);
    }
}
