/* Compares the declarations of kernels/device/nccl.h with NVIDIA's nccl.h, if that is installed. */
#include "kernels/device/nccl.h"
#include "tests/cmocka.h"

#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>)
#include <nccl.h>
#define HAVE_HEADER 1
#endif

/* _Static_assert names the line, and fails before anything runs. */
TEST_CASE(what_is_declared_is_what_nvidias_header_says)
{
    assert_int_equal(sizeof(struct nccl_id), 128);
#ifdef HAVE_HEADER
#define SAME(ours, theirs) _Static_assert((ours) == (theirs), #ours " is not " #theirs)
    SAME((int)NCCL_CODE_SUCCESS, (int)ncclSuccess);
    SAME((int)NCCL_CODE_IN_PROGRESS, (int)ncclInProgress);
    SAME((int)NCCL_TYPE_FP32, (int)ncclFloat32);
    SAME((int)NCCL_TYPE_FP64, (int)ncclFloat64);
    SAME((int)NCCL_TYPE_BF16, (int)ncclBfloat16);
    SAME((int)NCCL_OP_SUM, (int)ncclSum);
    SAME(sizeof(struct nccl_id), sizeof(ncclUniqueId));
    SAME(_Alignof(struct nccl_id), _Alignof(ncclUniqueId));
    SAME(sizeof(int), sizeof(ncclResult_t));
    SAME(sizeof(int), sizeof(ncclDataType_t));
    SAME(sizeof(int), sizeof(ncclRedOp_t));
    _Static_assert(_Generic((nccl_comm)0, ncclComm_t : 1), "a communicator is a pointer to the same struct");
#define TAKES(name, ...) _Static_assert(_Generic(&name, ncclResult_t(*)(__VA_ARGS__) : 1, default : 0), #name)
    TAKES(ncclGetVersion, int *);
    TAKES(ncclGetUniqueId, ncclUniqueId *);
    TAKES(ncclCommInitRank, ncclComm_t *, int, ncclUniqueId, int);
    TAKES(ncclCommDestroy, ncclComm_t);
    TAKES(ncclCommAbort, ncclComm_t);
    TAKES(ncclCommGetAsyncError, ncclComm_t, ncclResult_t *);
    TAKES(ncclReduce, const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t,
          cudaStream_t);
    TAKES(ncclBroadcast, const void *, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
    TAKES(ncclGroupStart, void);
    TAKES(ncclGroupEnd, void);
    _Static_assert(_Generic(&ncclGetErrorString, const char *(*)(ncclResult_t) : 1, default : 0),
                   "ncclGetErrorString");
#endif
}

TEST_MAIN()
