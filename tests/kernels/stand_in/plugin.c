/* Stands in for the CUDA plugin on a machine without NVIDIA's driver. */
#include <stdio.h>

#include "kernels/device/cuda_plugin.h"

static enum status fail(struct err *err)
{
    if (err) {
        err->status = STATUS_FAILED;
        snprintf(err->text, sizeof err->text, "no NVIDIA driver is loaded");
    }
    return STATUS_FAILED;
}

static enum status inspect(struct cuda_driver_report *out, struct err *err)
{
    *out = (struct cuda_driver_report){.runtime = 13000};
    return fail(err);
}

static enum status inspect_device(int index, struct cuda_device_report *out, struct err *err)
{
    (void)index, (void)out;
    return fail(err);
}

static enum status find_device(int *index, struct cuda_device_report *out, struct err *err)
{
    (void)index, (void)out;
    return fail(err);
}

static enum status find_library(struct err *err)
{
    return fail(err);
}

extern const struct cuda_plugin cuda_plugin;
const struct cuda_plugin cuda_plugin = {
    sizeof cuda_plugin, sizeof(struct backend), NULL,         inspect,     inspect_device,
    find_device,        find_library,           find_library, find_library};
