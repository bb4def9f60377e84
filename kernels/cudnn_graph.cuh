/* A computation as NVIDIA's library cuDNN takes it: a graph of operations on tensors of four dimensions,
 * which the library compiles for a device, where it can into one kernel. The library is part of neither the
 * driver nor the Toolkit, so it is loaded at run time, and only if it is asked for.
 *
 * A graph is described by calls in their order, of which the first that fails is remembered: graph_compile
 * reports it. */
#ifndef ANNEAL_KERNELS_CUDNN_GRAPH_CUH
#define ANNEAL_KERNELS_CUDNN_GRAPH_CUH

#include "kernels/device/cuda_device.cuh"

extern "C" {
#include "kernels/device/cudnn.h"
}

/* The library, for one device. */
struct cudnn {
    struct cudnn_functions call;
    int version;           /* 91900 is 9.19.0 */
    dnn_handle handle;     /* of the current device; NULL: there is none, and nothing can run */
    dnn_descriptor absent; /* then the description of the device to compile for */
};

/* Loads the library, without a device. STATUS_NOT_FOUND: it is missing or too old, and what to do. */
enum status cudnn_load(struct cudnn *out, struct err *err);
enum status cudnn_find(struct err *err); /* cuda_plugin's find_cudnn */
/* Adds the current device. */
enum status cudnn_connect(struct cudnn *cudnn, struct err *err);
/* Adds instead a device that need not be there, as the library's JSON describes it. */
enum status cudnn_imagine(struct cudnn *cudnn, const char *json, struct err *err);
void cudnn_close(struct cudnn *cudnn); /* the library stays in memory */

/* A tensor of a graph. `id` identifies it when the graph runs: 0 for one that only exists between operations.
 */
struct graph_tensor {
    dnn_descriptor at;
    int64_t id, extents[4], strides[4];
    int type; /* DNN_FP32, … */
};

enum { GRAPH_DESCRIPTORS_MAX = 192, GRAPH_OPERATIONS_MAX = 40, GRAPH_OPERANDS_MAX = 16 };

struct graph {
    const struct cudnn *cudnn;
    dnn_descriptor descriptors[GRAPH_DESCRIPTORS_MAX], operations[GRAPH_OPERATIONS_MAX];
    int descriptor_count, operation_count;
    int64_t tensors;     /* so far */
    int code;            /* of the first call that failed */
    const char *failure; /* that call; NULL: none */
};

/* In memory, at an address that is a multiple of 16; strides in elements. */
struct graph_tensor graph_memory(struct graph *g, int type, const int64_t extents[4],
                                 const int64_t strides[4]);
/* One element, which is on the host when the graph runs. */
struct graph_tensor graph_scalar(struct graph *g, int type);

/* Operations. The result is `to`, or if that is NULL a new tensor of this type between operations. A
 * dimension of extent 1 is repeated. */
struct graph_tensor graph_pointwise(struct graph *g, int mode, const struct graph_tensor &x,
                                    const struct graph_tensor *y = NULL, int type = DNN_FP32,
                                    const struct graph_tensor *to = NULL);
struct graph_tensor graph_index(struct graph *g, const struct graph_tensor &like, int64_t axis); /* int32 */
/* x where `where` is true, else y */
struct graph_tensor graph_select(struct graph *g, const struct graph_tensor &where,
                                 const struct graph_tensor &x, const struct graph_tensor &y);
/* a (b,h,M,K) times b (b,h',K,N); h is a multiple of h' */
struct graph_tensor graph_matmul(struct graph *g, const struct graph_tensor &a, const struct graph_tensor &b,
                                 int type = DNN_FP32, const struct graph_tensor *to = NULL);
/* Over the dimensions in which `to` is shorter than x; NULL: over the last one. */
struct graph_tensor graph_reduce(struct graph *g, int op, const struct graph_tensor &x,
                                 const struct graph_tensor *to = NULL);
/* x with its last two dimensions exchanged */
struct graph_tensor graph_transpose(struct graph *g, const struct graph_tensor &x, int type);

/* One of the library's ways to compute a graph, and settings of it, as pairs of kind and value. */
struct graph_engine {
    int64_t number, knobs[6][2];
    int knob_count;
};

/* A compiled graph. */
struct graph_plan {
    dnn_descriptor plan; /* NULL: none */
    int64_t workspace;   /* bytes of scratch */
};

/* Compiles with this engine, or with NULL with the first that the library recommends and can compile.
 * STATUS_NOT_FOUND: it cannot compute this graph on this device. Releases the graph. */
enum status graph_compile(struct graph *g, const struct graph_engine *engine, struct graph_plan *out,
                          struct err *err);
void graph_plan_release(const struct cudnn *cudnn, struct graph_plan *plan);

/* Runs the plan on the stream: operand i has the address `at[i]`, on the device, or on the host for a scalar.
 * Allocates nothing on the device. Returns the library's code. */
int graph_plan_run(const struct cudnn *cudnn, const struct graph_plan *plan, const int64_t *ids,
                   void *const *at, int count, void *workspace, struct stream *stream);

#endif
