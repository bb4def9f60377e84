/* See gauge.h. NVML is opened at run time, so that a machine without it runs the same program. */
#include "kernels/device/gauge.h"

#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/memory.h"
#include "core/base/text.h"
#include "core/base/thread.h"
#include "kernels/device/nvml.h"

/* How a process uses the GPU; one may use it in several ways. */
enum nvml_use { NVML_USE_COMPUTE, NVML_USE_GRAPHICS, NVML_USE_MPS, NVML_USES };

/* A function that the driver does not have is NULL, except the first three. Each returns an NVML_CODE. */
struct nvml {
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
    /* *count: in: room in `out`; out: number of processes */
    int (*processes[NVML_USES])(nvml_device device, unsigned *count, struct nvml_process *out);
};

/* The functions by name; of several names for one function, the last one found is used. The older functions
 * for processes fill a smaller struct. */
static const struct {
    size_t at;
    const char *name;
} functions[] = {
    {offsetof(struct nvml, init), "nvmlInit_v2"},
    {offsetof(struct nvml, shutdown), "nvmlShutdown"},
    {offsetof(struct nvml, by_uuid), "nvmlDeviceGetHandleByUUID"},
    {offsetof(struct nvml, index), "nvmlDeviceGetIndex"},
    {offsetof(struct nvml, utilization), "nvmlDeviceGetUtilizationRates"},
    {offsetof(struct nvml, memory), "nvmlDeviceGetMemoryInfo"},
    {offsetof(struct nvml, power), "nvmlDeviceGetPowerUsage"},
    {offsetof(struct nvml, temperature), "nvmlDeviceGetTemperature"},
    {offsetof(struct nvml, clock), "nvmlDeviceGetClockInfo"},
    {offsetof(struct nvml, throttle), "nvmlDeviceGetCurrentClocksThrottleReasons"},
    {offsetof(struct nvml, throttle), "nvmlDeviceGetCurrentClocksEventReasons"},
    {offsetof(struct nvml, processes[NVML_USE_COMPUTE]), "nvmlDeviceGetComputeRunningProcesses_v2"},
    {offsetof(struct nvml, processes[NVML_USE_COMPUTE]), "nvmlDeviceGetComputeRunningProcesses_v3"},
    {offsetof(struct nvml, processes[NVML_USE_GRAPHICS]), "nvmlDeviceGetGraphicsRunningProcesses_v2"},
    {offsetof(struct nvml, processes[NVML_USE_GRAPHICS]), "nvmlDeviceGetGraphicsRunningProcesses_v3"},
    {offsetof(struct nvml, processes[NVML_USE_MPS]), "nvmlDeviceGetMPSComputeRunningProcesses_v2"},
    {offsetof(struct nvml, processes[NVML_USE_MPS]), "nvmlDeviceGetMPSComputeRunningProcesses_v3"},
};

enum { PROCESSES_MAX = 512 }; /* of one use: with more, NVML returns none */

struct gauge {
    bool gpu;
    /* of a GPU */
    void *library;
    bool initialised;
    struct nvml nvml;
    nvml_device device;
    unsigned index;
    struct nvml_process listed[PROCESSES_MAX]; /* of one use, as returned by NVML */
    struct gpu_process processes[NVML_USES * PROCESSES_MAX];
    int64_t in_use[NVML_USES * PROCESSES_MAX]; /* bytes of each, within one use */
    size_t process_count;
    /* CPU: the last reading */
    double cpu_seconds, at;
};

/* CUDA does not say whether a UUID is that of a GPU or of an instance of one (MIG), which NVML knows by
 * another prefix. */
static bool find_gpu(struct gauge *g, const char *uuid)
{
    char instance[64];
    if (g->nvml.by_uuid(uuid, &g->device) == NVML_CODE_SUCCESS) return true;
    if (strncmp(uuid, "GPU-", 4) != 0) return false;
    snprintf(instance, sizeof instance, "MIG-%s", uuid + 4);
    return g->nvml.by_uuid(instance, &g->device) == NVML_CODE_SUCCESS;
}

