/* RMSNorm (Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019) over the last dimension:
 *
 *     rstd = 1 / sqrt(mean(x²) + eps),    out = (x · rstd) · weight
 *
 * Statistics in fp32, their sums over more than 1,024 elements in fp64. x (N,C), weight (C), rstd (N). */
#ifndef ANNEAL_KERNELS_RMSNORM_H
#define ANNEAL_KERNELS_RMSNORM_H

struct stream;

/* out (N,C) =, rstd (N) =. out may alias x. */
void rmsnorm_forward(void *out, float *rstd, const void *x, const void *weight, int N, int C, float eps,
                     struct stream *stream);

/* sum (N,C) = x + delta, then out (N,C) and rstd (N) are the norm of sum as stored: where elements are bf16,
 * of the rounded sum. rmsnorm_forward of sum gives the same bits, as does rmsnorm_recompute. sum may alias x
 * or delta; out aliases nothing. */
void rmsnorm_residual_forward(void *sum, void *out, float *rstd, const void *x, const void *delta,
                              const void *weight, int N, int C, float eps, struct stream *stream);

/* out (N,C) = from the saved rstd (N): bit for bit what the forward pass wrote. out may alias x. */
void rmsnorm_recompute(void *out, const void *x, const void *weight, const float *rstd, int N, int C,
                       struct stream *stream);

/* With h = x · rstd and g = dout · weight:
 *     dx (N,C) += rstd · (g − h · mean(g · h)),    dweight (C) += Σ_n dout · h
 * dweight NULL: only dx. dx aliases none of dout, x. The rows are summed in fixed chunks, so dweight does not
 * depend on the thread count. workspace: rmsnorm_backward_workspace(N, C) bytes. */
void rmsnorm_backward(void *dx, float *dweight, const void *dout, const void *x, const void *weight,
                      const float *rstd, void *workspace, int N, int C, struct stream *stream);

#endif
