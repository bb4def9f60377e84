/* The part of NVIDIA's library cuDNN that attention uses: its backend API, in which a computation is a graph
 * of descriptors. The declarations follow its documentation, so that building needs none of NVIDIA's headers;
 * a test compares them with cudnn.h if that is installed.
 * https://docs.nvidia.com/deeplearning/cudnn/ (backend API) */
#ifndef ANNEAL_KERNELS_DEVICE_CUDNN_H
#define ANNEAL_KERNELS_DEVICE_CUDNN_H

#include <stddef.h>
#include <stdint.h>

/* Constants: CONSTANT(ours, theirs, value) for each. */
#define DNN_CONSTANTS(CONSTANT)                                                                              \
    /* cudnnBackendDescriptorType_t */                                                                       \
    CONSTANT(DNN_POINTWISE, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, 0)                                           \
    CONSTANT(DNN_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 2)                                                 \
    CONSTANT(DNN_ENGINE_CONFIG, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, 3)                                       \
    CONSTANT(DNN_HEURISTICS, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, 4)                                         \
    CONSTANT(DNN_PLAN, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, 5)                                           \
    CONSTANT(DNN_KNOB_CHOICE, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, 7)                                       \
    CONSTANT(DNN_DO_POINTWISE, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, 13)                             \
    CONSTANT(DNN_GRAPH, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, 15)                                         \
    CONSTANT(DNN_VARIANT_PACK, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, 16)                                    \
    CONSTANT(DNN_TENSOR, CUDNN_BACKEND_TENSOR_DESCRIPTOR, 17)                                                \
    CONSTANT(DNN_MATMUL, CUDNN_BACKEND_MATMUL_DESCRIPTOR, 18)                                                \
    CONSTANT(DNN_DO_MATMUL, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, 19)                                   \
    CONSTANT(DNN_REDUCTION, CUDNN_BACKEND_REDUCTION_DESCRIPTOR, 21)                                          \
    CONSTANT(DNN_DO_REDUCTION, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, 22)                             \
    CONSTANT(DNN_DO_RESHAPE, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, 31)                                 \
    CONSTANT(DNN_DEVICE, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, 38)                                            \
    /* cudnnBackendAttributeName_t */                                                                        \
    CONSTANT(DNN_POINTWISE_MODE, CUDNN_ATTR_POINTWISE_MODE, 0)                                               \
    CONSTANT(DNN_POINTWISE_COMPUTE, CUDNN_ATTR_POINTWISE_MATH_PREC, 1)                                       \
    CONSTANT(DNN_POINTWISE_AXIS, CUDNN_ATTR_POINTWISE_AXIS, 9)                                               \
    CONSTANT(DNN_HEURISTICS_MODE, CUDNN_ATTR_ENGINEHEUR_MODE, 200)                                           \
    CONSTANT(DNN_HEURISTICS_GRAPH, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, 201)                               \
    CONSTANT(DNN_HEURISTICS_RESULTS, CUDNN_ATTR_ENGINEHEUR_RESULTS, 202)                                     \
    CONSTANT(DNN_HEURISTICS_DEVICE, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, 204)                                   \
    CONSTANT(DNN_CONFIG_ENGINE, CUDNN_ATTR_ENGINECFG_ENGINE, 300)                                            \
    CONSTANT(DNN_CONFIG_KNOBS, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, 302)                                       \
    CONSTANT(DNN_PLAN_HANDLE, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, 400)                                         \
    CONSTANT(DNN_PLAN_CONFIG, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 401)                                  \
    CONSTANT(DNN_PLAN_WORKSPACE, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 402)                              \
    CONSTANT(DNN_PLAN_DEVICE, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, 407)                                     \
    CONSTANT(DNN_KNOB_TYPE, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, 600)                                           \
    CONSTANT(DNN_KNOB_VALUE, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, 601)                                         \
    CONSTANT(DNN_DO_POINTWISE_KIND, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, 750)                       \
    CONSTANT(DNN_DO_POINTWISE_X, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, 751)                                  \
    CONSTANT(DNN_DO_POINTWISE_B, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, 752)                                  \
    CONSTANT(DNN_DO_POINTWISE_Y, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, 753)                                  \
    CONSTANT(DNN_DO_POINTWISE_T, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, 758)                                  \
    CONSTANT(DNN_GRAPH_HANDLE, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, 800)                                        \
    CONSTANT(DNN_GRAPH_OPERATIONS, CUDNN_ATTR_OPERATIONGRAPH_OPS, 801)                                       \
    CONSTANT(DNN_TENSOR_ALIGNMENT, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 900)                                    \
    CONSTANT(DNN_TENSOR_TYPE, CUDNN_ATTR_TENSOR_DATA_TYPE, 901)                                              \
    CONSTANT(DNN_TENSOR_EXTENTS, CUDNN_ATTR_TENSOR_DIMENSIONS, 902)                                          \
    CONSTANT(DNN_TENSOR_STRIDES, CUDNN_ATTR_TENSOR_STRIDES, 903)                                             \
    CONSTANT(DNN_TENSOR_ID, CUDNN_ATTR_TENSOR_UNIQUE_ID, 906)                                                \
    CONSTANT(DNN_TENSOR_VIRTUAL, CUDNN_ATTR_TENSOR_IS_VIRTUAL, 907)                                          \
    CONSTANT(DNN_TENSOR_BY_VALUE, CUDNN_ATTR_TENSOR_IS_BY_VALUE, 908)                                        \
    CONSTANT(DNN_PACK_IDS, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, 1000)                                         \
    CONSTANT(DNN_PACK_POINTERS, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, 1001)                                 \
    CONSTANT(DNN_PACK_WORKSPACE, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, 1003)                                    \
    CONSTANT(DNN_ENGINE_GRAPH, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, 1300)                                      \
    CONSTANT(DNN_ENGINE_INDEX, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 1301)                                         \
    CONSTANT(DNN_ENGINE_DEVICE, CUDNN_ATTR_ENGINE_DEVICEPROP, 1307)                                          \
    CONSTANT(DNN_MATMUL_COMPUTE, CUDNN_ATTR_MATMUL_COMP_TYPE, 1500)                                          \
    CONSTANT(DNN_DO_MATMUL_A, CUDNN_ATTR_OPERATION_MATMUL_ADESC, 1520)                                       \
    CONSTANT(DNN_DO_MATMUL_B, CUDNN_ATTR_OPERATION_MATMUL_BDESC, 1521)                                       \
    CONSTANT(DNN_DO_MATMUL_C, CUDNN_ATTR_OPERATION_MATMUL_CDESC, 1522)                                       \
    CONSTANT(DNN_DO_MATMUL_KIND, CUDNN_ATTR_OPERATION_MATMUL_DESC, 1523)                                     \
    CONSTANT(DNN_REDUCTION_OPERATOR, CUDNN_ATTR_REDUCTION_OPERATOR, 1600)                                    \
    CONSTANT(DNN_REDUCTION_COMPUTE, CUDNN_ATTR_REDUCTION_COMP_TYPE, 1601)                                    \
    CONSTANT(DNN_DO_REDUCTION_X, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, 1610)                                 \
    CONSTANT(DNN_DO_REDUCTION_Y, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, 1611)                                 \
    CONSTANT(DNN_DO_REDUCTION_KIND, CUDNN_ATTR_OPERATION_REDUCTION_DESC, 1612)                               \
    CONSTANT(DNN_DO_RESHAPE_X, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, 2200)                                     \
    CONSTANT(DNN_DO_RESHAPE_Y, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, 2201)                                     \
    CONSTANT(DNN_DEVICE_JSON, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, 2702)                               \
    /* cudnnBackendAttributeType_t: of what an attribute consists */                                         \
    CONSTANT(DNN_IS_HANDLE, CUDNN_TYPE_HANDLE, 0)                                                            \
    CONSTANT(DNN_IS_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1)                                                      \
    CONSTANT(DNN_IS_BOOLEAN, CUDNN_TYPE_BOOLEAN, 2)                                                          \
    CONSTANT(DNN_IS_INT64, CUDNN_TYPE_INT64, 3)                                                              \
    CONSTANT(DNN_IS_POINTER, CUDNN_TYPE_VOID_PTR, 6)                                                         \
    CONSTANT(DNN_IS_HEURISTICS_MODE, CUDNN_TYPE_HEUR_MODE, 8)                                                \
    CONSTANT(DNN_IS_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 9)                                                      \
    CONSTANT(DNN_IS_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 14)                                           \
    CONSTANT(DNN_IS_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR, 15)                                           \
    CONSTANT(DNN_IS_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 18)                              \
    CONSTANT(DNN_IS_CHAR, CUDNN_TYPE_CHAR, 24)                                                               \
    /* cudnnDataType_t */                                                                                    \
    CONSTANT(DNN_FP32, CUDNN_DATA_FLOAT, 0)                                                                  \
    CONSTANT(DNN_INT32, CUDNN_DATA_INT32, 4)                                                                 \
    CONSTANT(DNN_BF16, CUDNN_DATA_BFLOAT16, 9)                                                               \
    CONSTANT(DNN_BOOLEAN, CUDNN_DATA_BOOLEAN, 11)                                                            \
    /* cudnnPointwiseMode_t */                                                                               \
    CONSTANT(DNN_ADD, CUDNN_POINTWISE_ADD, 0)                                                                \
    CONSTANT(DNN_MUL, CUDNN_POINTWISE_MUL, 1)                                                                \
    CONSTANT(DNN_DIV, CUDNN_POINTWISE_DIV, 6)                                                                \
    CONSTANT(DNN_SUB, CUDNN_POINTWISE_SUB, 9)                                                                \
    CONSTANT(DNN_EXP, CUDNN_POINTWISE_EXP, 13)                                                               \
    CONSTANT(DNN_LOG, CUDNN_POINTWISE_LOG, 15)                                                               \
    CONSTANT(DNN_IDENTITY, CUDNN_POINTWISE_IDENTITY, 21)                                                     \
    CONSTANT(DNN_GREATER, CUDNN_POINTWISE_CMP_GT, 302)                                                       \
    CONSTANT(DNN_NOT_LESS, CUDNN_POINTWISE_CMP_GE, 303)                                                      \
    CONSTANT(DNN_INDEX, CUDNN_POINTWISE_GEN_INDEX, 501)                                                      \
    CONSTANT(DNN_SELECT, CUDNN_POINTWISE_BINARY_SELECT, 601)                                                 \
    /* cudnnReduceTensorOp_t, cudnnBackendHeurMode_t, cudnnBackendKnobType_t */                              \
    CONSTANT(DNN_REDUCE_ADD, CUDNN_REDUCE_TENSOR_ADD, 0)                                                     \
    CONSTANT(DNN_REDUCE_MAX, CUDNN_REDUCE_TENSOR_MAX, 3)                                                     \
    CONSTANT(DNN_HEURISTICS_A, CUDNN_HEUR_MODE_A, 3)                                                         \
    CONSTANT(DNN_KNOB_STAGES, CUDNN_KNOB_TYPE_STAGES, 14)                                                    \
    CONSTANT(DNN_KNOB_KERNEL, CUDNN_KNOB_TYPE_KERNEL_CFG, 24)                                                \
    CONSTANT(DNN_KNOB_CLUSTER_M, CUDNN_KNOB_TYPE_TILE_CGA_M, 27)                                             \
    CONSTANT(DNN_KNOB_STREAM_K, CUDNN_KNOB_TYPE_STREAM_K, 38)                                                \
    CONSTANT(DNN_KNOB_TILE_M, CUDNN_KNOB_TYPE_TILE_M, 40)                                                    \
    CONSTANT(DNN_KNOB_TILE_N, CUDNN_KNOB_TYPE_TILE_N, 41)                                                    \
    CONSTANT(DNN_SUCCESS, CUDNN_STATUS_SUCCESS, 0)

