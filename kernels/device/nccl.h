/* The part of NVIDIA's library NCCL that several ranks on GPUs use, for collectives between their GPUs. The
 * declarations follow its documentation, so that building needs none of NVIDIA's headers; a test compares
 * them with nccl.h if that is installed. https://docs.nvidia.com/deeplearning/nccl/ (API) */
#ifndef ANNEAL_KERNELS_DEVICE_NCCL_H
#define ANNEAL_KERNELS_DEVICE_NCCL_H

#include <stddef.h>

enum {
    NCCL_CODE_SUCCESS = 0, /* ncclResult_t */
    NCCL_CODE_IN_PROGRESS = 7,
    NCCL_TYPE_FP32 = 7, /* ncclDataType_t */
    NCCL_TYPE_FP64 = 8,
    NCCL_TYPE_BF16 = 9,
    NCCL_OP_SUM = 0, /* ncclRedOp_t */
};

typedef struct ncclComm *nccl_comm; /* ncclComm_t: the connections of a rank with all others */

struct nccl_id { /* ncclUniqueId: by which the ranks find each other */
    char bytes[128];
};

/* Functions of the library: FUNCTION(name, arguments) for each; all but one return an ncclResult_t. `stream`
 * is a cudaStream_t. */
#define NCCL_FUNCTIONS(FUNCTION)                                                                             \
    FUNCTION(ncclGetVersion, (int *version))                                                                 \
    FUNCTION(ncclGetUniqueId, (struct nccl_id * out))                                                        \
    FUNCTION(ncclCommInitRank, (nccl_comm * out, int ranks, struct nccl_id id, int rank))                    \
    FUNCTION(ncclCommDestroy, (nccl_comm comm))                                                              \
    FUNCTION(ncclCommAbort, (nccl_comm comm))                                                                \
    FUNCTION(ncclCommGetAsyncError, (nccl_comm comm, int *code))                                             \
    FUNCTION(ncclReduce, (const void *from, void *to, size_t count, int type, int op, int root,              \
                          nccl_comm comm, void *stream))                                                     \
    FUNCTION(ncclBroadcast,                                                                                  \
             (const void *from, void *to, size_t count, int type, int root, nccl_comm comm, void *stream))   \
    FUNCTION(ncclGroupStart, (void))                                                                         \
    FUNCTION(ncclGroupEnd, (void))

typedef const char *nccl_error_string(int code); /* ncclGetErrorString */

struct nccl_functions {
#define MEMBER(name, arguments) int(*name) arguments;
    NCCL_FUNCTIONS(MEMBER)
#undef MEMBER
    nccl_error_string *ncclGetErrorString;
};

#endif
