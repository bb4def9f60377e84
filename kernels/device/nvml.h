/* The part of NVIDIA's management library (NVML) that device metrics use, opened at run time, so that a
 * machine without it runs the same program. Declared by what its documentation says: building needs none of
 * NVIDIA's headers, and a test compares the declarations with nvml.h where the CUDA Toolkit has it.
 *
 * A question may take its time or never come back where a GPU or its driver is sick: whoever must not wait
 * asks in a thread of its own. */
#ifndef ANNEAL_KERNELS_DEVICE_NVML_H
#define ANNEAL_KERNELS_DEVICE_NVML_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"

enum {
    NVML_CODE_SUCCESS = 0,
    NVML_CODE_INSUFFICIENT_SIZE = 7, /* nvmlReturn_t */
    NVML_SENSOR_GPU = 0,             /* nvmlTemperatureSensors_t */
    NVML_DOMAIN_SM = 1,              /* nvmlClockType_t */
};

/* Why clocks are lower than they could be, bits of one word. */
#define NVML_REASON_IDLE             0x001ull /* nothing to do: none in our sense */
#define NVML_REASON_SET_CLOCKS       0x002ull
#define NVML_REASON_POWER_CAP        0x004ull
#define NVML_REASON_HARDWARE         0x008ull
#define NVML_REASON_SYNC_BOOST       0x010ull
#define NVML_REASON_THERMAL          0x020ull
#define NVML_REASON_HARDWARE_THERMAL 0x040ull
#define NVML_REASON_POWER_BRAKE      0x080ull
#define NVML_REASON_DISPLAY          0x100ull

#define NVML_BYTES_UNKNOWN (~0ull)

typedef struct nvml_device *nvml_device;

struct nvml_utilization { /* nvmlUtilization_t */
    unsigned gpu, memory; /* percent of the last sampling period */
};

struct nvml_memory {                      /* nvmlMemory_t */
    unsigned long long total, free, used; /* bytes */
};

struct nvml_process { /* nvmlProcessInfo_t, of the functions that end in _v2 and _v3 */
    unsigned pid;
    unsigned long long used; /* bytes, or NVML_BYTES_UNKNOWN */
    unsigned gpu_instance, compute_instance;
};

/* How a process uses the GPU; one may use it in several ways. */
enum nvml_use { NVML_USE_COMPUTE, NVML_USE_GRAPHICS, NVML_USE_MPS, NVML_USES };

/* What a driver does not have is NULL, but the first three. Each returns NVML_CODE_SUCCESS or another code.
 */
struct nvml {
    void *library;
    bool initialised;
    int (*init)(void);
    int (*shutdown)(void);
    int (*by_uuid)(const char *uuid, nvml_device *out);
    int (*index)(nvml_device device, unsigned *out);
    int (*utilization)(nvml_device device, struct nvml_utilization *out);
    int (*memory)(nvml_device device, struct nvml_memory *out);
    int (*power)(nvml_device device, unsigned *milliwatts);
    int (*temperature)(nvml_device device, unsigned sensor, unsigned *celsius);
    int (*clock)(nvml_device device, unsigned domain, unsigned *megahertz);
    int (*throttle)(nvml_device device, unsigned long long *reasons);
    /* *count: room in `out`, then how many there are, also where that is more: NVML_CODE_INSUFFICIENT_SIZE */
    int (*processes[NVML_USES])(nvml_device device, unsigned *count, struct nvml_process *out);
};

/* STATUS_NOT_FOUND: the library is not there, too old, or does not start. Close in any case. */
enum status nvml_open(struct nvml *nvml, struct err *err);
void nvml_close(struct nvml *nvml);

#endif
