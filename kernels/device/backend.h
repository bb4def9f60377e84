/* The backend: one flat table of functions per device. The network, the planner and the trainer in core/ are
 * written once against this table and never mention a device.
 *
 * Always: every slot is filled; work is ordered by the stream it is given; nothing allocates once
 * device_open and the first call of each slot are behind us; results are deterministic on one device and
 * build. Each operation's contract (formula, shapes, what accumulates, what may alias) is in its own header,
 * which names the slot here.
 *
 * Shapes: B sequences, T tokens a sequence, N = B·T rows, C hidden width, NH query heads, NKV key/value
 * heads, HS head width, F feed-forward width, V vocabulary. Tensors are row-major.
 *
 * Element types: a tensor given as `void *` holds elements of the stream's precision, fp32 or bf16; one given
 * as `float *` is fp32 in every precision: statistics, losses, parameter gradients, moments, master weights.
 * Sums are accumulated in fp32 or wider, whatever the elements are.
 */
#ifndef ANNEAL_KERNELS_DEVICE_BACKEND_H
#define ANNEAL_KERNELS_DEVICE_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

/* How a stream computes. TF32: fp32 elements, but matrix products may round their operands to 10 bits of
 * mantissa. BF16: bf16 elements. */
enum precision { PRECISION_FP32, PRECISION_TF32, PRECISION_BF16, PRECISIONS };

static inline const char *precision_name(enum precision precision)
{
    static const char *const names[PRECISIONS] = {"fp32", "tf32", "bf16"};
    return names[precision];
}

/* Bytes of an element: 4 or 2. */
static inline size_t precision_bytes(enum precision precision)
{
    return precision == PRECISION_BF16 ? 2 : 4;
}

/* As what numbers lie in memory. */
enum element { ELEMENT_FP32, ELEMENT_BF16 };

static inline size_t element_bytes(enum element element)
{
    return element == ELEMENT_BF16 ? 2 : 4;
}

/* Of the tensors of a stream that computes in this precision. */
static inline enum element precision_element(enum precision precision)
{
    return precision == PRECISION_BF16 ? ELEMENT_BF16 : ELEMENT_FP32;
}

/* An operand of a matrix product: rows of elements, each row `stride` elements behind the one before, in
 * memory of the device. Nobody reads or writes what lies between the end of a row and the next one, so a
 * view can be a range of columns. */
struct matrix {
    void *at;
    enum element element;
    int stride;
};

static inline struct matrix matrix_view(const void *at, enum element element, int stride)
{
    struct matrix view = {(void *)at, element, stride};
    return view;
}

struct device; /* opaque: one opened device; holds its thread count, handles, scratch */
struct stream; /* opaque: an ordered queue of work on a device */
struct graph;  /* opaque: recorded work of a stream, to be queued again as one piece */
struct event;  /* opaque: a mark between two pieces of a stream's work */

/* What a device says about itself, for `anneal devices`, the run's record and the header of the workbench. */
struct device_info {
    char name[96];           /* "AMD EPYC 9B14, 2 threads, AVX-512" */
    char short_name[16];     /* "cpu", "cuda:0": the `device` column of runs */
    char uuid[48];           /* "GPU-…", the same for every process of the host; "": a CPU */
    int64_t available_bytes; /* of it, what may still be taken; 0: unknown */
    int64_t total_bytes;     /* memory of the device */
    /* operations a second, two for a multiply-add, of matrix products in each precision, by what is known of
     * the chip; 0: unknown, or the device does not compute in it */
    double peak_flops[PRECISIONS];
    enum precision best; /* what to train in, unless told */
    bool has_display;    /* a screen hangs on it: others draw with its memory */
    int max_head_dim;    /* the widest head that its attention knows; 0: any */
};

/* One matrix product, as the slot gemm is called for it: all but where its operands lie. */
struct gemm_layout {
    enum element element;
    int stride;
};
struct gemm_shape {
    int M, N, K;
    bool transpose_a, transpose_b, accumulate;
    struct gemm_layout out, a, b;
};

