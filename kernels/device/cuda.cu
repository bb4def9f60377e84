/* The CUDA table, and its device, copies and streams. Built into anneal_cuda.so, whose one symbol is
 * `cuda_plugin`; see cuda_plugin.h for how it is found.
 *
 * A stream keeps its first fault: nothing runs on it afterwards, downloads fill with NaN, and stream_wait
 * reports what failed where. CUDA's errors are sticky: after one, every later call of the process fails or,
 * on a GPU that is gone, may hang. The device is then `lost`: nothing of it is waited for, freed or
 * destroyed; the end of the process does that. There are two exceptions, which do not run and leave CUDA
 * working: a launch that found no memory (a kernel's code is loaded at its first use) and a product that
 * cuBLASLt rejects. */
#include "kernels/attention_cudnn.cuh"

extern "C" {
#include "kernels/device/chip.h"
#include "kernels/device/cuda_plugin.h"
}

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The oldest supported compute capability, and the newest that nvcc.flags compile code for: the driver
 * compiles that of later ones itself. */
enum { OLDEST_MAJOR = 8, COMPILED_MAJOR = 9 };

/* ---- finding devices ---- */

/* The first NVIDIA driver for a major version of CUDA, from the table in CUDA's release notes; drivers
 * support all minor versions of theirs. */
static int first_driver(int runtime)
{
    return runtime >= 13000 ? 580 : 525;
}

static enum status inspect(struct cuda_driver_report *out, struct err *err)
{
    memset(out, 0, sizeof *out);
    cudaRuntimeGetVersion(&out->runtime);
    if (cudaDriverGetVersion(&out->driver) != cudaSuccess) out->driver = 0;
    if (out->driver == 0)
        return err_set(err, STATUS_FAILED, "no NVIDIA driver is loaded (install version %d or newer)",
                       first_driver(out->runtime));
    cudaError_t error = cudaGetDeviceCount(&out->devices);
    if (error == cudaErrorInsufficientDriver)
        return err_set(
            err, STATUS_FAILED,
            "the NVIDIA driver supports CUDA up to %d.%d, this build needs %d.0 (install driver %d "
            "or newer)",
            out->driver / 1000, out->driver % 1000 / 10, out->runtime / 1000, first_driver(out->runtime));
    if (error == cudaErrorNoDevice || (error == cudaSuccess && out->devices == 0))
        return err_set(err, STATUS_FAILED,
                       "the NVIDIA driver shows no GPU (look at CUDA_VISIBLE_DEVICES and nvidia-smi)");
    if (error != cudaSuccess)
        return err_set(err, STATUS_FAILED, "the NVIDIA driver does not answer: %s",
                       cudaGetErrorString(error));
    return STATUS_OK;
}

static bool peaks(const cudaDeviceProp *properties, int index, double out[PRECISIONS])
{
    int kilohertz = 0;
    if (cudaDeviceGetAttribute(&kilohertz, cudaDevAttrClockRate, index) != cudaSuccess) kilohertz = 0;
    struct chip chip = {properties->name, properties->major, properties->minor,
                        properties->multiProcessorCount, kilohertz * 1e3};
    return chip_peaks(&chip, out) == CHIP_PUBLISHED;
}

/* In the format of NVIDIA's own tools: GPU-8-4-4-4-12 hexadecimal digits. */
static void write_uuid(const cudaDeviceProp *properties, char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, "GPU");
    for (int i = 0; i < 16; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%02x",
                                 i == 0 || (i >= 4 && i <= 10 && i % 2 == 0) ? "-" : "",
                                 (unsigned char)properties->uuid.bytes[i]);
}

/* Makes this the current device; gets its free memory, or the error if it does not answer. */
static cudaError_t free_memory(int index, int64_t *out)
{
    size_t free_bytes = 0, total = 0;
    cudaError_t error = cudaSetDevice(index);
    if (error == cudaSuccess) error = cudaMemGetInfo(&free_bytes, &total);
    if (error != cudaSuccess) cudaGetLastError(); /* clears the error, so that no later launch reports it */
    *out = error == cudaSuccess ? (int64_t)free_bytes : 0;
    return error;
}

