/* Stands in for NVIDIA's management library, under the name by which the real one is opened: one GPU with
 * made-up numbers (see nvml_stand_in.h). Compiled with OLD_DRIVER it lacks the functions that an old driver
 * lacks. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/kernels/stand_in/nvml_stand_in.h"

enum { NOT_FOUND = 6, TOO_SMALL = 7, MIB = 1 << 20 };

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
#ifndef OLD_DRIVER
int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *out);
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process *out);
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned *count, struct process *out);
#endif

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
    static const char *const known[] = {"GPU-stand-in", "GPU-00102030-4050-6070-8090-a0b0c0d0e0f0",
                                        "MIG-instance"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(uuid, known[i]) == 0) return 0;
    return NOT_FOUND;
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
    char byte;
    (void)device;
    *out = 312500;
    if (nvml_stand_in.hanging && read(nvml_stand_in.hanging, &byte, 1) < 0) return 999;
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

#ifdef OLD_DRIVER

int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *out)
{
    (void)device;
    *out = nvml_stand_in.reasons;
    return nvml_stand_in.failing;
}

#else

int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *out)
{
    (void)device;
    *out = nvml_stand_in.reasons;
    return nvml_stand_in.failing;
}

/* The older name of the function: a caller that uses it although the new one exists gets no usable result. */
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *out)
{
    (void)device;
    *out = 0;
    return 3;
}

struct list {
    struct process *out;
    unsigned room, count;
};

static void put(struct list *list, unsigned pid, unsigned long long bytes)
{
    if (list->count++ < list->room)
        list->out[list->count - 1] = (struct process){.pid = pid, .used = bytes, .instance = {~0u, ~0u}};
}

/* As in the real library, processes that do not fit into the array are still counted. */
static int finish(struct list *list, unsigned *count, int failing)
{
    if (failing) return failing;
    *count = list->count;
    return list->count > list->room ? TOO_SMALL : 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process *out)
{
    struct list list = {out, *count, 0};
    const struct nvml_stand_in *s = &nvml_stand_in;
    const char *given = getenv(NVML_STAND_IN_PID);
    (void)device;
    for (unsigned i = s->more; i > 0; i--) put(&list, 500000 + i, (unsigned long long)i * MIB);
    if (given)
        put(&list, strcmp(given, "own") == 0 ? (unsigned)getpid() : (unsigned)atoi(given), 40 * MIB);
    else
        for (unsigned i = 0; i < (s->instances ? s->instances : 1); i++) put(&list, s->pid, 3ull << 30);
    put(&list, 500000, 7ull << 30);
    if (s->unknown) put(&list, s->unknown, ~0ull);
    return finish(&list, count, s->failing);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned *count, struct process *out)
{
    struct list list = {out, *count, 0};
    const struct nvml_stand_in *s = &nvml_stand_in;
    (void)device;
    put(&list, 600000, 200 * MIB);
    if (!getenv(NVML_STAND_IN_PID)) put(&list, s->pid, 3ull << 30);
    return finish(&list, count, s->failing ? s->failing : s->failing_graphics);
}

#endif
