/* The CUDA plugin, anneal_cuda.so: its exports and how it is found. The program itself links no CUDA.
 *
 * The plugin is $ANNEAL_CUDA_PLUGIN (a file), else anneal_cuda.so in the executable's folder, else in
 * ../lib/anneal of that folder. If it cannot be used, one sentence says why and what to do. */
#ifndef ANNEAL_KERNELS_DEVICE_CUDA_PLUGIN_H
#define ANNEAL_KERNELS_DEVICE_CUDA_PLUGIN_H

#include "kernels/device/backend.h"

/* A device as the driver describes it, whether or not it can be used. */
struct cuda_device_report {
    struct device_info info;
    int major, minor;    /* compute capability */
    bool peak_published; /* NVIDIA published it; else computed from multiprocessors and clock: see chip.h */
    char why_not[200];   /* empty: it can be used; else the reason, one sentence */
};

/* The driver's description of itself. */
struct cuda_driver_report {
    int driver, runtime; /* 13000 is CUDA 13.0: the newest that the driver supports; that of the plugin */
    int devices;
};

/* The one symbol of the plugin, "cuda_plugin". */
struct cuda_plugin {
    uint32_t plugin_bytes;  /* sizeof(struct cuda_plugin) and */
    uint32_t backend_bytes; /* sizeof(struct backend) of the plugin's build, which must match the program's */
    const struct backend *table;
    /* Fails without a driver or a device; fills out as far as possible. */
    enum status (*inspect)(struct cuda_driver_report *out, struct err *err);
    enum status (*inspect_device)(int index, struct cuda_device_report *out, struct err *err);
    /* Finds the device with this number, or DEVICE_FIRST, the first usable one; else fails.
     * CUDA_VISIBLE_DEVICES orders and hides devices. */
    enum status (*find_device)(int *index, struct cuda_device_report *out, struct err *err);
    /* STATUS_NOT_FOUND: without CUPTI, the trace of a step has operations, but no kernels and copies. Loads
     * the library. */
    enum status (*find_cupti)(struct err *err);
    /* STATUS_NOT_FOUND: without NCCL several ranks cannot train on GPUs. Loads the library. */
    enum status (*find_nccl)(struct err *err);
    /* STATUS_NOT_FOUND: without cuDNN our own kernels compute all attention. Loads the library. */
    enum status (*find_cudnn)(struct err *err);
};

/* Opens the plugin; it stays open until the process ends. STATUS_NOT_FOUND: there is none. */
enum status cuda_plugin_open(const struct cuda_plugin **out, struct err *err);

/* The table of a plugin that has at least one usable device; else fails with the reason. Does not open the
 * device. Without NVIDIA's driver only a plugin that ANNEAL_CUDA_PLUGIN names is loaded. */
enum status cuda_backend_open(const struct backend **out, struct err *err);

#endif
