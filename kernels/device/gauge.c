/* See gauge.h. */
#include "kernels/device/gauge.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/memory.h"
#include "kernels/device/nvml.h"

enum { PROCESSES = 64, TRIES = 4 };

struct gauge {
    bool gpu;
    struct nvml nvml;
    nvml_device device;
    unsigned index;
    /* of a GPU: one list as NVML gives it, and all of them as one; both grow when there are more, and stay */
    struct nvml_process *listed;
    struct gpu_process *processes;
    size_t listed_room, room;
    /* of the CPU: the last reading */
    double cpu_seconds, at;
};

/* ---- who holds memory of a GPU ---- */

static bool grow(void **array, size_t *room, size_t wanted, size_t element)
{
    if (wanted <= *room) return true;
    void *more = realloc(*array, wanted * element);
    if (!more) return false;
    *array = more;
    *room = wanted;
    return true;
}

static int by_pid(const void *a, const void *b)
{
    unsigned left = ((const struct nvml_process *)a)->pid, right = ((const struct nvml_process *)b)->pid;
    return (left > right) - (left < right);
}

static int by_number(const void *a, const void *b)
{
    int64_t left = ((const struct gpu_process *)a)->pid, right = ((const struct gpu_process *)b)->pid;
    return (left > right) - (left < right);
}

/* The processes that use the GPU in one way, by pid; false: NVML does not tell. There may be more by the time
 * that there is room for those there were. */
static bool list_use(struct gauge *g, enum nvml_use use, size_t *out)
{
    int code = NVML_CODE_INSUFFICIENT_SIZE;
    unsigned count = PROCESSES;
    if (!g->nvml.processes[use]) return false;
    for (int i = 0; i < TRIES && code == NVML_CODE_INSUFFICIENT_SIZE; i++) {
        size_t wanted = i ? (size_t)count + PROCESSES : PROCESSES;
        if (!grow((void **)&g->listed, &g->listed_room, wanted, sizeof *g->listed)) return false;
        count = (unsigned)g->listed_room;
        code = g->nvml.processes[use](g->device, &count, g->listed);
    }
    if (code != NVML_CODE_SUCCESS || count > g->listed_room) return false;
    qsort(g->listed, count, sizeof *g->listed, by_pid);
    *out = count;
    return true;
}

/* Of a process in several lists the driver tells all it holds in each, so the largest counts. */
static bool merge(struct gauge *g, size_t *count, int64_t pid, int64_t bytes)
{
    size_t i = 0;
    while (i < *count && g->processes[i].pid != pid) i++;
    if (i == *count) {
        if (i == g->room && !grow((void **)&g->processes, &g->room, i + PROCESSES, sizeof *g->processes))
            return false;
        g->processes[(*count)++] = (struct gpu_process){.pid = pid, .bytes = bytes};
    } else if (bytes > g->processes[i].bytes) {
        g->processes[i].bytes = bytes;
    }
    return true;
}

/* A process of several instances of one GPU stands in a list once for each. */
static bool add_use(struct gauge *g, enum nvml_use use, size_t *count)
{
    size_t listed, next;
    if (!list_use(g, use, &listed)) return false;
    for (size_t i = 0; i < listed; i = next) {
        int64_t bytes = -1;
        for (next = i; next < listed && g->listed[next].pid == g->listed[i].pid; next++)
            if (g->listed[next].used != NVML_BYTES_UNKNOWN)
                bytes = (bytes < 0 ? 0 : bytes) + (int64_t)g->listed[next].used;
        if (!merge(g, count, g->listed[i].pid, bytes)) return false;
    }
    return true;
}

/* Whether this process sees all numbers of the host, as the kernel's first namespace does. */
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
        if ((unsigned char)*c < ' ' || *c == 0x7F) *c = '?'; /* a program names itself as it likes */
}

/* In a container the numbers may be the host's, and the same number here another process: names are told only
 * where the list has this very process, that is, where the driver speaks of our numbers. */
static void read_processes(struct gauge *g, struct gpu_record *out)
{
    size_t count = 0;
    bool own = false;
    if (!add_use(g, NVML_USE_COMPUTE, &count)) return;
    add_use(g, NVML_USE_GRAPHICS, &count);
    add_use(g, NVML_USE_MPS, &count);
    for (size_t i = 0; i < count; i++) {
        if (g->processes[i].pid != getpid()) continue;
        own = true;
        if (g->processes[i].bytes > 0) out->process_bytes = g->processes[i].bytes;
    }
    if (own || sees_the_host())
        for (size_t i = 0; i < count; i++) name_process(&g->processes[i]);
    if (count) qsort(g->processes, count, sizeof *g->processes, by_number);
    out->processes = g->processes;
    out->process_count = (int64_t)count;
}

/* ---- the GPU ---- */

static const struct {
    unsigned long long bit;
    const char *name;
} reasons[] = {/* in the order of their weight */
               {NVML_REASON_HARDWARE_THERMAL, "thermal (hardware)"},
               {NVML_REASON_THERMAL, "thermal"},
               {NVML_REASON_POWER_BRAKE, "power brake"},
               {NVML_REASON_HARDWARE, "hardware slowdown"},
               {NVML_REASON_POWER_CAP, "power cap"},
               {NVML_REASON_SYNC_BOOST, "sync boost"},
               {NVML_REASON_SET_CLOCKS, "set clocks"},
               {NVML_REASON_DISPLAY, "display clocks"}};

/* Bits that a newer driver may set are told, too, without a name. */
static void name_reasons(unsigned long long bits, char *out, size_t size)
{
    size_t used = 0;
    bits &= ~NVML_REASON_IDLE;
    out[0] = '\0';
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        if (!(bits & reasons[i].bit)) continue;
        used += (size_t)snprintf(out + used, size - used, "%s%s", used ? ", " : "", reasons[i].name);
        bits &= ~reasons[i].bit;
    }
    if (bits) snprintf(out + used, size - used, "%sother", used ? ", " : "");
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
    if (g->at > 0 && at > g->at && processors > 0)
        out->utilization_pct = 100 * (seconds - g->cpu_seconds) / (at - g->at) / processors;
    g->cpu_seconds = seconds;
    g->at = at;
    int64_t total = memory_total(), available = memory_available();
    if (total > 0) out->memory_total_bytes = total;
    if (total > 0 && available > 0 && available <= total) out->memory_used_bytes = total - available;
    out->process_bytes = resident_bytes();
}

/* ---- both ---- */

enum status gauge_open(const char *uuid, struct gauge **out, struct err *err)
{
    struct gauge *g = calloc(1, sizeof *g);
    enum status status = STATUS_OK;
    if (!g) return err_set(err, STATUS_NO_MEMORY, "no memory for a device's metrics");
    g->gpu = uuid[0] != '\0';
    if (g->gpu) status = nvml_open(&g->nvml, err);
    if (!status && g->gpu && g->nvml.by_uuid(uuid, &g->device) != NVML_CODE_SUCCESS)
        status = err_set(err, STATUS_NOT_FOUND, "no GPU metrics: NVML does not know %s", uuid);
    if (!status && g->gpu && (!g->nvml.index || g->nvml.index(g->device, &g->index) != NVML_CODE_SUCCESS))
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
    nvml_close(&g->nvml);
    free(g->listed);
    free(g->processes);
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
