/* The part of NVIDIA's management library (NVML) that device metrics use. The declarations follow its
 * documentation, so that building needs none of NVIDIA's headers; a test compares them with nvml.h if the
 * CUDA Toolkit is installed. */
#ifndef ANNEAL_KERNELS_DEVICE_NVML_H
#define ANNEAL_KERNELS_DEVICE_NVML_H

enum {
    NVML_CODE_SUCCESS = 0, /* nvmlReturn_t */
    NVML_SENSOR_GPU = 0,   /* nvmlTemperatureSensors_t */
    NVML_DOMAIN_SM = 1,    /* nvmlClockType_t */
};

/* Why clocks are reduced: bits of one word. */
#define NVML_REASON_IDLE             0x001ull /* nothing to do: not reported */
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

#endif
