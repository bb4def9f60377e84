/* See device_choice.h. */
#include "tui/session/device_choice.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/network/plan.h"
#include "kernels/device/cuda_plugin.h"

/* Whether a GPU driver is installed: the usual one or WSL's. */
static bool has_driver(void)
{
    return file_exists("/proc/driver/nvidia/version") || file_exists("/dev/dxg") ||
           file_exists("/dev/nvidiactl");
}

static bool has_nvidia_device(void)
{
    glob_t vendors;
    bool found = false;
    if (glob("/sys/bus/pci/devices/*/vendor", 0, NULL, &vendors)) return false;
    for (size_t i = 0; i < vendors.gl_pathc && !found; i++) {
        unsigned vendor = 0;
        FILE *file = fopen(vendors.gl_pathv[i], "r");
        found = file && fscanf(file, "%x", &vendor) == 1 && vendor == 0x10de;
        if (file) fclose(file);
    }
    globfree(&vendors);
    return found;
}

/* Opens a GPU or reports why none is. STATUS_NOT_FOUND, not worth a warning: the machine has neither a driver
 * nor an NVIDIA device, or ANNEAL_CUDA_PLUGIN=none excludes the plugin. */
static enum status open_gpu(struct device_choice *choice, struct err *err)
{
    bool numbered = strncmp(choice->wish, "cuda:", 5) == 0; /* then no other GPU is touched */
    const struct cuda_plugin *plugin;
    enum status status = numbered ? cuda_plugin_open(&plugin, err) : cuda_backend_open(&choice->backend, err);
    if (numbered && !status) choice->backend = plugin->table;
    const char *named = getenv("ANNEAL_CUDA_PLUGIN");
    if (status == STATUS_NOT_FOUND && (named ? strcmp(named, "none") != 0 : has_driver()))
        status = STATUS_FAILED;
    int index = numbered ? atoi(choice->wish + 5) : DEVICE_FIRST;
    if (!status) status = choice->backend->device_open(index, 0, &choice->device, err);
    return status && !named && !has_driver() && !has_nvidia_device() ? STATUS_NOT_FOUND : status;
}

static enum status open_cpu(struct device_choice *choice, struct err *err)
{
    choice->backend = cpu_backend();
    enum status status = choice->backend->device_open(DEVICE_FIRST, choice->threads, &choice->device, err);
    if (!status) choice->backend->device_describe(choice->device, &choice->info);
    return status;
}

enum status device_choice_open(struct device_choice *choice, const char *wish, int threads, struct err *err)
{
    struct err why = {0};
    enum status status = STATUS_NOT_FOUND;
    *choice = (struct device_choice){.wish = wish, .threads = threads};
    if (strcmp(wish, "cpu") != 0) status = open_gpu(choice, &why);
    if (!status) {
        choice->backend->device_describe(choice->device, &choice->info);
        return STATUS_OK;
    }
    choice->device = NULL;
    if (strcmp(wish, "auto") != 0 && strcmp(wish, "cpu") != 0)
        return err_set(err, STATUS_FAILED, "--device %s: %s (use --device cpu or auto)", wish, why.text);
    if (status != STATUS_NOT_FOUND) snprintf(choice->why, sizeof choice->why, "%s", why.text);
    return open_cpu(choice, err);
}

void device_choice_close(struct device_choice *choice)
{
    if (choice->device) choice->backend->device_close(choice->device);
    choice->device = NULL;
}

bool device_choice_has_another(const struct device_choice *choice)
{
    return strcmp(choice->wish, "auto") == 0 && choice->backend != cpu_backend();
}

bool device_choice_may_fall_back(const struct device_choice *choice, const struct err *err)
{
    return (err->status == STATUS_DEVICE || err->status == STATUS_NO_MEMORY) &&
           device_choice_has_another(choice);
}

enum status device_choice_fall_back(struct device_choice *choice, const struct err *why, struct err *err)
{
    snprintf(choice->why, sizeof choice->why, "%s", why->text); /* `why` may be `err` */
    device_choice_close(choice);
    return open_cpu(choice, err);
}

static enum status check_precision(const struct device_choice *choice, enum precision_choice precision,
                                   struct err *err)
{
    struct stream *stream = NULL;
    struct err no = {0};
    if (precision == CHOOSE_BEST) return STATUS_OK;
    enum status status = choice->backend->stream_open(
        choice->device, plan_precision(precision, choice->info.best), &stream, &no);
    if (!status) choice->backend->stream_close(stream);
    if (!status) return STATUS_OK;
    if (status != STATUS_USAGE) return err_set(err, status, "%s", no.text);
    return err_set(err, STATUS_USAGE, "train.precision = %s: %s (set it to auto%s%s)",
                   precision_choice_word(precision), no.text,
                   choice->why[0] ? "; there is no GPU to use: " : "", choice->why);
}

enum status device_choice_settle_precision(struct device_choice *choice, enum precision_choice *precision,
                                           struct err *err)
{
    enum status status = check_precision(choice, *precision, err);
    if (status != STATUS_USAGE || strcmp(choice->wish, "auto") != 0 || choice->backend != cpu_backend())
        return status;
    text_add(choice->why, sizeof choice->why, "; ", "in %s instead of %s", precision_name(choice->info.best),
             precision_choice_word(*precision));
    *precision = CHOOSE_BEST;
    return STATUS_OK;
}
