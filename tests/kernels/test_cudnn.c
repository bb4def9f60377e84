/* Compares the declarations of kernels/device/cudnn.h with NVIDIA's cudnn.h, if that is installed. */
#include "kernels/device/cudnn.h"
#include "tests/cmocka.h"

#if __has_include(<cudnn.h>) && __has_include(<cuda_runtime.h>)
#include <cudnn.h>
#define HAVE_HEADER 1
#endif

/* _Static_assert names the line, and fails before anything runs. */
TEST_CASE(what_is_declared_is_what_nvidias_header_says)
{
    assert_int_equal(sizeof(dnn_descriptor), sizeof(void *));
#ifdef HAVE_HEADER
#define SAME(ours, theirs, value) _Static_assert((int)(ours) == (int)(theirs), #ours " is not " #theirs);
    DNN_CONSTANTS(SAME)
    _Static_assert(sizeof(int) == sizeof(cudnnStatus_t), "a status is an int");
    _Static_assert(sizeof(int) == sizeof(cudnnDataType_t), "a word is an int");
    _Static_assert(_Generic((dnn_handle)0, cudnnHandle_t : 1), "a handle is a pointer to the same struct");
    _Static_assert(_Generic((dnn_descriptor)0, cudnnBackendDescriptor_t : 1), "a descriptor is a pointer");
#define TAKES(name, ...)                                                                                     \
    _Static_assert(_Generic(&name, cudnnStatus_t(*)(__VA_ARGS__) : 1, default : 0), #name)
    TAKES(cudnnCreate, cudnnHandle_t *);
    TAKES(cudnnDestroy, cudnnHandle_t);
    TAKES(cudnnSetStream, cudnnHandle_t, cudaStream_t);
    TAKES(cudnnBackendCreateDescriptor, cudnnBackendDescriptorType_t, cudnnBackendDescriptor_t *);
    TAKES(cudnnBackendDestroyDescriptor, cudnnBackendDescriptor_t);
    TAKES(cudnnBackendSetAttribute, cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
          cudnnBackendAttributeType_t, int64_t, const void *);
    TAKES(cudnnBackendGetAttribute, cudnnBackendDescriptor_t const, cudnnBackendAttributeName_t,
          cudnnBackendAttributeType_t, int64_t, int64_t *, void *);
    TAKES(cudnnBackendFinalize, cudnnBackendDescriptor_t);
    TAKES(cudnnBackendExecute, cudnnHandle_t, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t);
    _Static_assert(_Generic(&cudnnGetVersion, size_t(*)(void) : 1, default : 0), "cudnnGetVersion");
    _Static_assert(_Generic(&cudnnGetErrorString, const char *(*)(cudnnStatus_t) : 1, default : 0),
                   "cudnnGetErrorString");
#endif
}

TEST_MAIN()
