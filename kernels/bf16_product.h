/* A matrix product in bf16 on x86 processors with AVX512-BF16, in the calling thread. */
#ifndef ANNEAL_KERNELS_BF16_PRODUCT_H
#define ANNEAL_KERNELS_BF16_PRODUCT_H

#include "kernels/device/backend.h"

/* out (M,N) = factor · op(a) op(b), or +=: the operation gemm, for a and b in bf16 and out in either. Sums
 * are in fp32, and always in the same order: an element's bits follow from its row of op(a), its column of
 * op(b) and K alone, whatever part of a larger product it is computed in. Takes no memory but about 1.1 MB of
 * stack. */
void bf16_product(struct matrix out, struct matrix a, struct matrix b, int M, int N, int K, bool transpose_a,
                  bool transpose_b, bool accumulate, float factor);

#endif
