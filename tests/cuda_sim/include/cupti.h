/* Replaces NVIDIA's cupti.h for .cu files in the simulator: the part of the activity interface that the
 * product uses, with fewer fields per record. See tests/cuda_sim/cupti.cc. */
#ifndef ANNEAL_TESTS_CUDA_SIM_CUPTI_H
#define ANNEAL_TESTS_CUDA_SIM_CUPTI_H
#ifdef __cplusplus

#include <stddef.h>
#include <stdint.h>

#define CUPTIAPI

typedef enum {
    CUPTI_SUCCESS = 0,
    CUPTI_ERROR_INVALID_PARAMETER = 1,
    CUPTI_ERROR_MAX_LIMIT_REACHED = 12
} CUptiResult;

typedef enum {
    CUPTI_ACTIVITY_KIND_MEMCPY = 1,
    CUPTI_ACTIVITY_KIND_MEMSET = 2,
    CUPTI_ACTIVITY_KIND_KERNEL = 3,
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL = 10
} CUpti_ActivityKind;

enum {
    CUPTI_ACTIVITY_MEMCPY_KIND_HTOD = 1,
    CUPTI_ACTIVITY_MEMCPY_KIND_DTOH = 2,
    CUPTI_ACTIVITY_MEMCPY_KIND_DTOD = 8
};
enum { CUPTI_ACTIVITY_FLAG_FLUSH_FORCED = 1 };

typedef struct sim_context *CUcontext;

typedef struct {
    CUpti_ActivityKind kind;
} CUpti_Activity;

typedef struct {
    CUpti_ActivityKind kind;
    uint16_t registersPerThread;
    uint64_t start, end;
    uint32_t streamId;
    int32_t gridX, gridY, gridZ, blockX, blockY, blockZ, staticSharedMemory, dynamicSharedMemory;
    uint32_t localMemoryPerThread;
    const char *name;
} CUpti_ActivityKernel10;

typedef struct {
    CUpti_ActivityKind kind;
    uint8_t copyKind;
    uint64_t bytes, start, end;
    uint32_t streamId;
} CUpti_ActivityMemcpy6;

typedef struct {
    CUpti_ActivityKind kind;
    uint64_t bytes, start, end;
    uint32_t streamId;
} CUpti_ActivityMemset4;

typedef void(CUPTIAPI *CUpti_BuffersCallbackRequestFunc)(uint8_t **buffer, size_t *size,
                                                         size_t *maxNumRecords);
typedef void(CUPTIAPI *CUpti_BuffersCallbackCompleteFunc)(CUcontext context, uint32_t streamId,
                                                          uint8_t *buffer, size_t size, size_t validSize);

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc requested,
                                           CUpti_BuffersCallbackCompleteFunc completed);
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind);
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind);
CUptiResult cuptiActivityFlushAll(uint32_t flag);
CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t validSize, CUpti_Activity **record);
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t streamId, size_t *dropped);
CUptiResult cuptiGetTimestamp(uint64_t *timestamp);

namespace sim {
void *cupti_library(); /* NULL if the simulated machine has none */
}

#endif
#endif
