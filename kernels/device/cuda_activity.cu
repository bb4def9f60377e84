/* Records the device's work: every kernel and copy, through CUPTI's activity interface; and ranges for
 * NVIDIA's Nsight tools, through NVTX, a header that does nothing unless a tool is attached.
 *
 * CUPTI is part of the CUDA Toolkit, not of the driver, so it is loaded at run time: without it training
 * works, and a trace reports what is missing. Its callbacks for buffers carry no pointer of ours and may come
 * from any thread: hence the one static variable. https://docs.nvidia.com/cupti/ (Activity API) */
#include "kernels/device/cuda_device.cuh"

extern "C" {
#include "kernels/device/occupancy.h"
}

#include <cupti.h>
#include <cxxabi.h>
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A kernel's record takes some 200 bytes; a step of a large model launches a few thousand. */
enum { BUFFER_BYTES = 1 << 20, BUFFERS_MAX = 256, NAME_MAX_BYTES = 4096 };

#define CUPTI_FUNCTIONS(FUNCTION)                                                                            \
    FUNCTION(cuptiActivityRegisterCallbacks)                                                                 \
    FUNCTION(cuptiActivityEnable)                                                                            \
    FUNCTION(cuptiActivityDisable)                                                                           \
    FUNCTION(cuptiActivityFlushAll)                                                                          \
    FUNCTION(cuptiActivityGetNextRecord)                                                                     \
    FUNCTION(cuptiActivityGetNumDroppedRecords)                                                              \
    FUNCTION(cuptiGetTimestamp)

struct api {
    bool found;
#define MEMBER(name) decltype(&::name) name;
    CUPTI_FUNCTIONS(MEMBER)
#undef MEMBER
};

struct buffer {
    uint8_t *at;
    size_t valid; /* bytes of records */
};

static struct recording {
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for the buffers */
    struct api api;
    struct device *device;              /* the recorded device; NULL: not recording */
    uint64_t start;                     /* CUPTI's nanoseconds */
    struct buffer buffers[BUFFERS_MAX]; /* returned full */
    int count;
    bool overflow;
} recording;

static const CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                           CUPTI_ACTIVITY_KIND_MEMSET};

/* ---- finding CUPTI ---- */

#ifdef ANNEAL_CUDA_SIM
static void *open_library()
{
    return sim::cupti_library();
}
#define FIND(name) api->name = ::name;
#else
/* Looks for the library of this build's major version in the loader's and the plugin's search paths, and in
 * the folders of the Toolkit. */
