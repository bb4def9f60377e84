/* anneal devices: the devices for training, and why others cannot be used. One line per device: its name for
 * --device and the runs' device column, its model, its memory and the free part; for a GPU also compute
 * capability, driver, the peaks of matrix products (published, or computed from the clock), load and
 * throttling. Below each: reservations of its memory, waiting processes, and for a GPU the processes that
 * hold memory. Training takes the first usable GPU; --device cuda:N chooses another. Last comes whether
 * CUPTI, which traces need, cuDNN, which has attention, and NCCL, which several GPUs need, are installed. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "kernels/device/backend.h"
#include "kernels/device/cuda_plugin.h"
#include "kernels/device/gauge.h"
#include "tui/command/command.h"
#include "tui/session/memory_share.h"
#include "tui/view/labels.h"

/* The reservations of a device's memory, and the queue for it. */
struct reserved {
    struct reservation *rows; /* owned */
    size_t count;
};

/* ", process 17, for 4m 05s, of ANNEAL_HOME=/scratch/runs": the home only if it is another one, no time if
 * the clock was set back since. */
static void show_who(const struct reservation *row)
{
    char own[PATH_MAX];
    double seconds = clock_wall() - row->since;
    printf("%s, process %" PRId64, CLEAN_LINE(row->holder), row->pid);
    if (seconds >= 0) printf(", for %s", CLOCK_DURATION(seconds));
    if (!row->home[0] || (!file_anneal_home(own, sizeof own, NULL) && strcmp(row->home, own) == 0)) return;
    printf(", of ANNEAL_HOME=%s", CLEAN_LINE(row->home));
}

static void show_reserved(const struct reserved *reserved)
{
    int place = 0;
    for (size_t i = 0; i < reserved->count; i++) {
        const struct reservation *row = &reserved->rows[i];
        printf("         %s %s by ", TEXT_BYTES(row->bytes), row->waits ? "requested" : "reserved");
        show_who(row);
        if (row->waits) printf(", no. %d in the queue", ++place);
        if (row->used > 0) printf(row->waits ? ", holds %s meanwhile" : ", %s in use", TEXT_BYTES(row->used));
        putchar('\n');
    }
}

static const char *holder_of(const struct reserved *reserved, int64_t pid)
{
    for (size_t i = 0; i < reserved->count && !reserved->rows[i].waits; i++)
        if (reserved->rows[i].pid == pid) return reserved->rows[i].holder;
    return NULL;
}

static int most_first(const void *a, const void *b)
{
    const struct gpu_process *left = a, *right = b;
    return (left->bytes < right->bytes) - (left->bytes > right->bytes);
}

/* Lists processes that hold memory: anneal's by name in the ledger, others by the kernel's. */
static void show_processes(struct gpu_record *now, const struct reserved *reserved)
{
    if (now->process_count < 0) puts("         the driver does not report who holds its memory");
    if (now->process_count > 0)
        qsort(now->processes, (size_t)now->process_count, sizeof *now->processes, most_first);
    for (int64_t i = 0; i < now->process_count; i++) {
        const struct gpu_process *process = &now->processes[i];
        const char *holder = holder_of(reserved, process->pid);
        const char *name = CLEAN_LINE(holder ? holder : process->name);
        printf("         %s held by %s%sprocess %" PRId64 "\n",
               process->bytes < 0 ? "an unknown amount" : TEXT_BYTES(process->bytes), name, *name ? ", " : "",
               process->pid);
    }
}

/* Shows a GPU's present state, or why it is unknown. */
static void show_gpu_state(const char *uuid, const struct reserved *reserved)
{
    struct gpu_record now;
    struct err err = {0};
    char state[96];
    if (gauge_glance(uuid, GLANCE_SECONDS, &now, &err)) {
        printf("         %s\n", err.text);
        return;
    }
    label_device(&now, state, sizeof state);
    if (*state || *now.throttle)
        printf("         %s%s%s%s\n", state, *state && *now.throttle ? ", " : "",
               *now.throttle ? "clocks low: " : "", now.throttle);
    show_processes(&now, reserved);
    free(now.processes);
}

static void show_cpu_state(void)
{
    struct gpu_record now;
    if (!gauge_glance("", 0, &now, NULL) && !isnan(now.load_1m))
        printf("         host load %.1f, %ld processors\n", now.load_1m, sysconf(_SC_NPROCESSORS_ONLN));
}

static enum status show_cpu(struct err *err)
{
    struct device *device;
    struct device_info info;
    struct reserved reserved;
    enum status status = cpu_backend()->device_open(DEVICE_FIRST, 0, &device, err);
    if (status) return status;
    cpu_backend()->device_describe(device, &info);
    cpu_backend()->device_close(device);
    printf("%-8s %s, %s (%s free)\n", info.short_name, info.name, TEXT_BYTES(info.total_bytes),
           TEXT_BYTES(info.available_bytes));
    show_cpu_state();
    reserved.rows = memory_share_list(memory_share_device(&info), &reserved.count);
    show_reserved(&reserved);
    free(reserved.rows);
    return STATUS_OK;
}