enum {
#define DNN_MEMBER(ours, theirs, value) ours = value,
    DNN_CONSTANTS(DNN_MEMBER)
#undef DNN_MEMBER
};

typedef struct cudnnContext *dnn_handle; /* cudnnHandle_t */
typedef void *dnn_descriptor;            /* cudnnBackendDescriptor_t */

/* Functions of the library: FUNCTION(name, arguments) for each; they return a cudnnStatus_t. `stream` is a
 * cudaStream_t; the other integers are the enumerations above. */
#define DNN_FUNCTIONS(FUNCTION)                                                                              \
    FUNCTION(cudnnCreate, (dnn_handle * out))                                                                \
    FUNCTION(cudnnDestroy, (dnn_handle handle))                                                              \
    FUNCTION(cudnnSetStream, (dnn_handle handle, void *stream))                                              \
    FUNCTION(cudnnBackendCreateDescriptor, (int type, dnn_descriptor *out))                                  \
    FUNCTION(cudnnBackendDestroyDescriptor, (dnn_descriptor descriptor))                                     \
    FUNCTION(cudnnBackendSetAttribute,                                                                       \
             (dnn_descriptor descriptor, int name, int type, int64_t count, const void *elements))           \
    FUNCTION(cudnnBackendGetAttribute, (dnn_descriptor const descriptor, int name, int type, int64_t room,   \
                                        int64_t *count, void *elements))                                     \
    FUNCTION(cudnnBackendFinalize, (dnn_descriptor descriptor))                                              \
    FUNCTION(cudnnBackendExecute, (dnn_handle handle, dnn_descriptor plan, dnn_descriptor variant_pack))

struct cudnn_functions {
#define DNN_MEMBER(name, arguments) int(*name) arguments;
    DNN_FUNCTIONS(DNN_MEMBER)
#undef DNN_MEMBER
    size_t (*cudnnGetVersion)(void); /* 91900 is 9.19.0 */
    const char *(*cudnnGetErrorString)(int code);
};

#endif
