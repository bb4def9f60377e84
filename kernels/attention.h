/* Causal self-attention with grouped query heads, in tiles with an online softmax, so that memory is O(T)
 * (Dao et al., "FlashAttention", 2022; Milakov and Gimelshein, "Online normalizer calculation for softmax",
 * 2018).
 *
 * qkv (B,T,NH+2*NKV,HS): query heads, key heads, value heads; NH is a multiple of NKV, and query head h uses
 * key and value head h / (NH / NKV). For every row t, over the columns u <= t:
 *
 *     s_tu = q_t · k_u / sqrt(HS),  lse_t = log Σ_u exp(s_tu),  p_tu = exp(s_tu − lse_t),  out_t = Σ_u p_tu
 * v_u
 *
 * Sums run over tiles in ascending order whatever the thread count, so both directions are deterministic and
 * do not depend on it. Nothing aliases. workspace: attention_workspace(B, T, NH, NKV, HS) bytes in both
 * directions; at most one float a row of lse, or what a fixed number of concurrent tasks takes. On a stream
 * in bf16, p and ds are rounded to it before the sums over rows, which stay in fp32; see attention_bf16.h. */
#ifndef ANNEAL_KERNELS_ATTENTION_H
#define ANNEAL_KERNELS_ATTENTION_H

struct stream;

/* out (B,T,NH,HS) =, lse (B,NH,T) =. */
void attention_forward(void *out, float *lse, const void *qkv, void *workspace, int B, int T, int NH, int NKV,
                       int HS, struct stream *stream);

/* dqkv (B,T,NH+2*NKV,HS) =, from dout (B,T,NH,HS) and what the forward pass read and wrote. The probabilities
 * are computed again from lse; with D_t = dout_t · out_t: dp_tu = dout_t · v_u,  ds_tu = p_tu (dp_tu − D_t) /
 * sqrt(HS), dq_t = Σ_u ds_tu k_u,  dk_u = Σ_t ds_tu q_t,  dv_u = Σ_t p_tu dout_t where the sums for dk and dv
 * also run over the query heads of the group. */
void attention_backward(void *dqkv, const void *dout, const void *out, const float *lse, const void *qkv,
                        void *workspace, int B, int T, int NH, int NKV, int HS, struct stream *stream);

#endif
