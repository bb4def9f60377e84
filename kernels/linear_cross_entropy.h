/* The language-model head and its loss in one: logits = x weightᵀ, losses = cross-entropy(logits, targets),
 * and the gradients, without ever storing (N,V). Works in chunks of rows on any backend: per chunk one GEMM
 * for the logits, the loss with dlogits written over them, and two GEMMs for the gradients. (After Hsu et
 * al., "Liger Kernel", 2024.)
 *
 * x (N,C), weight (V,C), targets (N) as in operations.def, chunk_rows >= 1. A chunk reads and writes all of
 * dweight, so larger chunks move less memory. Measured at V 32,000, C 256, GFLOP/s on one core of a Zen 5
 * (its SGEMM: 205): 64 rows 142, 128 rows 176, 256 rows 191, 512 rows 204, 2,048 rows 198. */
#ifndef ANNEAL_KERNELS_LINEAR_CROSS_ENTROPY_H
#define ANNEAL_KERNELS_LINEAR_CROSS_ENTROPY_H

#include "kernels/device/backend.h"

/* losses (N) =, dx (N,C) =, dweight (V,C) =, or += with `adds`. Both gradients
 * are those of cross_entropy_fused with `control`, in device memory. dx NULL or dweight NULL: that
 * gradient is not computed. class_weights (V): each row counts as much as its target's weight; NULL: all the
 * same. control NULL: only the losses are. logits: scratch for (chunk_rows,V), in the stream's elements, as
 * x and dx are. Nothing aliases. */
void linear_cross_entropy(const struct backend *backend, float *losses, void *dx, float *dweight,
                          const void *x, struct matrix weight, const int32_t *targets,
                          const float *class_weights, const struct step_control *control, int chunk_rows,
                          bool adds, struct matrix logits, int N, int C, int V, struct stream *stream);

#endif