static enum status open_gpu(struct gauge *g, const char *uuid, struct err *err)
{
    g->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!g->library)
        return err_set(err, STATUS_NOT_FOUND,
                       "no GPU metrics: libnvidia-ml.so.1 not found (NVIDIA's driver contains it)");
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *symbol = dlsym(g->library, functions[i].name);
        if (symbol) memcpy((char *)&g->nvml + functions[i].at, &symbol, sizeof symbol);
    }
    if (!g->nvml.init || !g->nvml.shutdown || !g->nvml.by_uuid)
        return err_set(err, STATUS_NOT_FOUND,
                       "no GPU metrics: libnvidia-ml.so.1 is too old (update the driver)");
    int code = g->nvml.init();
    if (code != NVML_CODE_SUCCESS)
        return err_set(err, STATUS_NOT_FOUND,
                       "no GPU metrics: NVML does not start (error %d; run nvidia-smi for details)", code);
    g->initialised = true;
    if (!find_gpu(g, uuid))
        return err_set(err, STATUS_NOT_FOUND, "no GPU metrics: NVML does not know %s", uuid);
    if (!g->nvml.index || g->nvml.index(g->device, &g->index) != NVML_CODE_SUCCESS) g->index = 0;
    return STATUS_OK;
}

/* ---- processes that use a GPU ---- */

static size_t place_of(struct gauge *g, int64_t pid)
{
    for (size_t i = 0; i < g->process_count; i++)
        if (g->processes[i].pid == pid) return i;
    g->processes[g->process_count] = (struct gpu_process){.pid = pid, .bytes = -1};
    return g->process_count++;
}

static int by_number(const void *a, const void *b)
{
    int64_t left = ((const struct gpu_process *)a)->pid, right = ((const struct gpu_process *)b)->pid;
    return (left > right) - (left < right);
}

/* Adds the processes that use the GPU in one way. A process on several instances of a GPU is listed once per
 * instance, and holds their sum. A process in several lists is listed in each with all its memory, so the
 * largest value counts. */
static bool add_use(struct gauge *g, enum nvml_use use)
{
    unsigned count = PROCESSES_MAX;
    if (!g->nvml.processes[use] ||
        g->nvml.processes[use](g->device, &count, g->listed) != NVML_CODE_SUCCESS || count > PROCESSES_MAX)
        return false;
    memset(g->in_use, 0, sizeof g->in_use);
    for (size_t i = 0; i < count; i++) {
        size_t at = place_of(g, g->listed[i].pid);
        if (g->listed[i].used == NVML_BYTES_UNKNOWN) continue;
        g->in_use[at] += (int64_t)g->listed[i].used;
        if (g->in_use[at] > g->processes[at].bytes) g->processes[at].bytes = g->in_use[at];
    }
    return true;
}

/* Whether this process sees the pids of the host: it is in the kernel's first namespace. */
static bool sees_the_host(void)
{
    char link[64];
    ssize_t n = readlink("/proc/self/ns/pid", link, sizeof link - 1);
    if (n < 0) return false;
    link[n] = '\0';
    return strcmp(link, "pid:[4026531836]") == 0; /* PROC_PID_INIT_INO, fixed since Linux 3.8 */
}

static void name_process(struct gpu_process *process)
{
    char path[48];
    snprintf(path, sizeof path, "/proc/%lld/comm", (long long)process->pid);
    FILE *file = fopen(path, "re");
    if (!file) return;
    if (!fgets(process->name, sizeof process->name, file)) process->name[0] = '\0';
    fclose(file);
    process->name[strcspn(process->name, "\n")] = '\0';
    for (char *c = process->name; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7F) *c = '?'; /* a program can set any name */
}

/* In a container the pids may be the host's, so that a pid here may be another process: names are given only
 * if the list contains this process, so that its pids are those of this namespace. */