/* Who follows warming up, and where it keeps what it finds out. */
struct warm_watch {
    const char *folder; /* for choices that the next process should make again; NULL: they are not kept */
    void *context;
    bool (*progress)(void *context, int done, int total); /* matrix products; false asks to stop */
    void (*warning)(void *context, const char *sentence); /* something is odd, and warming goes on */
    /* device memory to try products on, 256-aligned; the caller of warm takes it back when that returns */
    enum status (*scratch)(void *context, size_t bytes, void **out, struct err *err);
};

/* Device-resident: what differs from step to step. Operations read it from there, so that work which was
 * recorded once (struct graph) is right for every step. */
struct step_control {
    uint64_t seed;              /* of dropout */
    uint32_t step, micro_batch; /* likewise */
    float loss_scale; /* of the loss whose gradients the step adds up: 1 / labels that count, in all of it */
    float lr;
    float rate, root; /* worked out by adamw_step, from lr and the updates so far */
};

/* Identifies one dropout mask; the mask is a pure function of the control's seed, step and micro_batch, of
 * layer and site, and of the element's index. */
struct dropout_site {
    const struct step_control *control; /* device memory */
    uint16_t layer;                     /* 0 for the embedding */
    uint16_t site;                      /* 0 embedding, 1 attention output projection, 2 down projection */
};

/* Device-resident result of grad_norm, read by the optimizers: no host round trip. */
struct clip_state {
    float norm;  /* L2 norm over all gradients */
    float scale; /* min(1, max_norm / (norm + 1e-6)); 1 when max_norm <= 0; 0 when the norm is not finite */
    int64_t updates; /* how often the scale was not 0, this time included: the t of AdamW's corrections */
};

/* How the optimizers update a stretch of the flat arena: elements from the end of the range before, or 0, up
 * to `end`. A sorted table of these lies in device memory; its last range ends at n. */
struct update_range {
    size_t end;
    float lr_scale;     /* times the step's learning rate; 0: nothing in the range is read or written */
    float weight_decay; /* decoupled, times the scaled learning rate */
};

struct adamw_params {
    double beta1, beta2; /* the corrections 1 - beta^t are computed in double, on the device */
    float eps;
};

struct lion_params {
    float beta1, beta2;
};

enum activity_kind { ACTIVITY_KERNEL, ACTIVITY_UPLOAD, ACTIVITY_DOWNLOAD, ACTIVITY_COPY, ACTIVITY_FILL };

/* Something that a device did, as its own tools saw it. */
struct activity {
    const char *name; /* of a kernel, as the source has it; "upload", "fill", …; borrowed for the call */
    enum activity_kind kind;
    int64_t start_ns; /* since activity_begin returned */
    int64_t duration_ns;
    int stream;    /* what has the same number ran one after the other */
    int64_t bytes; /* moved by a copy or fill; 0 for a kernel */
};

struct backend {
    const char *name; /* "cpu", "cuda" */
    bool queues;      /* a call returns before its work is done; false: each runs to its end */

    /* --- device and memory --- */
    enum status (*device_open)(int threads, struct device **out, struct err *err); /* threads 0: all cores */
    /* A device that has failed for good is left to the end of the process: closing it, and freeing and
     * closing what belongs to it, frees the host's memory and does not touch the device again. */
    void (*device_close)(struct device *device);
    void (*device_describe)(struct device *device, struct device_info *out);
    enum status (*mem_alloc)(struct device *device, size_t bytes, void **out,
                             struct err *err); /* 256-aligned */
    void (*mem_free)(struct device *device, void *memory);
    /* from the device's pool, 256-aligned: for work queued on the stream from here on; pool_free gives it
     * back after what is queued there. A stream NULL: for users that wait for the device */
    enum status (*pool_alloc)(struct device *device, size_t bytes, struct stream *stream, void **out,
                              struct err *err);
    void (*pool_free)(struct device *device, void *memory, size_t bytes, struct stream *stream);
    size_t (*pool_reserved)(struct device *device); /* bytes that the pool holds, in use or not */
    void (*pool_trim)(struct device *device);       /* gives back what is not in use */
    /* By how many bytes, or a multiple of them, the pool grows for a request that finds no room in it:
     * measured, where the device does not say, by asking for little and giving it back. 1: by what is asked
     * for */
    size_t (*pool_unit)(struct device *device);
    /* host memory that copies need not stage: page-locked on CUDA; 256-aligned */
    enum status (*host_alloc)(struct device *device, size_t bytes, void **out, struct err *err);
    void (*host_free)(struct device *device, void *memory);
    /* How often, ever and by any thread, the device has been asked for memory: by mem_alloc, pool_alloc,
     * host_alloc, and graph_open where a graph lies in it. */
    int64_t (*allocations)(struct device *device);
    void (*mem_zero)(void *memory, size_t bytes, struct stream *stream);
    /* ordinary host memory may be reused on return; that of host_alloc once the copy has happened */
    void (*mem_upload)(void *device_memory, const void *host, size_t bytes, struct stream *stream);
    void (*mem_download)(void *host, const void *device_memory, size_t bytes,
                         struct stream *stream); /* waits */
    /* into memory of host_alloc, which holds the bytes once the copy has happened; does not wait */
    void (*mem_download_async)(void *host, const void *device_memory, size_t bytes, struct stream *stream);
    void (*mem_copy)(void *to, const void *from, size_t bytes,
                     struct stream *stream); /* within the device; no overlap */

