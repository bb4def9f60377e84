/* anneal devices: what it can train on, and why not. A line a device: its name for --device and the runs'
 * device column, what it is, its memory; of a GPU also compute capability, driver and fp32 peak. */
#include <stdio.h>

#include "core/base/text.h"
#include "kernels/backend.h"
#include "kernels/cuda_plugin.h"
#include "tui/command/command.h"
#include "tui/command/commands.h"

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
    return STATUS_OK;
}

static void show_gpu(const struct cuda_plugin *plugin, const struct cuda_driver_report *driver, int index)
{
    struct cuda_device_report report;
    struct err err;
    char memory[32];
    if (plugin->inspect_device(index, &report, &err)) {
        printf("cuda:%-3d cannot be used: %s\n", index, err.text);
        return;
    }
    printf("cuda:%-3d %s, %s, compute capability %d.%d, driver for CUDA %d.%d", index, report.name,
           text_format_bytes((uint64_t)report.total_bytes, memory, sizeof memory), report.major, report.minor,
           driver->driver / 1000, driver->driver % 1000 / 10);
    if (report.peak_flops > 0) printf(", %.1f TFLOP/s fp32 by its clock", report.peak_flops / 1e12);
    putchar('\n');
    if (report.why_not[0] != '\0') printf("         cannot be used: %s\n", report.why_not);
}

int command_devices(int argc, char **argv)
{
    const struct cuda_plugin *plugin;
    struct cuda_driver_report driver;
    struct err err = {0};
    if (argc > 1) return command_usage(argv[0], "takes no arguments");
    if (show_cpu(&err)) return command_fail(&err);
    enum status status = cuda_plugin_open(&plugin, &err);
    if (!status) status = plugin->inspect(&driver, &err);
    if (status)
        printf("cuda     cannot be used: %s\n", err.text);
    else
        for (int i = 0; i < driver.devices; i++) show_gpu(plugin, &driver, i);
    if (fflush(stdout) == 0) return 0;
    err_set(&err, STATUS_IO, "standard output: cannot write");
    return command_fail(&err);
}