static enum status inspect_device(int index, struct cuda_device_report *out, struct err *err)
{
    cudaDeviceProp properties;
    struct device_info *info = &out->info;
    int watched = 0; /* a device with a screen limits the run time of kernels */
    int driver = 0, runtime = 0;
    memset(out, 0, sizeof *out);
    cudaError_t error = cudaGetDeviceProperties(&properties, index);
    if (error != cudaSuccess)
        return err_set(err, STATUS_FAILED, "GPU %d: cannot read its properties: %s", index,
                       cudaGetErrorString(error));
    snprintf(info->name, sizeof info->name, "%.90s", properties.name);
    snprintf(info->short_name, sizeof info->short_name, "cuda:%d", index);
    write_uuid(&properties, info->uuid, sizeof info->uuid);
    info->total_bytes = (int64_t)properties.totalGlobalMem;
    info->best = PRECISION_BF16; /* the tensor cores of every supported device have it */
    info->max_head_dim = HEAD_MAX;
    info->has_display =
        cudaDeviceGetAttribute(&watched, cudaDevAttrKernelExecTimeout, index) == cudaSuccess && watched;
    out->major = properties.major;
    out->minor = properties.minor;
    out->peak_published = peaks(&properties, index, info->peak_flops);
    if (properties.major < OLDEST_MAJOR) {
        snprintf(out->why_not, sizeof out->why_not,
                 "%.100s has compute capability %d.%d, this build has code for %d.0 and newer",
                 properties.name, properties.major, properties.minor, OLDEST_MAJOR);
        return STATUS_OK;
    }
    cudaRuntimeGetVersion(&runtime);
    if (properties.major > COMPILED_MAJOR && cudaDriverGetVersion(&driver) == cudaSuccess &&
        driver < runtime) {
        snprintf(
            out->why_not, sizeof out->why_not,
            "the code for %.60s is compiled by the NVIDIA driver, which supports CUDA up to %d.%d and needs "
            "%d.%d (update the driver)",
            properties.name, driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
        return STATUS_OK;
    }
    error = free_memory(index, &info->available_bytes);
    if (error != cudaSuccess)
        snprintf(out->why_not, sizeof out->why_not, "%.100s cannot be opened: %.60s", properties.name,
                 cudaGetErrorString(error));
    return STATUS_OK;
}

/* If no device can be used, the error gives the first one's reason. */
static enum status find_device(int *index, struct cuda_device_report *out, struct err *err)
{
    struct cuda_driver_report driver;
    struct err why, first = {};
    enum status status = inspect(&driver, err);
    if (status) return status;
    if (*index >= driver.devices)
        return err_set(err, STATUS_USAGE, "there is no GPU %d (the driver shows %d, counted from 0)", *index,
                       driver.devices);
    int i = *index < 0 ? 0 : *index, count = *index < 0 ? driver.devices : 1;
    for (int tried = 0; tried < count; tried++, i++) {
        status = inspect_device(i, out, &why);
        if (!status && out->why_not[0] != '\0') status = err_set(&why, STATUS_FAILED, "%s", out->why_not);
        if (!status) {
            *index = i;
            return STATUS_OK;
        }
        if (tried == 0) first = why;
    }
    if (count == 1) return err_set(err, STATUS_FAILED, "%s", first.text);
    return err_set(err, STATUS_FAILED, "none of the %d GPUs can be used; the first: %s", count, first.text);
}

/* ---- device ---- */

void device_close(struct device *device)
{
    if (device == NULL) return;
    peers_close(device);
    attention_cudnn_close(device);
    gemm_cache_close(device);
    if (device->blas != NULL && !device->lost) cublasLtDestroy(device->blas);
    free(device);
}

enum status device_open(int index, int, struct device **out, struct err *err)
{
    struct cuda_device_report report;
    enum status status = find_device(&index, &report, err);
    if (status) {
        err_prefix(err, "cuda");
        return status;
    }
    struct device *device = (struct device *)calloc(1, sizeof *device);
    if (device == NULL) return err_no_memory(err, "the device's handle");
    device->index = index;
    device->info = report.info;
    cudaError_t error = cudaGetDeviceProperties(&device->properties, index);
    if (error == cudaSuccess) error = free_memory(index, &device->info.available_bytes);
    if (error != cudaSuccess)
        status = err_set(err, STATUS_FAILED, "cuda: %s cannot be opened: %s", report.info.name,
                         cudaGetErrorString(error));
    if (!status) {
        cublasStatus_t blas = cublasLtCreate(&device->blas);
        if (blas != CUBLAS_STATUS_SUCCESS)
            status = err_set(err, STATUS_FAILED, "cuda: cuBLASLt cannot be opened: %s",
                             cublasLtGetStatusString(blas));
    }
    if (!status) status = gemm_cache_open(device, err);
    if (!status) status = pool_open(device, err);
    if (status) {
        device_close(device);
        return status;
    }
    *out = device;
    return STATUS_OK;
}

/* A library's version, such as 92600, as "9.26.0". */
static void add_library(char *buf, size_t size, const char *name, size_t version)
{
    size_t length = strlen(buf);
    snprintf(buf + length, size - length, ", %s %zu.%zu.%zu", name, version / 10000, version / 100 % 100,
             version % 100);
}

/* Products round as cuBLASLt does, and as the algorithms do that are the fastest on this kind of GPU. Its
 * name comes last, because a long one is cut off. */
static void describe_computing(const struct device *device, char *buf, size_t size)
{
    int cudnn = attention_cudnn_version(device);
    snprintf(buf, size, "CUDA");
    add_library(buf, size, "cuBLASLt", cublasLtGetVersion());
    if (cudnn > 0) add_library(buf, size, "cuDNN", (size_t)cudnn);
    size_t length = strlen(buf);
    snprintf(buf + length, size - length, ", %s", device->info.name);
}

void device_describe(struct device *device, struct device_info *out)
{
    if (!device->lost)
        free_memory(device->index, &device->info.available_bytes); /* changes with other processes */
    *out = device->info;
    describe_computing(device, out->computes, sizeof out->computes);
}

/* ---- memory ---- */

void mem_zero(void *memory, size_t bytes, struct stream *stream)
{
    if (bytes == 0 || !stream_usable(stream)) return;
    stream_called(stream, "a kernel, or zeroing memory after it,",
                  cudaMemsetAsync(memory, 0, bytes, stream->queue));
}

/* Neither page-locked nor device memory. */
static bool is_ordinary(const void *host)
{
    cudaPointerAttributes attributes;
    if (cudaPointerGetAttributes(&attributes, host) == cudaSuccess)
        return attributes.type == cudaMemoryTypeUnregistered;
    cudaGetLastError();
    return true;
}

static void copy(struct stream *stream, const char *at, void *to, const void *from, size_t bytes,
                 cudaMemcpyKind kind)
{
    if (bytes == 0 || !stream_usable(stream)) return;
    stream_called(stream, at, cudaMemcpyAsync(to, from, bytes, kind, stream->queue));
}

/* Ordinary memory is staged before the call returns, so the caller may reuse it at once; but a device that
 * can read such memory directly need not stage it, so then the copy is waited for. Page-locked memory is read
 * later, without the host. */
void mem_upload(void *device_memory, const void *host, size_t bytes, struct stream *stream)
{
    const char *at = "a kernel, or the upload after it,";
    copy(stream, at, device_memory, host, bytes, cudaMemcpyHostToDevice);
    if (bytes > 0 && stream->device->properties.pageableMemoryAccess && stream_usable(stream) &&
        is_ordinary(host))
        stream_called(stream, at, cudaStreamSynchronize(stream->queue));
}

void mem_download(void *host, const void *device_memory, size_t bytes, struct stream *stream)
{
    mem_download_async(host, device_memory, bytes, stream);
    if (bytes > 0 && stream_usable(stream))
        stream_called(stream, "a kernel", cudaStreamSynchronize(stream->queue));
    if (bytes > 0 && stream->fault_at != NULL)
        memset(host, 0xff, bytes); /* NaN: nothing looks like a result */
}

void mem_download_async(void *host, const void *device_memory, size_t bytes, struct stream *stream)
{
    copy(stream, "a kernel, or the download after it,", host, device_memory, bytes, cudaMemcpyDeviceToHost);
}

void mem_copy(void *to, const void *from, size_t bytes, struct stream *stream)
{
    copy(stream, "a copy", to, from, bytes, cudaMemcpyDeviceToDevice);
}

/* ---- streams ---- */

void stream_decline(struct stream *stream, const char *at, const char *why, bool full)
{
    if (stream->fault_at != NULL) return;
    stream->fault_at = at;
    stream->full = full;
    snprintf(stream->fault, sizeof stream->fault, "%s", why);
    peers_failed(stream->device, at, why);
}

void stream_fault(struct stream *stream, const char *at, const char *why)
{
    if (stream->fault_at != NULL) return;
    stream_decline(stream, at, why, false);
    stream->device->lost = true;
    if (stream->device->why[0] == '\0') snprintf(stream->device->why, sizeof stream->device->why, "%s", why);
}

/* The device's error, if it has failed. A library has a CUDA runtime of its own, so cudaGetLastError does not
 * see what failed there. A device that failed answers every later call with that error. */
static cudaError_t device_error(struct stream *stream)
{
    size_t free_bytes, total;
    cudaError_t error = cudaStreamSynchronize(stream->queue);
    if (error == cudaErrorStreamCaptureUnsupported) return cudaSuccess; /* graph_open asks the device later */
    return error == cudaSuccess ? cudaMemGetInfo(&free_bytes, &total) : error;
}

void stream_library_failed(struct stream *stream, const char *at, const char *why, bool refused, bool full)
{
    cudaError_t error = cudaGetLastError(); /* clears the error, so that no later launch reports it */
    full = full || error == cudaErrorMemoryAllocation;
    error = refused || full ? cudaSuccess : device_error(stream);
    if (error == cudaSuccess)
        stream_decline(stream, at, why, full);
    else
        stream_fault(stream, at, cudaGetErrorString(error));
}

void stream_refused(struct stream *stream, const char *at, cudaError_t error)
{
    if (stream->fault_at != NULL) return;
    if (error != cudaErrorMemoryAllocation) {
        stream_fault(stream, at, cudaGetErrorString(error));
        return;
    }
    cudaGetLastError(); /* reported below: no later launch should report it */
    stream_decline(stream, at, cudaGetErrorString(error), true);
}

void stream_close(struct stream *stream)
{
    if (stream == NULL) return;
    /* running work reads memory that is freed next; after a fault the device is not called again */
    if (stream->queue != NULL && !stream->device->lost && cudaStreamSynchronize(stream->queue) != cudaSuccess)
        stream->device->lost = true;
    if (stream->queue != NULL && !stream->device->lost) cudaStreamDestroy(stream->queue);
    free(stream);
}

enum status stream_open(struct device *device, enum precision precision, struct stream **out, struct err *err)
{
    if (device->lost) return device_lost(device, err);
    struct stream *stream = (struct stream *)calloc(1, sizeof *stream);
    if (stream == NULL) return err_no_memory(err, "a stream's handle");
    stream->device = device;
    stream->precision = precision;
    cudaError_t error = cudaStreamCreateWithFlags(&stream->queue, cudaStreamNonBlocking);
    if (error != cudaSuccess) {
        free(stream);
        return device_refused(device, "cannot open a stream", error, err);
    }
    *out = stream;
    return STATUS_OK;
}

enum status stream_beside(struct device *device, enum precision precision, struct stream **out,
                          struct err *err)
{
    return stream_open(device, precision, out, err);
}

void stream_forget(struct stream *stream)
{
    stream->fault_at = NULL;
    stream->full = false;
    stream->device->lost = false;
    stream->device->why[0] = '\0';
    peers_forget(stream->device);
}

enum status stream_wait(struct stream *stream, struct err *err)
{
    if (stream_usable(stream)) stream_called(stream, "a kernel", cudaStreamSynchronize(stream->queue));
    return stream_check(stream, err);
}

enum status stream_check(struct stream *stream, struct err *err)
{
    if (stream_usable(stream)) return STATUS_OK;
    peers_await_end(stream->device);
    return err_set(err, stream->full ? STATUS_NO_MEMORY : STATUS_DEVICE, "cuda: %s failed: %s",
                   stream->fault_at, stream->fault);
}

const struct backend cuda_table = {.name = "cuda",
                                   .queues = true,
#define SLOT(name) .name = name,
                                   BACKEND_SLOTS(SLOT)
#undef SLOT
#define OPERATION(name, ...) .name = name,
#include "kernels/operations.def"
};

extern "C" __attribute__((visibility("default"))) const struct cuda_plugin cuda_plugin;

const struct cuda_plugin cuda_plugin = {
    .plugin_bytes = sizeof(struct cuda_plugin),
    .backend_bytes = sizeof(struct backend),
    .table = &cuda_table,
    .inspect = inspect,
    .inspect_device = inspect_device,
    .find_device = find_device,
    .find_cupti = activity_find,
    .find_nccl = peers_find,
    .find_cudnn = cudnn_find,
};
