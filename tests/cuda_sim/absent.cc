/* See absent.h. */
#include "tests/cuda_sim/absent.h"

#include <stdio.h>

#include "kernels/attention_cudnn.cuh"

/* The names are cuDNN's. What is not known of a GPU is that of an H100. */
static void describe(int major, int minor, char *json, size_t size)
{
    int version = 100 * major + 10 * minor, shared = version == 800              ? 166912
                                                     : major == 9 || major == 10 ? 232448
                                                                                 : 101376;
    snprintf(
        json, size,
        "{\"cudaDeviceId\":0,\"deviceName\":\"absent\",\"deviceVer\":%d,\"driverVer\":13000,\"isTccDriver\":"
        "0,"
        "\"l2CacheSize\":52428800,\"maxCtasPerSM\":32,\"maxRegistersPerSM\":65536,"
        "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":%d,\"maxThreadsPerBlock\":1024,"
        "\"maxThreadsPerSM\":2048,\"memClockRateKHz\":2619000,\"multiProcessorCount\":132,"
        "\"pciDeviceId\":0,\"regsPerBlock\":65536,\"reservedSharedMemoryPerBlock\":1024,"
        "\"smClockRateKHz\":1980000,\"supportCoopLaunch\":1,\"totalGlobalMem\":80000000000,"
        "\"warpSize\":32,\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64]}",
        version, shared);
}

enum status absent_compile(int major, int minor, const struct attention_problem *problem, int *version,
                           size_t *workspace, struct err *err)
{
    struct cudnn cudnn;
    struct attention_compiled compiled = {};
    char json[1024];
    describe(major, minor, json, sizeof json);
    enum status status = cudnn_load(&cudnn, err);
    *version = cudnn.version;
    if (status) return status;
    status = cudnn_imagine(&cudnn, json, err);
    if (!status) status = attention_compile(&cudnn, major, minor, problem, &compiled, err);
    *workspace = compiled.workspace;
    graph_plan_release(&cudnn, &compiled.plan);
    cudnn_close(&cudnn);
    return status;
}

size_t absent_workspace(int major, int version, const struct attention_problem *problem)
{
    return attention_workspace_bound(major, version, problem);
}
