/* A bias over the last dimension, as the q/k/v projections of Qwen2 have it. */
#ifndef ANNEAL_KERNELS_BIAS_H
#define ANNEAL_KERNELS_BIAS_H

struct stream;

/* x (N,C) += bias (C), to every row. Rows are `stride` >= C elements apart; those between are not touched. */
void bias_forward(void *x, const void *bias, int N, int C, int stride, struct stream *stream);

/* dbias (C) += column sums of dout (N,C), rows likewise, in fixed chunks of rows: the same for any thread
 * count. workspace: bias_backward_workspace(N, C) bytes. */
void bias_backward(float *dbias, const void *dout, void *workspace, int N, int C, int stride,
                   struct stream *stream);

#endif
