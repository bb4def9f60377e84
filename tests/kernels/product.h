/* Matrix products as tests write them: one shape instead of three views. */
#ifndef ANNEAL_TESTS_KERNELS_PRODUCT_H
#define ANNEAL_TESTS_KERNELS_PRODUCT_H

#include "kernels/device/backend.h"

/* The product of a gemm call with these operands. */
static inline struct gemm_shape gemm_shape_of(struct matrix out, struct matrix a, struct matrix b, int M,
                                              int N, int K, bool transpose_a, bool transpose_b,
                                              bool accumulate)
{
    struct gemm_layout to = {out.element, out.stride}, left = {a.element, a.stride},
                       right = {b.element, b.stride};
    struct gemm_shape shape = {M, N, K, transpose_a, transpose_b, accumulate, to, left, right};
    return shape;
}

/* The shape with its layouts filled in: operands as a stream of this precision has them, each row `gap`
 * elements longer than it need be. */
static inline struct gemm_shape product_shape(struct gemm_shape s, enum precision precision, int gap)
{
    enum element e = precision_element(precision);
    s.out = (struct gemm_layout){s.accumulate ? ELEMENT_FP32 : e, s.N + gap};
    s.a = (struct gemm_layout){e, (s.transpose_a ? s.M : s.K) + gap};
    s.b = (struct gemm_layout){e, (s.transpose_b ? s.K : s.N) + gap};
    return s;
}

static inline void product_run(const struct backend *k, void *out, const void *a, const void *b,
                               struct gemm_shape s, float factor, struct stream *stream)
{
    k->gemm(matrix_view(out, s.out.element, s.out.stride), matrix_view(a, s.a.element, s.a.stride),
            matrix_view(b, s.b.element, s.b.stride), s.M, s.N, s.K, s.transpose_a, s.transpose_b,
            s.accumulate, factor, stream);
}

/* In fp32, without gaps. */
static inline void product_dense(const struct backend *k, void *out, const void *a, const void *b, int M,
                                 int N, int K, bool transpose_a, bool transpose_b, bool accumulate,
                                 struct stream *stream)
{
    struct gemm_shape s = {.M = M,
                           .N = N,
                           .K = K,
                           .transpose_a = transpose_a,
                           .transpose_b = transpose_b,
                           .accumulate = accumulate};
    product_run(k, out, a, b, product_shape(s, PRECISION_FP32, 0), 1, stream);
}

#endif
