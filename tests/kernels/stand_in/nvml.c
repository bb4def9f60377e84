/* Stands in for NVIDIA's management library: one GPU with made-up numbers, under the name by which the real
 * one is opened. What it says can be changed through nvml_stand_in. */
#include <string.h>

struct nvml_stand_in {
    int start;    /* what nvmlInit_v2 returns */
    int failing;  /* what every question returns */
    unsigned pid; /* of the process that holds 3 GiB */
    unsigned long long reasons;
    int opened; /* nvmlInit_v2 less nvmlShutdown */
};

struct nvml_stand_in nvml_stand_in;

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetHandleByUUID(const char *uuid, void **out);
int nvmlDeviceGetIndex(void *device, unsigned *out);
int nvmlDeviceGetUtilizationRates(void *device, unsigned out[2]);
int nvmlDeviceGetMemoryInfo(void *device, unsigned long long out[3]);
int nvmlDeviceGetPowerUsage(void *device, unsigned *out);
int nvmlDeviceGetTemperature(void *device, unsigned sensor, unsigned *out);
int nvmlDeviceGetClockInfo(void *device, unsigned type, unsigned *out);
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *out);
struct process {
    unsigned pid;
    unsigned long long used;
    unsigned instance[2];
};
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process *out);

int nvmlInit_v2(void)
{
    if (nvml_stand_in.start == 0) nvml_stand_in.opened++;
    return nvml_stand_in.start;
}

int nvmlShutdown(void)
{
    nvml_stand_in.opened--;
    return 0;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **out)
{
    *out = &nvml_stand_in;
    return strcmp(uuid, "GPU-stand-in") == 0 ? 0 : 6; /* not found */
}

int nvmlDeviceGetIndex(void *device, unsigned *out)
{
    (void)device;
    *out = 2;
    return 0;
}

int nvmlDeviceGetUtilizationRates(void *device, unsigned out[2])
{
    (void)device;
    out[0] = 97;
    out[1] = 41;
    return nvml_stand_in.failing;
}

int nvmlDeviceGetMemoryInfo(void *device, unsigned long long out[3])
{
    (void)device;
    out[0] = 80ull << 30;
    out[1] = 70ull << 30;
    out[2] = 10ull << 30;
    return nvml_stand_in.failing;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *out)
{
    (void)device;
    *out = 312500;
    return nvml_stand_in.failing;
}

int nvmlDeviceGetTemperature(void *device, unsigned sensor, unsigned *out)
{
    (void)device;
    *out = 64;
    return sensor == 0 ? nvml_stand_in.failing : 2;
}

int nvmlDeviceGetClockInfo(void *device, unsigned type, unsigned *out)
{
    (void)device;
    *out = 1980;
    return type == 1 ? nvml_stand_in.failing : 2;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *out)
{
    (void)device;
    *out = nvml_stand_in.reasons;
    return nvml_stand_in.failing;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process *out)
{
    (void)device;
    if (*count < 2) return 7;
    out[0] = (struct process){.pid = 1, .used = 7ull << 30};
    out[1] = (struct process){.pid = nvml_stand_in.pid, .used = 3ull << 30};
    *count = 2;
    return nvml_stand_in.failing;
}