static void *open_library()
{
    static const char *const forms[] = {"libcupti.so.%d", "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.%d",
                                        "/usr/local/cuda/lib64/libcupti.so.%d"};
    void *library = NULL;
    for (size_t i = 0; library == NULL && i < sizeof forms / sizeof *forms; i++) {
        char name[96];
        snprintf(name, sizeof name, forms[i], CUDART_VERSION / 1000);
        library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    return library;
}
#define FIND(name)                                                                                           \
    api->name = reinterpret_cast<decltype(&::name)>(dlsym(library, #name));                                  \
    api->found = api->found && api->name != NULL;
#endif

/* The library stays open: it cannot be unloaded safely from a running process. */
static bool load(struct api *api)
{
    if (api->found) return true;
    void *library = open_library();
    if (library == NULL) return false;
    api->found = true;
    CUPTI_FUNCTIONS(FIND)
    return api->found;
}

/* ---- buffers ---- */

/* Without a buffer CUPTI drops records, and counts them. */
static void CUPTIAPI on_buffer_wanted(uint8_t **buffer, size_t *bytes, size_t *records)
{
    *buffer = (uint8_t *)aligned_alloc(8, BUFFER_BYTES);
    *bytes = *buffer != NULL ? BUFFER_BYTES : 0;
    *records = 0; /* as many as fit */
}

static void CUPTIAPI on_buffer_full(CUcontext, uint32_t, uint8_t *buffer, size_t, size_t valid)
{
    pthread_mutex_lock(&recording.lock);
    bool keep = recording.device != NULL && valid > 0 && recording.count < BUFFERS_MAX;
    if (recording.device != NULL && valid > 0 && !keep) recording.overflow = true;
    if (keep) recording.buffers[recording.count++] = {buffer, valid};
    pthread_mutex_unlock(&recording.lock);
    if (!keep) free(buffer);
}

static void stop()
{
    for (CUpti_ActivityKind kind : kinds) recording.api.cuptiActivityDisable(kind);
}

static void release_buffers()
{
    pthread_mutex_lock(&recording.lock);
    for (int i = 0; i < recording.count; i++) free(recording.buffers[i].at);
    recording.count = 0;
    recording.device = NULL;
    recording.overflow = false;
    pthread_mutex_unlock(&recording.lock);
}

enum status activity_find(struct err *err)
{
    if (load(&recording.api)) return STATUS_OK;
    return err_set(err, STATUS_NOT_FOUND,
                   "libcupti.so.%d not found (install CUPTI of the CUDA Toolkit, or name its folder in "
                   "LD_LIBRARY_PATH)",
                   CUDART_VERSION / 1000);
}

enum status activity_begin(struct device *device, struct err *err)
{
    CUptiResult result = CUPTI_SUCCESS;
    if (recording.device != NULL)
        return err_set(err, STATUS_FAILED, "cuda: another trace is being taken in this process");
    if (activity_find(err)) return err_prefix(err, "cuda: no kernels in the trace");
    recording.device = device;
    result = recording.api.cuptiActivityRegisterCallbacks(on_buffer_wanted, on_buffer_full);
    for (CUpti_ActivityKind kind : kinds)
        if (result == CUPTI_SUCCESS) result = recording.api.cuptiActivityEnable(kind);
    if (result == CUPTI_SUCCESS) result = recording.api.cuptiGetTimestamp(&recording.start);
    if (result == CUPTI_SUCCESS) return STATUS_OK;
    stop();
    release_buffers();
    return err_set(err, STATUS_FAILED,
                   "cuda: no kernels in the trace: CUPTI refuses with error %d (another profiler may be "
                   "attached, or the driver reserves it: see NVIDIA's ERR_NVGPUCTRPERM)",
                   (int)result);
}

/* ---- records ---- */

/* A kernel's name as in the source; a name that is not a C++ name is unchanged. */
static const char *readable(const char *name, char buf[NAME_MAX_BYTES])
{
    int status = 0;
    char *whole = name != NULL ? abi::__cxa_demangle(name, NULL, NULL, &status) : NULL;
    snprintf(buf, NAME_MAX_BYTES, "%s", whole != NULL ? whole : name != NULL ? name : "a kernel");
    free(whole);
    return buf;
}

static void read_launch(const CUpti_ActivityKernel10 *kernel, const cudaDeviceProp *p, struct activity *out)
{
    struct multiprocessor each = {p->maxThreadsPerMultiProcessor, p->maxBlocksPerMultiProcessor,
                                  p->regsPerMultiprocessor, (int)p->sharedMemPerMultiprocessor,
                                  (int)p->reservedSharedMemPerBlock};
    out->launch = {{kernel->gridX, kernel->gridY, kernel->gridZ},
                   {kernel->blockX, kernel->blockY, kernel->blockZ},
                   kernel->registersPerThread,
                   kernel->staticSharedMemory,
                   kernel->dynamicSharedMemory,
                   (int)kernel->localMemoryPerThread};
    occupancy_compute(&out->launch, &each, p->multiProcessorCount, &out->occupancy);
}

/* False for a record of any other kind. */
static bool read_record(const CUpti_Activity *record, char name[NAME_MAX_BYTES], struct activity *out)
{
    uint64_t start, end;
    switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
        const CUpti_ActivityKernel10 *kernel = (const CUpti_ActivityKernel10 *)record;
        *out = {readable(kernel->name, name), ACTIVITY_KERNEL, 0, 0, (int)kernel->streamId, 0, {}, {}};
        read_launch(kernel, &recording.device->properties, out);
        start = kernel->start, end = kernel->end;
        break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
        const CUpti_ActivityMemcpy6 *copy = (const CUpti_ActivityMemcpy6 *)record;
        bool up = copy->copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD,
             down = copy->copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH;
        enum activity_kind kind = up ? ACTIVITY_UPLOAD : down ? ACTIVITY_DOWNLOAD : ACTIVITY_COPY;
        const char *what = up ? "upload" : down ? "download" : "copy";
        *out = {what, kind, 0, 0, (int)copy->streamId, (int64_t)copy->bytes, {}, {}};
        start = copy->start, end = copy->end;
        break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
        const CUpti_ActivityMemset4 *fill = (const CUpti_ActivityMemset4 *)record;
        *out = {"fill", ACTIVITY_FILL, 0, 0, (int)fill->streamId, (int64_t)fill->bytes, {}, {}};
        start = fill->start, end = fill->end;
        break;
    }
    default:
        return false;
    }
    out->start_ns = (int64_t)(start - recording.start);
    out->duration_ns = (int64_t)(end - start);
    return end >= start && start != 0; /* 0: CUPTI has no time for it */
}

enum status activity_end(struct device *device, void (*each)(void *context, const struct activity *activity),
                         void *context, struct err *err)
{
    size_t dropped = 0;
    char name[NAME_MAX_BYTES];
    if (recording.device != device) return STATUS_OK;
    if (device->lost) { /* flushing would wait for it */
        release_buffers();
        return device_lost(device, err);
    }
    CUptiResult result = recording.api.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    stop();
    if (recording.api.cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped) != CUPTI_SUCCESS) dropped = 0;
    for (int i = 0; i < recording.count; i++) {
        struct buffer *buffer = &recording.buffers[i];
        CUpti_Activity *record = NULL;
        struct activity activity;
        while (recording.api.cuptiActivityGetNextRecord(buffer->at, buffer->valid, &record) == CUPTI_SUCCESS)
            if (read_record(record, name, &activity)) each(context, &activity);
    }
    bool lost = recording.overflow || dropped > 0;
    release_buffers();
    if (result != CUPTI_SUCCESS)
        return err_set(err, STATUS_FAILED, "cuda: the trace lacks kernels: CUPTI failed with error %d",
                       (int)result);
    if (lost)
        return err_set(err, STATUS_NO_MEMORY,
                       "cuda: the trace lacks kernels: not enough memory for CUPTI's records");
    return STATUS_OK;
}

/* ---- ranges ---- */

void range_push(const char *name)
{
    nvtxRangePushA(name);
}

void range_pop()
{
    nvtxRangePop();
}
