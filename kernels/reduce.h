/* Sums over a flat range in fp64, in an order that follows from n alone: the same bits for any thread count.
 * workspace: reduce_workspace(n) bytes. n may be 0. */
#ifndef ANNEAL_KERNELS_REDUCE_H
#define ANNEAL_KERNELS_REDUCE_H

#include <stdbool.h>
#include <stddef.h>

struct clip_state;
struct stream;

/* out (1) = Σ x (n); accumulate: out += Σ x (n). */
void sum(double *out, const float *x, size_t n, bool accumulate, void *workspace, struct stream *stream);

/* out: norm = sqrt(Σ g²), and scale = min(1, max_norm / (norm + 1e-6)); 1 when max_norm <= 0; 0 when the norm
 * is not a finite fp32 number; updates is one more where scale is not 0. Squares are taken in fp64: no finite
 * g overflows on the way. */
void grad_norm(struct clip_state *out, const float *g, size_t n, float max_norm, void *workspace,
               struct stream *stream);

#endif
