/* Attention in bf16 on tensor cores: what attention.cu calls on a stream in that precision. Same layouts
 * and meaning; qkv, out, dout and dqkv are bf16, lse is fp32. HS is 1 to 256, any alignment of the tensors is
 * right; HS a multiple of 8 on 16-byte boundaries is fast. */
#ifndef ANNEAL_KERNELS_ATTENTION_BF16_H
#define ANNEAL_KERNELS_ATTENTION_BF16_H

struct stream;

void attention_bf16_forward(void *out, float *lse, const void *qkv, void *workspace, int B, int T, int NH,
                            int NKV, int HS, struct stream *stream);

/* workspace: B·T·NH floats */
void attention_bf16_backward(void *dqkv, const void *dout, const void *out, const float *lse, const void *qkv,
                             void *workspace, int B, int T, int NH, int NKV, int HS, struct stream *stream);

#endif