static void read_processes(struct gauge *g, struct gpu_record *out)
{
    bool own = false;
    g->process_count = 0;
    if (!add_use(g, NVML_USE_COMPUTE)) return;
    add_use(g, NVML_USE_GRAPHICS);
    add_use(g, NVML_USE_MPS);
    for (size_t i = 0; i < g->process_count; i++) {
        if (g->processes[i].pid != getpid()) continue;
        own = true;
        if (g->processes[i].bytes > 0) out->process_bytes = g->processes[i].bytes;
    }
    if (own || sees_the_host())
        for (size_t i = 0; i < g->process_count; i++) name_process(&g->processes[i]);
    qsort(g->processes, g->process_count, sizeof *g->processes, by_number);
    out->processes = g->processes;
    out->process_count = (int64_t)g->process_count;
}

/* ---- the GPU ---- */

static const struct {
    unsigned long long bit;
    const char *name;
} reasons[] = {/* most important first */
               {NVML_REASON_HARDWARE_THERMAL, "thermal (hardware)"},
               {NVML_REASON_THERMAL, "thermal"},
               {NVML_REASON_POWER_BRAKE, "power brake"},
               {NVML_REASON_HARDWARE, "hardware slowdown"},
               {NVML_REASON_POWER_CAP, "power cap"},
               {NVML_REASON_SYNC_BOOST, "sync boost"},
               {NVML_REASON_SET_CLOCKS, "set clocks"},
               {NVML_REASON_DISPLAY, "display clocks"}};

/* Unknown bits of a newer driver are reported, too, without a name. */
static void name_reasons(unsigned long long bits, char *out, size_t size)
{
    bits &= ~NVML_REASON_IDLE;
    out[0] = '\0';
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        if (!(bits & reasons[i].bit)) continue;
        text_add(out, size, ", ", "%s", reasons[i].name);
        bits &= ~reasons[i].bit;
    }
    if (bits) text_add(out, size, ", ", "other");
}

static void read_gpu(struct gauge *g, struct gpu_record *out)
{
    const struct nvml *n = &g->nvml;
    struct nvml_utilization utilization;
    struct nvml_memory memory;
    unsigned value;
    unsigned long long bits;
    if (n->utilization && n->utilization(g->device, &utilization) == NVML_CODE_SUCCESS)
        out->utilization_pct = utilization.gpu;
    if (n->memory && n->memory(g->device, &memory) == NVML_CODE_SUCCESS) {
        out->memory_used_bytes = (int64_t)memory.used;
        out->memory_total_bytes = (int64_t)memory.total;
    }
    if (n->power && n->power(g->device, &value) == NVML_CODE_SUCCESS) out->power_w = value / 1000.0;
    if (n->temperature && n->temperature(g->device, NVML_SENSOR_GPU, &value) == NVML_CODE_SUCCESS)
        out->temperature_c = value;
    if (n->clock && n->clock(g->device, NVML_DOMAIN_SM, &value) == NVML_CODE_SUCCESS)
        out->sm_clock_mhz = value;
    if (n->throttle && n->throttle(g->device, &bits) == NVML_CODE_SUCCESS)
        name_reasons(bits, out->throttle, sizeof out->throttle);
    read_processes(g, out);
}

/* ---- the CPU ---- */

/* Seconds of processor time used by this process. */
static double cpu_seconds(void)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0) return NAN;
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* Utilization is this process's share of all processors. */
static void read_cpu(struct gauge *g, struct gpu_record *out)
{
    double seconds = cpu_seconds(), at = clock_monotonic(),
           processors = (double)sysconf(_SC_NPROCESSORS_ONLN);
    if (g->at > 0 && at > g->at && processors > 0)
        out->utilization_pct = 100 * (seconds - g->cpu_seconds) / (at - g->at) / processors;
    g->cpu_seconds = seconds;
    g->at = at;
    int64_t total = memory_total(), available = memory_available();
    if (total > 0) out->memory_total_bytes = total;
    if (total > 0 && available > 0 && available <= total) out->memory_used_bytes = total - available;
    out->process_bytes = memory_resident();
}

/* ---- both ---- */

