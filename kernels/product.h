/* A matrix product of fp32 or bf16 operands, in the calling thread. */
#ifndef ANNEAL_KERNELS_PRODUCT_H
#define ANNEAL_KERNELS_PRODUCT_H

#include "kernels/device/cpu.h"

/* Bytes that a thread needs for a product, aligned to 64 bytes. */
size_t product_bytes(void);

/* out (M,N) = factor · op(a) op(b), or +=: the operation gemm. `memory` has product_bytes(). Sums are in
 * fp32, and always in the same order: an element's bits follow from its row of op(a), its column of op(b) and
 * K alone, whatever part of a larger product it is computed in.
 *
 * way: WAY_DOTS for a and b in bf16 only; it and WAY_AMX on a processor that has the instructions. With
 * WAY_AMX numbers in fp32 are multiplied as amx_split.h says. */
void product(struct matrix out, struct matrix a, struct matrix b, int M, int N, int K, bool transpose_a,
             bool transpose_b, bool accumulate, float factor, enum product_way way, void *memory);

#endif
