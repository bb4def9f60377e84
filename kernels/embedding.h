/* Token embedding: out[n] = weight[tokens[n]], and its gradient.
 *
 * Every token lies in [0, V); the callers check that once, when data enters. Nothing aliases. */
#ifndef ANNEAL_KERNELS_EMBEDDING_H
#define ANNEAL_KERNELS_EMBEDDING_H

#include <stdint.h>

struct stream;

/* out (N,C) = rows of weight (V,C) chosen by tokens (N). */
void embedding_forward(void *out, const int32_t *tokens, const void *weight, int N, int C,
                       struct stream *stream);

/* dweight (V,C) += dout (N,C) at the rows named by tokens (N). A row's summands are added in the order in
 * which its token appears, so the sum is the same for any thread count. workspace:
 * embedding_backward_workspace(N, V) bytes (the CPU twin leaves it alone). */
void embedding_backward(float *dweight, const void *dout, const int32_t *tokens, void *workspace, int N,
                        int V, int C, struct stream *stream);

#endif
