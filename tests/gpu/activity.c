/* See activity.h. */
#include "tests/gpu/activity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"

/* The device's clock is brought to the host's by CUPTI, to a few microseconds. */
enum { FLOATS = 1 << 16, CLOCKS_APART_NS = 100000 };

static void on_activity(void *context, const struct activity *a)
{
    struct activity_sight *sight = context;
    if (a->kind == ACTIVITY_KERNEL && sight->kernels++ == 0) {
        snprintf(sight->kernel, sizeof sight->kernel, "%s", a->name);
        sight->registers = a->launch.registers;
        sight->occupancy = a->occupancy.share;
    }
    sight->uploads += a->kind == ACTIVITY_UPLOAD;
    sight->downloads += a->kind == ACTIVITY_DOWNLOAD;
    sight->fills += a->kind == ACTIVITY_FILL;
    if (a->kind == ACTIVITY_UPLOAD) sight->upload_bytes += a->bytes;
    sight->seconds += (double)a->duration_ns * 1e-9;
    sight->in_time &= a->start_ns >= -CLOCKS_APART_NS &&
                      (double)(a->start_ns + a->duration_ns - CLOCKS_APART_NS) * 1e-9 <= sight->host_seconds;
}

/* Queues the work on fresh device memory at (2, FLOATS), `host` (FLOATS) zeros. */
static enum status record(const struct backend *be, struct device *device, struct stream *stream,
                          float *memory, float *host, struct activity_sight *out, struct err *err)
{
    enum status status = be->activity_begin(device, err);
    double start = clock_monotonic();
    if (status) return status;
    be->mem_upload(memory, host, FLOATS * sizeof *host, stream);
    be->mem_zero(memory + FLOATS, FLOATS * sizeof *host, stream);
    be->add(memory, memory + FLOATS, FLOATS, stream);
    be->mem_download(host, memory, FLOATS * sizeof *host, stream);
    status = be->stream_wait(stream, err);
    out->host_seconds = clock_monotonic() - start;
    enum status ended = be->activity_end(device, on_activity, out, status ? NULL : err);
    return status ? status : ended;
}

enum status activity_look(const struct backend *be, struct activity_sight *out, struct err *err)
{
    struct device *device = NULL;
    struct stream *stream = NULL;
    void *memory = NULL;
    float *host = calloc(FLOATS, sizeof *host);
    *out = (struct activity_sight){.in_time = true};
    enum status status = host ? be->device_open(DEVICE_FIRST, 0, &device, err)
                              : err_set(err, STATUS_NO_MEMORY, "no memory for a buffer");
    if (!status) status = be->stream_open(device, PRECISION_FP32, &stream, err);
    if (!status) status = be->mem_alloc(device, 2 * FLOATS * sizeof *host, &memory, err);
    if (!status) status = record(be, device, stream, memory, host, out, err);
    if (memory) be->mem_free(device, memory);
    if (stream) be->stream_close(stream);
    if (device) be->device_close(device);
    free(host);
    return status;
}
