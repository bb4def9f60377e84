/* Allocates and counts all device memory and all page-locked host memory; and events.
 *
 * The pool is the driver's own (cudaMallocAsync). It keeps freed memory until it is trimmed; its default
 * would return memory to the system at every wait, and request it again.
 *
 * A lost device is not called any more: the driver frees its memory when the process ends. */
#include "kernels/device/cuda_device.cuh"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum status device_refused(struct device *device, const char *what, cudaError_t error, struct err *err)
{
    if (error == cudaErrorMemoryAllocation)
        cudaGetLastError(); /* this one is not sticky: leave no trace of it for the next launch */
    else
        device->lost = true;
    return err_set(err, error == cudaErrorMemoryAllocation ? STATUS_NO_MEMORY : STATUS_DEVICE, "cuda: %s: %s",
                   what, cudaGetErrorString(error));
}

enum status device_lost(const struct device *device, struct err *err)
{
    return err_set(err, STATUS_DEVICE, "cuda: %s has failed", device->properties.name);
}

void allocations_count(struct device *device)
{
    __atomic_fetch_add(&device->allocations, 1, __ATOMIC_RELAXED);
}

int64_t allocations(struct device *device)
{
    return __atomic_load_n(&device->allocations, __ATOMIC_RELAXED);
}

enum status mem_alloc(struct device *device, size_t bytes, void **out, struct err *err)
{
    void *memory = NULL;
    size_t free_bytes = 0, total = 0;
    if (device->lost) return device_lost(device, err);
    allocations_count(device);
    cudaError_t error = cudaMalloc(&memory, bytes > 0 ? bytes : 1);
    if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError(); /* this one is not sticky: leave no trace of it for the next launch */
        if (cudaMemGetInfo(&free_bytes, &total) != cudaSuccess) free_bytes = 0;
        return err_set(err, STATUS_NO_MEMORY,
                       "cuda: no memory for %.1f MiB, %.1f MiB of %.1f MiB are free (use a smaller model or "
                       "batch, or end other programs on %s)",
                       (double)bytes / 1048576, (double)free_bytes / 1048576, (double)total / 1048576,
                       device->properties.name);
    }
    if (error != cudaSuccess) return device_refused(device, "cannot allocate", error, err);
    *out = memory;
    return STATUS_OK;
}

void mem_free(struct device *device, void *memory)
{
    if (!device->lost && cudaFree(memory) != cudaSuccess)
        device->lost = true; /* the error of an earlier launch */
}

enum status pool_open(struct device *device, struct err *err)
{
    uint64_t keep = UINT64_MAX;
    cudaError_t error = cudaDeviceGetDefaultMemPool(&device->pool, device->index);
    if (error == cudaSuccess)
        error = cudaMemPoolSetAttribute(device->pool, cudaMemPoolAttrReleaseThreshold, &keep);
    if (error == cudaSuccess) return STATUS_OK;
    if (error == cudaErrorNotSupported) { /* some virtual GPUs have no pool; everything else works */
        cudaGetLastError();
        device->pool = NULL;
        return STATUS_OK;
    }
    return device_refused(device, "the memory pool cannot be opened", error, err);
}

enum status pool_alloc(struct device *device, size_t bytes, struct stream *stream, void **out,
                       struct err *err)
{
    void *memory = NULL;
    if (device->lost) return device_lost(device, err);
    if (device->pool == NULL)
        return err_set(err, STATUS_USAGE, "cuda: %s has no memory pool (set memory.allocator to arena)",
                       device->properties.name);
    allocations_count(device);
    cudaError_t error = cudaMallocFromPoolAsync(&memory, bytes > 0 ? bytes : 1, device->pool,
                                                stream != NULL ? stream->queue : NULL);
    /* without a stream the memory must be usable at once, by any stream */
    if (error == cudaSuccess && stream == NULL) error = cudaStreamSynchronize(NULL);
    if (error != cudaSuccess) return device_refused(device, "the pool has no memory", error, err);
    *out = memory;
    return STATUS_OK;
}

void pool_free(struct device *device, void *memory, size_t bytes, struct stream *stream)
{
    (void)bytes;
    if (!device->lost && cudaFreeAsync(memory, stream != NULL ? stream->queue : NULL) != cudaSuccess)
        device->lost = true; /* the error of an earlier launch */
}

size_t pool_reserved(struct device *device)
{
    uint64_t bytes = 0;
    if (device->lost || device->pool == NULL) return 0;
    if (cudaMemPoolGetAttribute(device->pool, cudaMemPoolAttrReservedMemCurrent, &bytes) != cudaSuccess)
        return 0;
    return (size_t)bytes;
}

