/* A matrix product that needs only a compiler: the CPU twins use it when gpu-check runs on a machine without
 * OpenBLAS. It computes the reference, so a third of OpenBLAS's speed is enough.
 *
 * Always: one thread (kernels/gemm.c gives each of its threads a tile), about 400 KB of stack, and a result
 * that follows from the shape alone. */
#ifndef ANNEAL_TESTS_GPU_PLAIN_SGEMM_H
#define ANNEAL_TESTS_GPU_PLAIN_SGEMM_H

#include <stdbool.h>

/* out (M,N) = op(a) op(b), or += when accumulate; op(a) is (M,K), op(b) (K,N), all row-major with the given
 * row lengths as stored: a is (M,K) or, transposed, (K,M); b (K,N) or, transposed, (N,K). */
void plain_sgemm(bool transpose_a, bool transpose_b, int M, int N, int K, const float *a, int lda,
                 const float *b, int ldb, bool accumulate, float *out, int ldo);

#endif
