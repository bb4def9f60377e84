/* attention.h in bf16 on tensor cores: what attention.cu calls on a stream in that precision. Same layouts
 * and meaning; qkv, out, dout and dqkv are bf16, lse is fp32. HS is 1 to 256, any alignment of the tensors is
 * right; HS a multiple of 8 on 16-byte boundaries is fast. */
#ifndef ANNEAL_KERNELS_ATTENTION_BF16_H
#define ANNEAL_KERNELS_ATTENTION_BF16_H

#include <cuda_bf16.h>

struct stream;

void attention_bf16_forward(__nv_bfloat16 *out, float *lse, const __nv_bfloat16 *qkv, void *workspace, int B,
                            int T, int NH, int NKV, int HS, struct stream *stream);

/* workspace: B·T·NH floats */
void attention_bf16_backward(__nv_bfloat16 *dqkv, const __nv_bfloat16 *dout, const __nv_bfloat16 *out,
                             const float *lse, const __nv_bfloat16 *qkv, void *workspace, int B, int T,
                             int NH, int NKV, int HS, struct stream *stream);

#endif