/* "989.4 TFLOP/s bf16, 494.7 tf32, 66.9 fp32 (published)"; nothing if not known. */
static void show_peaks(const struct cuda_device_report *report)
{
    static const enum precision order[] = {PRECISION_BF16, PRECISION_TF32, PRECISION_FP32};
    int shown = 0;
    for (int i = 0; i < PRECISIONS; i++) {
        double peak = report->info.peak_flops[order[i]];
        if (peak <= 0) continue;
        printf(", %.1f %s%s", peak / 1e12, shown++ ? "" : "TFLOP/s ", precision_name(order[i]));
    }
    if (shown) fputs(report->peak_published ? " (published)" : " (by its clock)", stdout);
}

/* Returns whether it can be used. */
static bool show_gpu(const struct cuda_plugin *plugin, const struct cuda_driver_report *driver, int index)
{
    struct cuda_device_report report;
    struct reserved reserved;
    struct err err;
    if (plugin->inspect_device(index, &report, &err)) {
        printf("cuda:%-3d cannot be used: %s\n", index, err.text);
        return false;
    }
    bool usable = report.why_not[0] == '\0';
    printf("cuda:%-3d %s, %s", index, report.info.name, TEXT_BYTES(report.info.total_bytes));
    if (usable) printf(" (%s free)", TEXT_BYTES(report.info.available_bytes));
    printf(", compute capability %d.%d, driver for CUDA %d.%d", report.major, report.minor,
           driver->driver / 1000, driver->driver % 1000 / 10);
    show_peaks(&report);
    putchar('\n');
    if (!usable) printf("         cannot be used: %s\n", report.why_not);
    reserved.rows = memory_share_list(report.info.uuid, &reserved.count);
    show_reserved(&reserved);
    if (usable) show_gpu_state(report.info.uuid, &reserved);
    free(reserved.rows);
    return usable;
}

static void show_gpus(const struct cuda_plugin *plugin, const struct cuda_driver_report *driver)
{
    int first = -1;
    for (int i = 0; i < driver->devices; i++)
        if (show_gpu(plugin, driver, i) && first < 0) first = i;
    if (driver->devices > 1 && first >= 0)
        printf("         training takes cuda:%d (--device cuda:N chooses another)\n", first);
}

/* Whether a trace can see into the GPU. */
static void show_cupti(const struct cuda_plugin *plugin)
{
    struct err why = {0};
    if (plugin->find_cupti(&why))
        printf("CUPTI    %s: the trace of a step has its operations, but not the GPU's kernels and copies\n",
               why.text);
    else
        puts(
            "CUPTI    found: the trace of a step (profile.trace_step) also has the GPU's kernels, with their "
            "registers and occupancy, and copies");
}

/* Whether a library is there, and what for. */
static void show_library(const char *name, enum status (*find)(struct err *err), const char *use)
{
    struct err why = {0};
    if (find(&why))
        printf("%-8s %s\n", name, why.text);
    else
        printf("%-8s found: %s\n", name, use);
}

static enum status run(const void *options, const struct words *words, struct err *err)
{
    const struct cuda_plugin *plugin;
    struct cuda_driver_report driver;
    struct err why;
    (void)options, (void)words;
    enum status status = show_cpu(err);
    if (status) return status;
    status = cuda_plugin_open(&plugin, &why);
    if (!status) status = plugin->inspect(&driver, &why);
    if (status) {
        printf("cuda     cannot be used: %s\n", why.text);
        return STATUS_OK;
    }
    show_gpus(plugin, &driver);
    show_cupti(plugin);
    show_library("cuDNN", plugin->find_cudnn,
                 "kernels.attention = auto takes its attention where it is faster");
    if (driver.devices > 1)
        show_library("NCCL", plugin->find_nccl, "several ranks (--ranks N) can train on these GPUs together");
    return STATUS_OK;
}

const struct command command_devices = {
    .line = {.name = "devices",
             .words = "",
             .about =
                 "Prints the devices that anneal can train on, how much of their memory is free, which "
                 "processes hold the rest, and why a GPU cannot be used; with a GPU also whether CUPTI is "
                 "installed, with which traces show the GPU's kernels, and cuDNN, which may have faster "
                 "attention, and with several GPUs whether NCCL is, which ranks on them need.\n"
                 "The reservations of all your runs on this host are listed; those of another "
                 "ANNEAL_HOME are marked with it. They are kept in /dev/shm, or in the folder that "
                 "ANNEAL_LEDGER names, which several users may share."},
    .summary = "list the devices that can train, and why others cannot",
    .run = run,
};
