/* Replaces <cblas.h> for the CPU twins when gpu-check is built: the two OpenBLAS functions that they use,
 * implemented with plain_sgemm. Only tests/gpu/build.sh has it on its include path. */
#ifndef ANNEAL_TESTS_GPU_PLAIN_CBLAS_H
#define ANNEAL_TESTS_GPU_PLAIN_CBLAS_H

#include <assert.h>

#include "tests/gpu/plain_sgemm.h"

enum CBLAS_ORDER { CblasRowMajor = 101 };
enum CBLAS_TRANSPOSE { CblasNoTrans = 111, CblasTrans = 112 };

/* As in BLAS, with alpha 1 and beta 0 or 1. */
static inline void cblas_sgemm(enum CBLAS_ORDER order, enum CBLAS_TRANSPOSE transpose_a,
                               enum CBLAS_TRANSPOSE transpose_b, int M, int N, int K, float alpha,
                               const float *a, int lda, const float *b, int ldb, float beta, float *c,
                               int ldc)
{
    assert(order == CblasRowMajor && alpha == 1 && (beta == 0 || beta == 1));
    plain_sgemm(transpose_a == CblasTrans, transpose_b == CblasTrans, M, N, K, a, lda, b, ldb, beta == 1, c,
                ldc);
}

static inline void openblas_set_num_threads(int threads)
{
    assert(threads == 1); /* it never has more */
}

static inline const char *openblas_get_corename(void)
{
    return "plain";
}

#endif
