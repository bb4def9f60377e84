/* See gauge.h. The part of NVML's interface that is used is declared here by what its documentation says, so
 * that building needs none of NVIDIA's headers. */
#include "kernels/gauge.h"

#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/memory.h"

enum { NVML_SUCCESS = 0, NVML_TEMPERATURE_GPU = 0, NVML_CLOCK_SM = 1, PROCESSES = 64 };

typedef struct nvml_device *nvml_device;
struct nvml_utilization {
    unsigned gpu, memory; /* percent of the last sampling period */
};
struct nvml_memory {
    unsigned long long total, free, used;
};
struct nvml_process {
    unsigned pid;
    unsigned long long used; /* bytes; all ones: not known */
    unsigned gpu_instance, compute_instance;
};

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
    int (*clock)(nvml_device device, unsigned type, unsigned *megahertz);
    int (*throttle)(nvml_device device, unsigned long long *reasons);
    int (*processes)(nvml_device device, unsigned *count, struct nvml_process *out);
};

struct gauge {
    bool gpu;
    struct nvml nvml;
    nvml_device device;
    unsigned index;
    /* of the CPU: the last reading */
    double cpu_seconds, at;
};

/* ---- the GPU ---- */

/* Why a GPU's clocks are lower than they could be, the bits of NVML's documentation in the order of their
 * weight. */
static const struct {
    unsigned long long bit;
    const char *name;
} reasons[] = {{0x40, "thermal (hardware)"}, {0x20, "thermal"},   {0x80, "power brake"},
               {0x08, "hardware slowdown"},  {0x04, "power cap"}, {0x10, "sync boost"},
               {0x02, "set clocks"}};

static void load(struct nvml *n, const char *name, void *slot)
{
    void *symbol = dlsym(n->library, name);
    memcpy(slot, &symbol, sizeof symbol); /* an object pointer is not a function's in C */
}

static enum status open_nvml(struct nvml *n, struct err *err)
{
    n->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!n->library)
        return err_set(err, STATUS_NOT_FOUND,
                       "no GPU metrics: libnvidia-ml.so.1 is not there (NVIDIA's driver has it)");
    load(n, "nvmlInit_v2", &n->init);
    load(n, "nvmlShutdown", &n->shutdown);
    load(n, "nvmlDeviceGetHandleByUUID", &n->by_uuid);
    load(n, "nvmlDeviceGetIndex", &n->index);
    load(n, "nvmlDeviceGetUtilizationRates", &n->utilization);
    load(n, "nvmlDeviceGetMemoryInfo", &n->memory);
    load(n, "nvmlDeviceGetPowerUsage", &n->power);
    load(n, "nvmlDeviceGetTemperature", &n->temperature);
    load(n, "nvmlDeviceGetClockInfo", &n->clock);
    load(n, "nvmlDeviceGetCurrentClocksThrottleReasons", &n->throttle);
    load(n, "nvmlDeviceGetComputeRunningProcesses_v3", &n->processes);
    if (!n->init || !n->shutdown || !n->by_uuid)
        return err_set(err, STATUS_NOT_FOUND,
                       "no GPU metrics: libnvidia-ml.so.1 is too old (update the driver)");
    int code = n->init();
    if (code != NVML_SUCCESS)
        return err_set(err, STATUS_NOT_FOUND, "no GPU metrics: NVML does not start (error %d)", code);
    n->initialised = true;
    return STATUS_OK;
}

/* Bytes that this process holds on the device; -1: not known. */
static int64_t own_memory(const struct gauge *g)
{
    struct nvml_process processes[PROCESSES];
    unsigned count = PROCESSES;
    int64_t bytes = 0;
    if (!g->nvml.processes || g->nvml.processes(g->device, &count, processes) != NVML_SUCCESS) return -1;
    for (unsigned i = 0; i < count && i < PROCESSES; i++)
        if (processes[i].pid == (unsigned)getpid() && processes[i].used != ~0ull)
            bytes += (int64_t)processes[i].used;
    return bytes > 0 ? bytes : -1; /* in a container the numbers are the host's: nobody there is us */
}

