/* SwiGLU (Shazeer, "GLU Variants Improve Transformer", 2020): out = silu(gate) · up, silu(g) = g / (1 +
 * exp(−g)).
 *
 * gate_up (N,2*F) is the result of one packed GEMM: gate in columns [0,F), up in columns [F,2F). */
#ifndef ANNEAL_KERNELS_SWIGLU_H
#define ANNEAL_KERNELS_SWIGLU_H

struct stream;

/* out (N,F) =. Nothing aliases. */
void swiglu_forward(void *out, const void *gate_up, int N, int F, struct stream *stream);

/* dgate_up (N,2*F) =, with σ = 1 / (1 + exp(−g)):
 *     dgate = dout · up · σ · (1 + g · (1 − σ)),    dup = dout · g · σ
 * dgate_up may be gate_up itself; dout (N,F) aliases nothing. */
void swiglu_backward(void *dgate_up, const void *dout, const void *gate_up, int N, int F,
                     struct stream *stream);

#endif
