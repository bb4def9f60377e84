/* Device memory in the order of a stream, page-locked host memory, and events.
 *
 * The pool is the driver's own (cudaMallocAsync). It keeps what is freed until it is trimmed: giving memory back
 * to the system at every wait, its default, would cost a step more than the step. */
#include "kernels/cuda_device.cuh"

#include <math.h>
#include <stdlib.h>

enum status pool_open(struct device *device, struct err *err)
{
    uint64_t keep = UINT64_MAX;
    cudaError_t error = cudaDeviceGetDefaultMemPool(&device->pool, device->index);
    if (error == cudaSuccess)
        error = cudaMemPoolSetAttribute(device->pool, cudaMemPoolAttrReleaseThreshold, &keep);
    if (error == cudaSuccess) return STATUS_OK;
    return err_set(err, STATUS_FAILED, "cuda: the memory pool cannot be opened: %s", cudaGetErrorString(error));
}

enum status pool_alloc(struct device *device, size_t bytes, struct stream *stream, void **out, struct err *err)
{
    void *memory = NULL;
    cudaError_t error = cudaMallocFromPoolAsync(&memory, bytes > 0 ? bytes : 1, device->pool,
                                                stream != NULL ? stream->queue : NULL);
    if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError(); /* this one is not sticky: leave no trace of it for the next launch */
        return err_set(err, STATUS_NO_MEMORY, "cuda: the pool has no memory for %.1f MiB",
                       (double)bytes / 1048576);
    }
    if (error != cudaSuccess)
        return err_set(err, STATUS_FAILED, "cuda: cannot allocate: %s", cudaGetErrorString(error));
    if (stream == NULL) cudaStreamSynchronize(NULL); /* for whoever uses it without looking at the pool's stream */
    *out = memory;
    return STATUS_OK;
}

/* An error can only be that of an earlier launch, which stream_wait reports. */
void pool_free(struct device *device, void *memory, size_t bytes, struct stream *stream)
{
    (void)device;
    (void)bytes;
    cudaFreeAsync(memory, stream != NULL ? stream->queue : NULL);
}

size_t pool_reserved(struct device *device)
{
    uint64_t bytes = 0;
    if (cudaMemPoolGetAttribute(device->pool, cudaMemPoolAttrReservedMemCurrent, &bytes) != cudaSuccess) return 0;
    return (size_t)bytes;
}

void pool_trim(struct device *device)
{
    cudaDeviceSynchronize(); /* what was freed in a stream's order is free when the stream has come there */
    cudaMemPoolTrimTo(device->pool, 0);
}

enum status host_alloc(struct device *device, size_t bytes, void **out, struct err *err)
{
    void *memory = NULL;
    (void)device;
    cudaError_t error = cudaMallocHost(&memory, bytes > 0 ? bytes : 1);
    if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        return err_set(err, STATUS_NO_MEMORY, "cuda: no page-locked memory for %.1f MiB", (double)bytes / 1048576);
    }
    if (error != cudaSuccess)
        return err_set(err, STATUS_FAILED, "cuda: cannot allocate page-locked memory: %s",
                       cudaGetErrorString(error));
    *out = memory;
    return STATUS_OK;
}

void host_free(struct device *device, void *memory)
{
    (void)device;
    cudaFreeHost(memory);
}

/* ---- events ---- */

struct event {
    cudaEvent_t mark;
};

enum status event_open(struct device *device, struct event **out, struct err *err)
{
    (void)device;
    struct event *event = (struct event *)calloc(1, sizeof *event);
    if (event == NULL) return err_set(err, STATUS_NO_MEMORY, "cuda: no memory for an event's handle");
    cudaError_t error = cudaEventCreate(&event->mark);
    if (error != cudaSuccess) {
        free(event);
        return err_set(err, STATUS_FAILED, "cuda: cannot open an event: %s", cudaGetErrorString(error));
    }
    *out = event;
    return STATUS_OK;
}

void event_close(struct event *event)
{
    if (event == NULL) return;
    cudaEventDestroy(event->mark);
    free(event);
}

void event_record(struct event *event, struct stream *stream)
{
    if (stream->fault_at != NULL) return;
    cudaError_t error = cudaEventRecord(event->mark, stream->queue);
    if (error != cudaSuccess) stream_fault(stream, "an event", cudaGetErrorString(error));
}

double event_elapsed(struct event *from, struct event *to)
{
    float milliseconds = 0;
    cudaError_t error = cudaEventSynchronize(to->mark);
    if (error == cudaSuccess) error = cudaEventElapsedTime(&milliseconds, from->mark, to->mark);
    /* a mark that was never made is no fault of the device: leave no trace of it for the next launch */
    if (error != cudaSuccess) cudaGetLastError();
    return error == cudaSuccess ? (double)milliseconds : (double)NAN;
}

void stream_after(struct stream *stream, struct event *event)
{
    if (stream->fault_at != NULL) return;
    cudaError_t error = cudaStreamWaitEvent(stream->queue, event->mark, 0);
    if (error != cudaSuccess) stream_fault(stream, "waiting for an event", cudaGetErrorString(error));
}