static void read_gpu(const struct gauge *g, struct gpu_record *out)
{
    const struct nvml *n = &g->nvml;
    struct nvml_utilization utilization;
    struct nvml_memory memory;
    unsigned value;
    unsigned long long bits;
    out->gpu = (int)g->index;
    if (n->utilization && n->utilization(g->device, &utilization) == NVML_SUCCESS)
        out->utilization_pct = utilization.gpu;
    if (n->memory && n->memory(g->device, &memory) == NVML_SUCCESS) {
        out->memory_used_bytes = (int64_t)memory.used;
        out->memory_total_bytes = (int64_t)memory.total;
    }
    if (n->power && n->power(g->device, &value) == NVML_SUCCESS) out->power_w = value / 1000.0;
    if (n->temperature && n->temperature(g->device, NVML_TEMPERATURE_GPU, &value) == NVML_SUCCESS)
        out->temperature_c = value;
    if (n->clock && n->clock(g->device, NVML_CLOCK_SM, &value) == NVML_SUCCESS) out->sm_clock_mhz = value;
    out->process_bytes = own_memory(g);
    if (n->throttle && n->throttle(g->device, &bits) == NVML_SUCCESS)
        for (size_t i = 0; !*out->throttle && i < sizeof reasons / sizeof *reasons; i++)
            if (bits & reasons[i].bit) snprintf(out->throttle, sizeof out->throttle, "%s", reasons[i].name);
}

/* ---- the CPU ---- */

/* Seconds of processor time that this process has taken. */
static double cpu_seconds(void)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0) return NAN;
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* The second number of /proc/self/statm: resident pages. */
static int64_t resident_bytes(void)
{
    long pages = -1;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file) return -1;
    if (fscanf(file, "%*d %ld", &pages) != 1) pages = -1;
    fclose(file);
    return pages < 0 ? -1 : (int64_t)pages * sysconf(_SC_PAGE_SIZE);
}

/* Utilization is this process's share of all processors. */
static void read_cpu(struct gauge *g, struct gpu_record *out)
{
    double seconds = cpu_seconds(), at = clock_monotonic(),
           processors = (double)sysconf(_SC_NPROCESSORS_ONLN);
    out->gpu = -1;
    if (g->at > 0 && at > g->at && processors > 0)
        out->utilization_pct = 100 * (seconds - g->cpu_seconds) / (at - g->at) / processors;
    g->cpu_seconds = seconds;
    g->at = at;
    out->memory_total_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGE_SIZE);
    int64_t available = memory_available();
    if (available > 0) out->memory_used_bytes = out->memory_total_bytes - available;
    out->process_bytes = resident_bytes();
}

/* ---- both ---- */

enum status gauge_open(const char *uuid, struct gauge **out, struct err *err)
{
    struct gauge *g = calloc(1, sizeof *g);
    enum status status = STATUS_OK;
    if (!g) return err_set(err, STATUS_NO_MEMORY, "no memory for a device's metrics");
    g->gpu = uuid[0] != '\0';
    if (g->gpu) status = open_nvml(&g->nvml, err);
    if (!status && g->gpu && g->nvml.by_uuid(uuid, &g->device) != NVML_SUCCESS)
        status = err_set(err, STATUS_NOT_FOUND, "no GPU metrics: NVML does not know %s", uuid);
    if (!status && g->gpu && (!g->nvml.index || g->nvml.index(g->device, &g->index) != NVML_SUCCESS))
        g->index = 0;
    if (status) {
        gauge_close(g);
        return status;
    }
    if (!g->gpu) {
        g->cpu_seconds = cpu_seconds();
        g->at = clock_monotonic();
    }
    *out = g;
    return STATUS_OK;
}

void gauge_close(struct gauge *g)
{
    if (!g) return;
    if (g->nvml.initialised) g->nvml.shutdown();
    if (g->nvml.library) dlclose(g->nvml.library);
    free(g);
}

void gauge_read(struct gauge *g, struct gpu_record *out)
{
    *out = (struct gpu_record){.wall_time = clock_wall(),
                               .utilization_pct = NAN,
                               .memory_used_bytes = -1,
                               .memory_total_bytes = -1,
                               .power_w = NAN,
                               .temperature_c = NAN,
                               .sm_clock_mhz = NAN,
                               .process_bytes = -1};
    if (g->gpu)
        read_gpu(g, out);
    else
        read_cpu(g, out);
}
