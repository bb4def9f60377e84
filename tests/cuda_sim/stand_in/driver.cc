/* Stands in for NVIDIA's driver: libcuda.so.1 for a machine without a GPU, which takes any compiled kernel
 * and does nothing else. With it cuDNN compiles for GPUs that are not there. The arguments are those of
 * NVIDIA's driver API, as far as they are used; the codes are of CUresult. */
#include <stddef.h>

#define EXPORTED extern "C" __attribute__((visibility("default")))

enum { SUCCESS = 0, NO_DEVICE = 100 };

EXPORTED int cuLibraryLoadData(const void **library, const void *code)
{
    *library = code;
    return SUCCESS;
}

EXPORTED int cuLibraryGetKernel(const void **kernel, const void *library, const char *)
{
    *kernel = library;
    return SUCCESS;
}

EXPORTED int cuDriverGetVersion(int *version)
{
    *version = 13000;
    return SUCCESS;
}

EXPORTED int cuGetErrorString(int code, const char **out)
{
    *out = code == SUCCESS ? "no error" : "no CUDA-capable device is detected";
    return SUCCESS;
}

EXPORTED int cuGetErrorName(int code, const char **out)
{
    return cuGetErrorString(code, out);
}

#define SUCCEEDS(name)                                                                                       \
    EXPORTED int name()                                                                                      \
    {                                                                                                        \
        return SUCCESS;                                                                                      \
    }
#define FAILS(name)                                                                                          \
    EXPORTED int name()                                                                                      \
    {                                                                                                        \
        return NO_DEVICE;                                                                                    \
    }
/* clang-format off */
SUCCEEDS(cuKernelGetAttribute) SUCCEEDS(cuKernelSetAttribute) SUCCEEDS(cuLibraryUnload)
FAILS(cuCtxGetCurrent) FAILS(cuCtxGetDevice) FAILS(cuCtxGetLimit) FAILS(cuCtxPopCurrent)
FAILS(cuCtxPushCurrent) FAILS(cuDeviceGet) FAILS(cuDeviceGetAttribute) FAILS(cuDeviceGetCount)
FAILS(cuDevicePrimaryCtxRelease) FAILS(cuDevicePrimaryCtxReset) FAILS(cuDevicePrimaryCtxRetain)
FAILS(cuFuncGetAttribute) FAILS(cuFuncSetAttribute) FAILS(cuGetExportTable) FAILS(cuGetProcAddress)
FAILS(cuGetProcAddress_v2) FAILS(cuInit) FAILS(cuLaunchCooperativeKernel) FAILS(cuLaunchKernel)
FAILS(cuLaunchKernelEx) FAILS(cuLibraryLoadFromFile) FAILS(cuLinkAddData) FAILS(cuLinkAddData_v2)
FAILS(cuLinkAddFile_v2) FAILS(cuLinkComplete) FAILS(cuLinkCreate) FAILS(cuLinkCreate_v2)
FAILS(cuLinkDestroy) FAILS(cuMemcpyDtoH_v2) FAILS(cuModuleGetFunction) FAILS(cuModuleGetGlobal_v2)
FAILS(cuModuleLoadData) FAILS(cuModuleLoadDataEx) FAILS(cuModuleLoadFatBinary) FAILS(cuModuleUnload)
FAILS(cuOccupancyMaxActiveBlocksPerMultiprocessor) FAILS(cuOccupancyMaxPotentialClusterSize)
FAILS(cuStreamGetCtx) FAILS(cuStreamSynchronize) FAILS(cuTensorMapEncodeTiled)
    /* clang-format on */
