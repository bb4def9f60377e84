/* Matrix product, row-major: out (M,N) = op(a) op(b), or += when accumulate.
 *
 * op(a) is (M,K): a is stored (M,K), or (K,M) with transpose_a. op(b) is (K,N): b is stored (K,N), or (N,K)
 * with transpose_b. Each is a view whose stride is at least its row length as stored; what lies between two
 * rows is neither read nor written. M, N, K >= 1; nothing aliases. Without accumulate out is written without
 * being read, so what was there (NaN included) does not matter.
 *
 * Elements, all sums in fp32:
 *   out   a     b      in a stream of
 *   fp32  fp32  fp32   fp32, tf32
 *   fp32  fp32  bf16   fp32, on the CPU alone: weights that are stored narrower than they compute
 *   bf16  bf16  bf16   bf16; with accumulate the sum is rounded once more
 *   fp32  bf16  bf16   bf16: a parameter's gradient
 * The CUDA twin declines any other combination, and the stream reports the sentence; the CPU twin asserts.
 *
 * gemm_workspace: bytes of scratch on the device that products would like to have; 0: none needed. gemm_lend:
 * from now on the stream's products may use `workspace` (256-aligned); the lender keeps it, and takes it back
 * by lending NULL and 0 or by closing the stream. Without any, products that need scratch are done in
 * another way.
 *
 * gemm_warm: before a training begins, for its products in this stream's precision with the workspace that
 * gemm_workspace names: loads code and chooses how each product is done, so that the first step finds nothing
 * left to do. Operands begin at multiples of 16 bytes. What it allocates on the device it frees. `watch` is
 * told how far it is. Fails where scratch for the largest product does not fit, where a product cannot be
 * done, or when the watch says stop (STATUS_INTERRUPTED). The next call replaces what this one prepared. On
 * the CPU there is nothing to do, and nothing is reported.
 *
 * The CPU twin cuts out into one tile a thread and gives each to a single-threaded OpenBLAS call: results are
 * repeatable for one thread count, and may differ in the last bits between thread counts. */
#ifndef ANNEAL_KERNELS_GEMM_H
#define ANNEAL_KERNELS_GEMM_H

#include "kernels/device/backend.h"

/* The product that gemm is called for with these operands. */
static inline struct gemm_shape gemm_shape_of(struct matrix out, struct matrix a, struct matrix b, int M,
                                              int N, int K, bool transpose_a, bool transpose_b,
                                              bool accumulate)
{
    struct gemm_shape shape = {M,
                               N,
                               K,
                               transpose_a,
                               transpose_b,
                               accumulate,
                               {out.element, out.stride},
                               {a.element, a.stride},
                               {b.element, b.stride}};
    return shape;
}

static inline bool gemm_layout_same(struct gemm_layout a, struct gemm_layout b)
{
    return a.element == b.element && a.stride == b.stride;
}

static inline bool gemm_shape_same(const struct gemm_shape *a, const struct gemm_shape *b)
{
    return a->M == b->M && a->N == b->N && a->K == b->K && a->transpose_a == b->transpose_a &&
           a->transpose_b == b->transpose_b && a->accumulate == b->accumulate &&
           gemm_layout_same(a->out, b->out) && gemm_layout_same(a->a, b->a) && gemm_layout_same(a->b, b->b);
}

void gemm(struct matrix out, struct matrix a, struct matrix b, int M, int N, int K, bool transpose_a,
          bool transpose_b, bool accumulate, struct stream *stream);
size_t gemm_workspace(struct device *device);
void gemm_lend(struct stream *stream, void *workspace, size_t bytes);
enum status gemm_warm(struct stream *stream, const struct gemm_shape *shapes, int count,
                      const struct warm_watch *watch, struct err *err);

#endif
