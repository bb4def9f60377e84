/* The memory of a device that this process holds before training allocates anything: on a GPU the driver's
 * context, the libraries' own buffers and the loaded code; on a CPU the program itself and what it has read.
 * It is not planned and not ours to plan, so it is measured, and kept for who asks without training. */
#ifndef ANNEAL_CORE_MEMORY_OVERHEAD_H
#define ANNEAL_CORE_MEMORY_OVERHEAD_H

#include <stdint.h>

#include "kernels/device/backend.h"

/* Bytes now; -1: nobody tells (no NVML or one that hangs, or a container that hides the process from it). */
int64_t overhead_measure(const struct device_info *device);

/* In a file of the folder, one a device; what cannot be written is measured next time. `folder` NULL:
 * nowhere. */
void overhead_keep(const char *folder, const struct device_info *device, int64_t bytes);
int64_t overhead_recall(const char *folder, const struct device_info *device); /* -1: nothing is kept */

#endif