void pool_trim(struct device *device)
{
    if (device->lost || device->pool == NULL) return;
    /* memory freed in stream order is free only when the stream gets there */
    if (cudaDeviceSynchronize() != cudaSuccess || cudaMemPoolTrimTo(device->pool, 0) != cudaSuccess)
        device->lost = true;
}

/* The memory that an empty pool holds after allocating this many bytes; 0: it could not. */
static size_t pool_held_for(struct device *device, size_t bytes)
{
    void *memory = NULL;
    size_t held = 0;
    pool_trim(device);
    if (pool_reserved(device) > 0 || pool_alloc(device, bytes, NULL, &memory, NULL)) return 0;
    held = pool_reserved(device);
    pool_free(device, memory, bytes, NULL);
    pool_trim(device);
    return held;
}

/* How a pool grows is not documented and differs between drivers, so it is measured: for one byte, and for
 * one byte more than the pool then has. If that fails, as on a full device, the result is the largest unit
 * known. */
size_t pool_unit(struct device *device)
{
    const size_t unseen = (size_t)32 << 20;
    size_t first = pool_held_for(device, 1), second = first > 0 ? pool_held_for(device, first + 1) : 0;
    if (first == 0 || second <= first) return unseen;
    return second - first > first ? second - first : first;
}

enum status host_alloc(struct device *device, size_t bytes, void **out, struct err *err)
{
    void *memory = NULL;
    if (device->lost) return device_lost(device, err);
    allocations_count(device);
    cudaError_t error = cudaMallocHost(&memory, bytes > 0 ? bytes : 1);
    if (error != cudaSuccess) return device_refused(device, "no page-locked memory", error, err);
    *out = memory;
    return STATUS_OK;
}

void host_free(struct device *device, void *memory)
{
    if (!device->lost && cudaFreeHost(memory) != cudaSuccess) device->lost = true;
}

/* ---- events ---- */

struct event {
    struct device *device;
    cudaEvent_t mark;
};

enum status event_open(struct device *device, struct event **out, struct err *err)
{
    if (device->lost) return device_lost(device, err);
    struct event *event = (struct event *)calloc(1, sizeof *event);
    if (event == NULL) return err_no_memory(err, "an event's handle");
    cudaError_t error = cudaEventCreate(&event->mark);
    if (error != cudaSuccess) {
        free(event);
        return device_refused(device, "cannot open an event", error, err);
    }
    event->device = device;
    *out = event;
    return STATUS_OK;
}

void event_close(struct event *event)
{
    if (event == NULL) return;
    if (!event->device->lost) cudaEventDestroy(event->mark);
    free(event);
}

void event_record(struct event *event, struct stream *stream)
{
    if (stream_usable(stream))
        stream_called(stream, "a kernel, or the event after it,",
                      cudaEventRecord(event->mark, stream->queue));
}

double event_elapsed(struct event *from, struct event *to)
{
    float milliseconds = 0;
    struct device *device = to->device;
    if (!device->lost && cudaEventSynchronize(to->mark) != cudaSuccess) device->lost = true;
    if (device->lost) return (double)NAN; /* the stream reports why */
    cudaError_t error = cudaEventElapsedTime(&milliseconds, from->mark, to->mark);
    /* a mark that was never made is no fault of the device: leave no trace of it for the next launch */
    if (error != cudaSuccess) cudaGetLastError();
    return error == cudaSuccess ? (double)milliseconds : (double)NAN;
}

bool event_done(struct event *event)
{
    if (event->device->lost) return true;
    cudaError_t error = cudaEventQuery(event->mark);
    if (error == cudaSuccess) return true;
    if (error != cudaErrorNotReady) {
        event->device->lost = true;
        snprintf(event->device->why, sizeof event->device->why, "%s", cudaGetErrorString(error));
    } else {
        cudaGetLastError(); /* no fault: leave no trace of it for the next launch */
    }
    return error != cudaErrorNotReady;
}

enum status event_wait(struct event *event, struct stream *stream, struct err *err)
{
    if (!event->device->lost) {
        cudaError_t error = cudaEventSynchronize(event->mark);
        if (error == cudaSuccess) return STATUS_OK;
        stream_fault(stream, "a kernel", cudaGetErrorString(error));
        event->device->lost = true; /* also if the stream has a lesser fault already */
    }
    return stream_check(stream, err);
}

void stream_after(struct stream *stream, struct event *event)
{
    if (stream_usable(stream))
        stream_called(stream, "a kernel, or the wait after it,",
                      cudaStreamWaitEvent(stream->queue, event->mark, 0));
}
