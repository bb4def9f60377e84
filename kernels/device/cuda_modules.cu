/* Loads the code of all our kernels. The CUDA runtime would load each one at its first launch, which takes
 * time and device memory in the middle of the first step. CUDA_MODULE_LOADING=EAGER would load cuBLASLt's
 * hundreds of megabytes, too. So one known kernel of each file leads to its module, the module lists its
 * functions, and each is loaded; cuBLASLt's kernels are loaded by running the products.
 *
 * If a driver lacks the functions for this (CUDA 12.4), only the first step is slower. */
#include "kernels/device/cuda_device.cuh"

#ifdef ANNEAL_CUDA_SIM

void modules_load()
{
    /* the simulator's kernels are functions of this program */
}

#else

#include <cuda.h>
#include <stdlib.h>

/* The section's bounds, which the linker defines. */
extern const void *__start_anneal_modules[] __attribute__((visibility("hidden")));
extern const void *__stop_anneal_modules[] __attribute__((visibility("hidden")));

struct driver {
    decltype(&cuFuncGetModule) get_module;
    decltype(&cuModuleGetFunctionCount) count;
    decltype(&cuModuleEnumerateFunctions) enumerate;
    decltype(&cuFuncLoad) load;
};

template <typename F> static bool find(const char *name, unsigned version, F *out)
{
    void *at = NULL;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    cudaError_t error = cudaGetDriverEntryPointByVersion(name, &at, version, cudaEnableDefault, &result);
    *out = reinterpret_cast<F>(at);
    return error == cudaSuccess && result == cudaDriverEntryPointSuccess && at != NULL;
}

static void load_module(const struct driver *driver, const void *kernel)
{
    cudaFunction_t function;
    CUmodule module;
    unsigned count = 0;
    if (cudaGetFuncBySymbol(&function, kernel) != cudaSuccess) return;
    if (driver->get_module(&module, function) != CUDA_SUCCESS) return;
    if (driver->count(&count, module) != CUDA_SUCCESS || count == 0) return;
    CUfunction *functions = (CUfunction *)calloc(count, sizeof *functions);
    if (functions != NULL && driver->enumerate(functions, count, module) == CUDA_SUCCESS)
        for (unsigned i = 0; i < count; i++) driver->load(functions[i]);
    free(functions);
}

void modules_load()
{
    struct driver driver;
    bool found = find("cuFuncGetModule", 11000, &driver.get_module) &&
                 find("cuModuleGetFunctionCount", 12040, &driver.count) &&
                 find("cuModuleEnumerateFunctions", 12040, &driver.enumerate) &&
                 find("cuFuncLoad", 12040, &driver.load);
    for (const void **at = __start_anneal_modules; found && at < __stop_anneal_modules; at++)
        load_module(&driver, *at);
    cudaGetLastError(); /* clears errors from above, so that the first launch does not report them */
}

#endif
