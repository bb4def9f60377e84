/* See nvml.h. */
#include "kernels/device/nvml.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

/* The function of the first name that the library has. */
static void load(struct nvml *n, void *slot, const char *name, const char *older)
{
    void *symbol = dlsym(n->library, name);
    if (!symbol && older) symbol = dlsym(n->library, older);
    memcpy(slot, &symbol, sizeof symbol); /* an object pointer is not a function's in C */
}

enum status nvml_open(struct nvml *n, struct err *err)
{
    *n = (struct nvml){.library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)};
    if (!n->library)
        return err_set(err, STATUS_NOT_FOUND,
                       "no GPU metrics: libnvidia-ml.so.1 is not there (NVIDIA's driver has it)");
    load(n, &n->init, "nvmlInit_v2", NULL);
    load(n, &n->shutdown, "nvmlShutdown", NULL);
    load(n, &n->by_uuid, "nvmlDeviceGetHandleByUUID", NULL);
    load(n, &n->index, "nvmlDeviceGetIndex", NULL);
    load(n, &n->utilization, "nvmlDeviceGetUtilizationRates", NULL);
    load(n, &n->memory, "nvmlDeviceGetMemoryInfo", NULL);
    load(n, &n->power, "nvmlDeviceGetPowerUsage", NULL);
    load(n, &n->temperature, "nvmlDeviceGetTemperature", NULL);
    load(n, &n->clock, "nvmlDeviceGetClockInfo", NULL);
    load(n, &n->throttle, "nvmlDeviceGetCurrentClocksEventReasons",
         "nvmlDeviceGetCurrentClocksThrottleReasons");
    /* older ones yet fill a smaller struct */
    load(n, &n->processes[NVML_USE_COMPUTE], "nvmlDeviceGetComputeRunningProcesses_v3",
         "nvmlDeviceGetComputeRunningProcesses_v2");
    load(n, &n->processes[NVML_USE_GRAPHICS], "nvmlDeviceGetGraphicsRunningProcesses_v3",
         "nvmlDeviceGetGraphicsRunningProcesses_v2");
    load(n, &n->processes[NVML_USE_MPS], "nvmlDeviceGetMPSComputeRunningProcesses_v3",
         "nvmlDeviceGetMPSComputeRunningProcesses_v2");
    if (!n->init || !n->shutdown || !n->by_uuid)
        return err_set(err, STATUS_NOT_FOUND,
                       "no GPU metrics: libnvidia-ml.so.1 is too old (update the driver)");
    int code = n->init();
    if (code != NVML_CODE_SUCCESS)
        return err_set(err, STATUS_NOT_FOUND,
                       "no GPU metrics: NVML does not start (error %d; nvidia-smi says more)", code);
    n->initialised = true;
    return STATUS_OK;
}

void nvml_close(struct nvml *n)
{
    if (n->initialised) n->shutdown();
    if (n->library) dlclose(n->library);
    *n = (struct nvml){0};
}
