/* anneal devices: what it can train on, and why not. A line a device: its name for --device and the runs'
 * device column, what it is, its memory; of a GPU also what of it is free, compute capability, driver and the
 * peaks of matrix products, published for the chip or worked out from its clock. Training takes the first GPU
 * that can be used; CUDA_VISIBLE_DEVICES chooses another. */
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "kernels/backend.h"
#include "kernels/cuda_plugin.h"
#include "tui/command/clean.h"
#include "tui/command/command.h"
#include "tui/command/commands.h"
#include "tui/command/memory_share.h"

/* The reservations on a device, a line each. A ledger that cannot be read has none to show. */
static void show_holders(const char *device)
{
    char home[PATH_MAX], bytes[32], used[32], holder[3 * LEDGER_TEXT];
    struct ledger *ledger = NULL;
    struct reservation *rows = NULL;
    size_t count = 0;
    if (file_anneal_home(home, sizeof home, NULL) || !file_exists(home) || ledger_open(home, &ledger, NULL))
        return;
    if (ledger_list(ledger, device, &rows, &count, NULL)) count = 0;
    for (size_t i = 0; i < count; i++) {
        clean_line(holder, sizeof holder, rows[i].holder);
        printf("         %s reserved by %s, process %" PRId64,
               text_format_bytes((uint64_t)rows[i].bytes, bytes, sizeof bytes), holder, rows[i].pid);
        if (rows[i].used > 0)
            printf(", %s in use", text_format_bytes((uint64_t)rows[i].used, used, sizeof used));
        putchar('\n');
    }
    free(rows);
    ledger_close(ledger);
}

static enum status show_cpu(struct err *err)
{
    struct device *device;
    struct device_info info;
    char memory[32];
    enum status status = cpu_backend()->device_open(0, &device, err);
    if (status) return status;
    cpu_backend()->device_describe(device, &info);
    cpu_backend()->device_close(device);
    printf("%-8s %s, %s\n", info.short_name, info.name,
           text_format_bytes((uint64_t)info.total_bytes, memory, sizeof memory));
    show_holders(memory_share_device(&info));
    return STATUS_OK;
}

/* "989.4 TFLOP/s bf16, 494.7 tf32, 66.9 fp32 (published)"; nothing where nothing is known. */
static void show_peaks(const struct cuda_device_report *report)
{
    static const enum precision order[] = {PRECISION_BF16, PRECISION_TF32, PRECISION_FP32};
    int shown = 0;
    for (int i = 0; i < PRECISIONS; i++) {
        double peak = report->peak_flops[order[i]];
        if (peak <= 0) continue;
        printf(", %.1f %s%s", peak / 1e12, shown++ ? "" : "TFLOP/s ", precision_name(order[i]));
    }
    if (shown) fputs(report->peak_published ? " (published)" : " (by its clock)", stdout);
}

/* Returns whether it can be used. */
static bool show_gpu(const struct cuda_plugin *plugin, const struct cuda_driver_report *driver, int index)
{
    struct cuda_device_report report;
    struct err err;
    char memory[32];
    if (plugin->inspect_device(index, &report, &err)) {
        printf("cuda:%-3d cannot be used: %s\n", index, err.text);
        return false;
    }
    bool usable = report.why_not[0] == '\0';
    printf("cuda:%-3d %s, %s", index, report.name,
           text_format_bytes((uint64_t)report.total_bytes, memory, sizeof memory));
    if (usable) printf(" (%s free)", text_format_bytes((uint64_t)report.free_bytes, memory, sizeof memory));
    printf(", compute capability %d.%d, driver for CUDA %d.%d", report.major, report.minor,
           driver->driver / 1000, driver->driver % 1000 / 10);
    show_peaks(&report);
    putchar('\n');
    if (!usable) printf("         cannot be used: %s\n", report.why_not);
    show_holders(report.uuid);
    return usable;
}

static void show_gpus(const struct cuda_plugin *plugin, const struct cuda_driver_report *driver)
{
    int first = -1;
    for (int i = 0; i < driver->devices; i++)
        if (show_gpu(plugin, driver, i) && first < 0) first = i;
    if (driver->devices > 1 && first >= 0)
        printf("         training takes cuda:%d (CUDA_VISIBLE_DEVICES chooses another)\n", first);
}

int command_devices(int argc, char **argv)
{
    const struct cuda_plugin *plugin;
    struct cuda_driver_report driver;
    struct err err = {0};
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        puts("usage: anneal devices\n"
             "\n"
             "Prints what anneal can train on here, what of its memory is free and who holds the rest, and "
             "why a GPU "
             "cannot\n"
             "be used.");
        return 0;
    }
    if (argc > 1) return command_usage(argv[0], "takes no arguments");
    if (show_cpu(&err)) return command_fail(&err);
    enum status status = cuda_plugin_open(&plugin, &err);
    if (!status) status = plugin->inspect(&driver, &err);
    if (status)
        printf("cuda     cannot be used: %s\n", err.text);
    else
        show_gpus(plugin, &driver);
    if (fflush(stdout) == 0) return 0;
    err_set(&err, STATUS_IO, "standard output: cannot write");
    return command_fail(&err);
}
