/* Checks for gpu-check that the device's own tools report the queued work; traces depend on this. */
#ifndef ANNEAL_TESTS_GPU_ACTIVITY_H
#define ANNEAL_TESTS_GPU_ACTIVITY_H

#include "kernels/device/backend.h"

/* The reported activity of an upload, a kernel, a fill and a download. */
struct activity_sight {
    int kernels, uploads, downloads, fills;
    int64_t upload_bytes; /* of all uploads; 256 KiB were queued */
    double seconds;       /* of all work, on the device's clock */
    double host_seconds;  /* from activity_begin to the end of the wait, on the host's */
    bool in_time;         /* every piece lies between these two */
    char kernel[160];     /* the kernel's name */
    int registers;        /* of a thread of it */
    double occupancy;     /* of a multiprocessor, in theory */
};

/* STATUS_NOT_FOUND: this machine lacks a library for it; the message names it. */
enum status activity_look(const struct backend *backend, struct activity_sight *out, struct err *err);

#endif
