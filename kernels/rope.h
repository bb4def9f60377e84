/* Rotary position embedding (Su et al., "RoFormer", 2021) in Hugging Face's split-half order, alone and fused
 * with the per-head RMSNorm of Qwen3 ("QK-norm").
 *
 * qkv (B,T,NH+2*NKV,HS): the NH query heads, then NKV key heads, then NKV value heads. HS is even.
 * cos_sin (T,HS/2,2): cosine and sine of position t times frequency i. With x1 = x[:HS/2], x2 = x[HS/2:]:
 *
 *     y1 = x1 · cos − x2 · sin,    y2 = x2 · cos + x1 · sin
 *
 * The value heads are never touched by the rotation. */
#ifndef ANNEAL_KERNELS_ROPE_H
#define ANNEAL_KERNELS_ROPE_H

struct stream;

/* Rotates the query and key heads of qkv in place. */
void rope_forward(void *qkv, const float *cos_sin, int B, int T, int NH, int NKV, int HS,
                  struct stream *stream);

/* Rotates the gradients of the query and key heads back, in place. */
void rope_backward(void *dqkv, const float *cos_sin, int B, int T, int NH, int NKV, int HS,
                   struct stream *stream);

/* out (B,T,NH+2*NKV,HS) =: each query head normed with q_weight (HS), each key head with k_weight (HS), as in
 * rmsnorm.h over HS, then rotated; value heads copied. rstd (B*T,NH+NKV) = the norms' statistics, queries
 * first. out may alias qkv (but the backward pass needs the raw qkv). */
void qk_norm_rope_forward(void *out, float *rstd, const void *qkv, const void *q_weight, const void *k_weight,
                          const float *cos_sin, int B, int T, int NH, int NKV, int HS, float eps,
                          struct stream *stream);

/* dqkv comes in as the gradient of out and leaves as the gradient of the raw qkv, in place; the value heads'
 * part stays as it is. dq_weight (HS) and dk_weight (HS) +=, summed in fixed chunks of rows, so that they do
 * not depend on the thread count; either may be NULL: only the other is. workspace:
 * qk_norm_rope_backward_workspace(B*T, NH, NKV, HS) bytes. */
void qk_norm_rope_backward(void *dqkv, float *dq_weight, float *dk_weight, const void *qkv, const float *rstd,
                           const void *q_weight, const void *k_weight, const float *cos_sin, void *workspace,
                           int B, int T, int NH, int NKV, int HS, struct stream *stream);

#endif
