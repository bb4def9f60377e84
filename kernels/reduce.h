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

/* out (1) = Σ x² (n). Squares are taken in fp64: no finite x overflows on the way. */
void sum_of_squares(double *out, const float *x, size_t n, void *workspace, struct stream *stream);

/* out: norm = sqrt(squares (1)), and scale = min(1, max_norm / (norm + 1e-6)); 1 when max_norm <= 0; 0 when
 * the norm is not a finite fp32 number; updates is one more where scale is not 0. */
void clip_norm(struct clip_state *out, const double *squares, float max_norm, struct stream *stream);

#endif
