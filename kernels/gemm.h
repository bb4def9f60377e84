/* Matrix product, row-major: out (M,N) = op(a) op(b), or += when accumulate. An out that is added to is fp32
 * whatever a and b are: it is a parameter's gradient.
 *
 * op(a) is (M,K): a is stored (M,K), or (K,M) with transpose_a. op(b) is (K,N): b is stored (K,N), or (N,K)
 * with transpose_b. Leading dimensions are the row lengths as stored. M, N, K >= 1; nothing aliases. Without
 * accumulate out is written without being read, so what was there (NaN included) does not matter.
 *
 * The CPU twin cuts out into one tile a thread and gives each to a single-threaded OpenBLAS call: results are
 * repeatable for one thread count, and may differ in the last bits between thread counts. */
#ifndef ANNEAL_KERNELS_GEMM_H
#define ANNEAL_KERNELS_GEMM_H

#include <stdbool.h>

struct stream;

void gemm(void *out, const void *a, const void *b, int M, int N, int K, bool transpose_a, bool transpose_b,
          bool accumulate, struct stream *stream);

#endif
