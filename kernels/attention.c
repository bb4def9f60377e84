/* CPU twin of attention.h. */
#include "kernels/attention.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu_device.h"
#include "kernels/simd.h"

void attention_forward(float *out, float *lse, const float *qkv, void *workspace, int B, int T, int NH,
                       int NKV, int HS, struct stream *stream)
{
    (void)workspace;
    size_t width = (size_t)(NH + 2 * NKV) * HS;
    float scale = 1.0f / sqrtf((float)HS);
    int group = NH / NKV;
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (int task = 0; task < B * NH; task++) {
        int b = task / NH, h = task % NH;
        const float *base = qkv + (size_t)b * T * width;
        const float *keys = base + (size_t)(NH + h / group) * HS, *values = keys + (size_t)NKV * HS;
        for (int t = 0; t < T; t++) {
            const float *q = base + (size_t)t * width + (size_t)h * HS;
            float *o = out + (((size_t)b * T + t) * NH + h) * HS;
            float max = -INFINITY, total = 0;
            memset(o, 0, (size_t)HS * sizeof(float));
            for (int u = 0; u <= t; u++) {
                const float *k = keys + (size_t)u * width, *v = values + (size_t)u * width;
                float s = 0;
#pragma omp simd reduction(+ : s)
                for (int i = 0; i < HS; i++) s += q[i] * k[i];
                s *= scale;
                float old = max;
                max = s > max ? s : max;
                float keep = simd_exp(old - max), p = simd_exp(s - max);
                total = total * keep + p;
#pragma omp simd
                for (int i = 0; i < HS; i++) o[i] = o[i] * keep + p * v[i];
            }
            for (int i = 0; i < HS; i++) o[i] /= total;
            lse[((size_t)b * NH + h) * T + t] = max + logf(total);
        }
    }
}

void attention_backward(float *dqkv, const float *dout, const float *out, const float *lse, const float *qkv,
                        void *workspace, int B, int T, int NH, int NKV, int HS, struct stream *stream)
{
    (void)workspace;
    size_t width = (size_t)(NH + 2 * NKV) * HS;
    float scale = 1.0f / sqrtf((float)HS);
    int group = NH / NKV;
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (int task = 0; task < B * NKV; task++) {
        int b = task / NKV, kv = task % NKV;
        const float *base = qkv + (size_t)b * T * width;
        float *dbase = dqkv + (size_t)b * T * width;
        for (int t = 0; t < T; t++) {
            memset(dbase + (size_t)t * width + (size_t)kv * group * HS, 0,
                   (size_t)group * HS * sizeof(float));
            memset(dbase + (size_t)t * width + (size_t)(NH + kv) * HS, 0, (size_t)HS * sizeof(float));
            memset(dbase + (size_t)t * width + (size_t)(NH + NKV + kv) * HS, 0, (size_t)HS * sizeof(float));
        }
        for (int h = kv * group; h < (kv + 1) * group; h++)
            for (int t = 0; t < T; t++) {
                size_t at = (((size_t)b * T + t) * NH + h) * HS;
                const float *q = base + (size_t)t * width + (size_t)h * HS, *d = dout + at;
                float *dq = dbase + (size_t)t * width + (size_t)h * HS;
                float l = lse[((size_t)b * NH + h) * T + t], D = 0;
                for (int i = 0; i < HS; i++) D += d[i] * out[at + i];
                for (int u = 0; u <= t; u++) {
                    size_t offset = (size_t)u * width + (size_t)(NH + kv) * HS;
                    const float *k = base + offset, *v = k + (size_t)NKV * HS;
                    float *dk = dbase + offset, *dv = dk + (size_t)NKV * HS;
                    float s = 0, dp = 0;
#pragma omp simd reduction(+ : s, dp)
                    for (int i = 0; i < HS; i++) s += q[i] * k[i], dp += d[i] * v[i];
                    float p = simd_exp(s * scale - l), ds = p * (dp - D) * scale;
#pragma omp simd
                    for (int i = 0; i < HS; i++) {
                        dv[i] += p * d[i];
                        dk[i] += ds * q[i];
                        dq[i] += ds * k[i];
                    }
                }
            }
    }
}