    /* --- streams --- */
    /* fails for a precision that the device does not compute in */
    enum status (*stream_open)(struct device *device, enum precision precision, struct stream **out,
                               struct err *err);
    void (*stream_close)(struct stream *stream);
    /* Until idle; reports the stream's first fault, after which nothing more was run on it. STATUS_DEVICE:
     * the device has failed and is lost to this process, with everything in its memory; or it cannot do what
     * was asked, so that the work is another device's. STATUS_NO_MEMORY: it had no memory left to launch
     * something; what was done before that stands, and another stream of the device may read it. */
    enum status (*stream_wait)(struct stream *stream, struct err *err);
    /* the same of what is known by now; does not wait */
    enum status (*stream_check)(struct stream *stream, struct err *err);

    /* what is queued from here on waits until the event, as last recorded, has happened */
    void (*stream_after)(struct stream *stream, struct event *event);

    /* --- events: how long the device worked between two marks --- */
    enum status (*event_open)(struct device *device, struct event **out, struct err *err);
    void (*event_close)(struct event *event);
    /* marks the work so far; an earlier mark of this event is forgotten */
    void (*event_record)(struct event *event, struct stream *stream);
    /* milliseconds from one mark to a later one of the same stream; waits for the later one. NaN where the
     * stream failed */
    double (*event_elapsed)(struct event *from, struct event *to);
    /* whether the device has come as far as the mark; does not wait. True also of a mark that was never made
     * and where the device failed: there is nothing to wait for */
    bool (*event_done)(struct event *event);
    /* Until the device has come to the mark, which was made on this stream. STATUS_OK: it has, whatever
     * became of later work; else the stream's fault, as stream_wait reports it. */
    enum status (*event_wait)(struct event *event, struct stream *stream, struct err *err);

    /* --- graphs: a stream's work recorded once and queued again as one piece --- */
    /* Calls `work`, which queues operations on the stream, and keeps what it queued without running it. It
     * may not wait, use ordinary host memory, or touch another stream. STATUS_FAILED: this cannot be
     * recorded; nothing ran and the stream is as before. */
    enum status (*graph_open)(struct stream *stream, void (*work)(void *context), void *context,
                              struct graph **out, struct err *err);
    void (*graph_run)(struct graph *graph, struct stream *stream); /* queues it; `context` must live on */
    void (*graph_close)(struct graph *graph);                      /* NULL is harmless */

    /* --- step control --- */
    void (*control_set)(struct step_control *out, struct step_control value, struct stream *stream);

    /* --- what the device did, for the trace of a step; one recording in a process at a time --- */
    /* Records from here on. STATUS_NOT_FOUND: this machine lacks what that takes, and the sentence names it.
     * A device whose calls run on the host records nothing and does not fail: there is no more to see. */
    enum status (*activity_begin)(struct device *device, struct err *err);
    /* After waiting for the streams: gives what was recorded to `each`, in no order, and frees it. Harmless
     * without activity_begin. Fails where something is missing; the rest has been given. */
    enum status (*activity_end)(struct device *device,
                                void (*each)(void *context, const struct activity *activity), void *context,
                                struct err *err);
    /* A named range on this thread, for the vendor's tools; nested. Nothing where none listens. */
    void (*range_push)(const char *name);
    void (*range_pop)(void);

