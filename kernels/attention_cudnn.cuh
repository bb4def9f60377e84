/* Attention in bf16 by NVIDIA's library cuDNN, for the shapes that a training has announced: where the
 * library is there, computes the shape in a fixed order, and is faster than our own kernels or asked for. */
#ifndef ANNEAL_KERNELS_ATTENTION_CUDNN_CUH
#define ANNEAL_KERNELS_ATTENTION_CUDNN_CUH

#include "kernels/cudnn_graph.cuh"
#include "kernels/warming.cuh"

/* The operands of an attention's graph; those on the host come last. */
enum attention_operand {
    ATTENTION_Q,
    ATTENTION_K,
    ATTENTION_V,
    ATTENTION_OUT,
    ATTENTION_LSE,
    ATTENTION_DOUT,
    ATTENTION_DQ,
    ATTENTION_DK,
    ATTENTION_DV,
    ATTENTION_PRODUCTS, /* dout · out of each row */
    ATTENTION_PARTIAL,  /* dq in fp32; with compute capability 9.0 */
    ATTENTION_SCALE,
    ATTENTION_LEAST, /* the score of what a row does not see */
    ATTENTION_ONE,
    ATTENTION_WINDOW,
    ATTENTION_OPERANDS
};

/* An attention that cuDNN has compiled. */
struct attention_compiled {
    struct attention_problem problem;
    struct graph_plan plan;
    int64_t ids[ATTENTION_OPERANDS]; /* 0: the graph does not have this operand */
    size_t workspace;                /* bytes of all scratch */
};

/* cuDNN, as one device uses it. */
enum { ATTENTION_COMPILED_MAX = 8 };
struct attention_library {
    struct cudnn cudnn;
    struct attention_compiled compiled[ATTENTION_COMPILED_MAX]; /* those that were chosen */
    int count;
};

/* STATUS_NOT_FOUND: cuDNN cannot compute it on a device of this compute capability, or not in a fixed order.
 */
enum status attention_compile(const struct cudnn *cudnn, int major, int minor,
                              const struct attention_problem *problem, struct attention_compiled *out,
                              struct err *err);

/* Opens the library for the device, once. STATUS_NOT_FOUND: cuDNN is missing. */
enum status attention_cudnn_open(struct device *device, struct err *err);
void attention_cudnn_close(struct device *device);

/* cuDNN's version if any attention is computed by it, else 0. */
int attention_cudnn_version(const struct device *device);

/* Bytes of scratch that a backward problem of this compute capability and version of cuDNN may need at most:
 * with dk and dv of each query head in fp32 where there are fewer key/value heads, and counters of tiles. */
size_t attention_workspace_bound(int major, int version, const struct attention_problem *problem);
/* The same for this device; 0 without cuDNN. */
size_t attention_cudnn_workspace(struct device *device, const struct attention_problem *problem);

/* Adds a compiled attention to those that the device uses; removes the last one, which stays compiled;
 * releases all. */
void attention_cudnn_take(struct device *device, const struct attention_compiled *compiled);
void attention_cudnn_return(struct device *device);
void attention_cudnn_release(struct device *device);

/* Computes the forward or backward pass, if this was chosen; false: our own kernels must. dq and dk are not
 * rotated back. */
bool attention_cudnn_forward(void *out, float *lse, const void *qkv, const struct attention_problem *problem,
                             struct stream *stream);
bool attention_cudnn_backward(void *dqkv, const void *dout, const void *out, const float *lse,
                              const void *qkv, const struct attention_problem *problem,
                              struct stream *stream);

#endif