enum status gauge_open(const char *uuid, struct gauge **out, struct err *err)
{
    struct gauge *g = calloc(1, sizeof *g);
    if (!g) return err_no_memory(err, "a device's metrics");
    g->gpu = uuid[0] != '\0';
    enum status status = g->gpu ? open_gpu(g, uuid, err) : STATUS_OK;
    if (status) {
        gauge_close(g);
        return status;
    }
    g->cpu_seconds = cpu_seconds();
    g->at = clock_monotonic();
    *out = g;
    return STATUS_OK;
}

void gauge_close(struct gauge *g)
{
    if (!g) return;
    if (g->initialised) g->nvml.shutdown();
    if (g->library) dlclose(g->library);
    free(g);
}

void gauge_read_host(int gpu, struct gpu_record *out)
{
    *out = (struct gpu_record){.wall_time = clock_wall(),
                               .gpu = gpu,
                               .utilization_pct = NAN,
                               .memory_used_bytes = -1,
                               .memory_total_bytes = -1,
                               .power_w = NAN,
                               .temperature_c = NAN,
                               .sm_clock_mhz = NAN,
                               .process_bytes = -1,
                               .load_1m = NAN,
                               .process_count = -1};
    if (getloadavg(&out->load_1m, 1) != 1) out->load_1m = NAN;
}

void gauge_read(struct gauge *g, struct gpu_record *out)
{
    gauge_read_host(g->gpu ? (int)g->index : -1, out);
    if (g->gpu)
        read_gpu(g, out);
    else
        read_cpu(g, out);
}

/* ---- one reading with a time limit ---- */

struct glance {
    atomic_int owners; /* the reading thread and the waiting one; the last owner frees it */
    sem_t answered;
    char uuid[64];
    enum status status;
    struct err err;
    struct gpu_record record;
};

/* out->processes: a copy, owned by the caller. */
static enum status read_once(const char *uuid, struct gpu_record *out, struct err *err)
{
    struct gauge *gauge;
    enum status status = gauge_open(uuid, &gauge, err);
    if (status) return status;
    gauge_read(gauge, out);
    size_t bytes = out->process_count > 0 ? (size_t)out->process_count * sizeof *out->processes : 0;
    struct gpu_process *own = bytes ? malloc(bytes) : NULL;
    if (own) memcpy(own, out->processes, bytes);
    if (bytes && !own) out->process_count = -1;
    out->processes = own;
    gauge_close(gauge);
    return STATUS_OK;
}

static void let_go(struct glance *g)
{
    if (atomic_fetch_sub(&g->owners, 1) > 1) return;
    sem_destroy(&g->answered);
    free(g->record.processes);
    free(g);
}

static void *body(void *argument)
{
    struct glance *g = argument;
    g->status = read_once(g->uuid, &g->record, &g->err);
    sem_post(&g->answered);
    let_go(g);
    return NULL;
}

enum status gauge_glance(const char *uuid, double seconds, struct gpu_record *out, struct err *err)
{
    pthread_t thread;
    if (uuid[0] == '\0') return read_once(uuid, out, err); /* reading the CPU never hangs */
    struct glance *g = calloc(1, sizeof *g);
    if (!g) return err_no_memory(err, "a device's metrics");
    g->owners = 2;
    sem_init(&g->answered, 0, 0);
    snprintf(g->uuid, sizeof g->uuid, "%s", uuid);
    struct timespec until = clock_deadline(seconds);
    enum status status = STATUS_OK;
    if (thread_start(&thread, body, g)) {
        let_go(g);
        status = err_set(err, STATUS_FAILED, "no GPU metrics: cannot start a thread for the query");
    } else {
        pthread_detach(thread);
        while (sem_clockwait(&g->answered, CLOCK_MONOTONIC, &until) != 0 && !status)
            if (errno != EINTR)
                status =
                    err_set(err, STATUS_BUSY,
                            "no GPU metrics: NVML has not answered for %g s (does nvidia-smi? a GPU or its "
                            "driver that hangs needs a reset)",
                            seconds);
    }
    if (!status && g->status) status = err_set(err, g->status, "%s", g->err.text);
    if (!status) {
        *out = g->record;
        g->record.processes = NULL;
    }
    let_go(g);
    return status;
}