    /* --- operations; see kernels/<operation>.h --- */
    /* embedding.h: out (N,C), tokens (N) int32, weight (V,C) */
    void (*embedding_forward)(void *out, const int32_t *tokens, const void *weight, int N, int C,
                              struct stream *stream);
    /* dweight (V,C) +=, dout (N,C); workspace: embedding_backward_workspace(N, V) bytes */
    void (*embedding_backward)(float *dweight, const void *dout, const int32_t *tokens, void *workspace,
                               int N, int V, int C, struct stream *stream);

    /* rmsnorm.h: out (N,C), rstd (N), x (N,C), weight (C) */
    void (*rmsnorm_forward)(void *out, float *rstd, const void *x, const void *weight, int N, int C,
                            float eps, struct stream *stream);
    /* sum (N,C) = x + delta; out = rmsnorm(sum). sum may alias x or delta */
    void (*rmsnorm_residual_forward)(void *sum, void *out, float *rstd, const void *x, const void *delta,
                                     const void *weight, int N, int C, float eps, struct stream *stream);
    /* out (N,C) again from the saved rstd: the backward pass recomputes instead of storing */
    void (*rmsnorm_recompute)(void *out, const void *x, const void *weight, const float *rstd, int N, int C,
                              struct stream *stream);
    /* dx (N,C) +=, dweight (C) +=, dout (N,C); workspace: rmsnorm_backward_workspace(N, C) bytes */
    void (*rmsnorm_backward)(void *dx, float *dweight, const void *dout, const void *x, const void *weight,
                             const float *rstd, void *workspace, int N, int C, struct stream *stream);

    /* rope.h: rotates the q and k heads of qkv (B,T,NH+2*NKV,HS) in place; cos_sin (T,HS/2,2) */
    void (*rope_forward)(void *qkv, const float *cos_sin, int B, int T, int NH, int NKV, int HS,
                         struct stream *stream);
    void (*rope_backward)(void *dqkv, const float *cos_sin, int B, int T, int NH, int NKV, int HS,
                          struct stream *stream);
    /* QK-norm and RoPE in one pass: out (B,T,NH+2*NKV,HS) from raw qkv of the same shape (v is copied),
     * rstd (N,NH+NKV), q_weight and k_weight (HS) */
    void (*qk_norm_rope_forward)(void *out, float *rstd, const void *qkv, const void *q_weight,
                                 const void *k_weight, const float *cos_sin, int B, int T, int NH, int NKV,
                                 int HS, float eps, struct stream *stream);
    /* dqkv in place: from the gradient of out to the gradient of raw qkv; dq_weight, dk_weight (HS) +=;
     * workspace: qk_norm_rope_backward_workspace(B*T, NH, NKV, HS) bytes */
    void (*qk_norm_rope_backward)(void *dqkv, float *dq_weight, float *dk_weight, const void *qkv,
                                  const float *rstd, const void *q_weight, const void *k_weight,
                                  const float *cos_sin, void *workspace, int B, int T, int NH, int NKV,
                                  int HS, struct stream *stream);

    /* attention.h: causal, scale 1/sqrt(HS); out (B,T,NH,HS), lse (B,NH,T), qkv (B,T,NH+2*NKV,HS);
     * workspace: attention_workspace(B, T, NH, NKV, HS) bytes, for both directions */
    void (*attention_forward)(void *out, float *lse, const void *qkv, void *workspace, int B, int T, int NH,
                              int NKV, int HS, struct stream *stream);
    /* dqkv (B,T,NH+2*NKV,HS) = */
    void (*attention_backward)(void *dqkv, const void *dout, const void *out, const float *lse,
                               const void *qkv, void *workspace, int B, int T, int NH, int NKV, int HS,
                               struct stream *stream);

    /* swiglu.h: out (N,F) = silu(gate) * up, gate_up (N,2*F): gate in columns [0,F), up in [F,2F) */
    void (*swiglu_forward)(void *out, const void *gate_up, int N, int F, struct stream *stream);
    /* dgate_up (N,2*F) = ; may alias gate_up */
    void (*swiglu_backward)(void *dgate_up, const void *dout, const void *gate_up, int N, int F,
                            struct stream *stream);

    /* gemm.h: out (M,N) = op(a) op(b), or, when accumulate, out (M,N) += op(a) op(b); op(a) is (M,K), op(b)
     * (K,N); stored are a (M,K) or, transposed, (K,M), and b (K,N) or, transposed, (N,K) */
    void (*gemm)(struct matrix out, struct matrix a, struct matrix b, int M, int N, int K, bool transpose_a,
                 bool transpose_b, bool accumulate, struct stream *stream);

    /* gemm.h: workspace that products want, and lending it to a stream; and warming up: loads code and
     * chooses algorithms for these products before the large allocations, reporting to watch */
    size_t (*gemm_workspace)(struct device *device);
    void (*gemm_lend)(struct stream *stream, void *workspace, size_t bytes);
    enum status (*warm)(struct stream *stream, const struct gemm_shape *shapes, int count,
                        const struct warm_watch *watch, struct err *err);

    /* bias.h: x (N,C) += bias (C); dbias (C) += column sums of dout (N,C);
     * workspace: bias_backward_workspace(N, C) bytes */
    void (*bias_forward)(void *x, const void *bias, int N, int C, struct stream *stream);
    void (*bias_backward)(float *dbias, const void *dout, void *workspace, int N, int C,
                          struct stream *stream);

    /* elementwise.h: x (n) += delta (n) */
    /* out (n) = x (n), rounded to the stream's precision; out may be x where that is fp32 */
    void (*cast)(void *out, const float *x, size_t n, struct stream *stream);
    void (*add)(void *x, const void *delta, size_t n, struct stream *stream);

    /* dropout.h: x (n) in place, inverted scaling; the same call on a gradient is the backward */
    void (*dropout)(void *x, size_t n, float probability, struct dropout_site site, struct stream *stream);

    /* cross_entropy.h: losses (N) = lse(logits) - logits[target], 0 where target is -100; logits (N,V),
     * targets (N) int32. The fused form then overwrites logits with the control's loss_scale *
     * (softmax - onehot), 0 rows where ignored. */
    void (*cross_entropy_forward)(float *losses, const void *logits, const int32_t *targets, int N, int V,
                                  struct stream *stream);
    void (*cross_entropy_fused)(float *losses, void *logits_dlogits, const int32_t *targets,
                                const struct step_control *control, int N, int V, struct stream *stream);

    /* reduce.h: out (1) = sum of x (n) in a fixed order, in fp64; or, when accumulate, out += it;
     * workspace: reduce_workspace(n) bytes */
    void (*sum)(double *out, const float *x, size_t n, bool accumulate, void *workspace,
                struct stream *stream);
    /* the norm over g (n) and the clipping scale; counts updates; see struct clip_state */
    void (*grad_norm)(struct clip_state *out, const float *g, size_t n, float max_norm, void *workspace,
                      struct stream *stream);

    /* adamw.h, lion.h: the flat arena in one launch; w (n) are the master weights, weights (n) what the
     * network computes with: w rounded to the stream's precision, or w itself; ranges (range_count) in device
     * memory say what decays and how the control's learning rate is scaled. A clip scale of 0 (non-finite
     * norm) leaves weights and moments untouched */
    void (*adamw_step)(float *w, void *weights, float *m, float *v, const float *g, size_t n,
                       const struct update_range *ranges, int range_count, struct adamw_params params,
                       struct step_control *control, const struct clip_state *clip, struct stream *stream);
    void (*lion_step)(float *w, void *weights, float *m, const float *g, size_t n,
                      const struct update_range *ranges, int range_count, struct lion_params params,
                      const struct step_control *control, const struct clip_state *clip,
                      struct stream *stream);
};

/* The CPU table, compiled for the best instruction set this processor has. Never fails. */
const struct backend *cpu_backend(void);

/* Workspace sizes in bytes, equal on every device: the planner asks before anything is allocated. */
size_t embedding_backward_workspace(int N, int V);
size_t rmsnorm_backward_workspace(int N, int C);
size_t qk_norm_rope_backward_workspace(int N, int NH, int NKV, int HS);
size_t attention_workspace(int B, int T, int NH, int NKV, int HS);
size_t bias_backward_workspace(int N, int C);
size_t reduce_workspace(size_t n);

#endif
