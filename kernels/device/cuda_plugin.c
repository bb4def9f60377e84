/* See cuda_plugin.h. */
#include "kernels/device/cuda_plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"

static enum status open_library(void **library, const struct cuda_plugin **out, struct err *err)
{
    char path[PATH_MAX];
    const char *wish = getenv("ANNEAL_CUDA_PLUGIN");
    bool named = wish != NULL && *wish != '\0';
    enum status status = named ? file_format_path(path, sizeof path, err, "%s", wish)
                               : file_of_program("anneal_cuda.so", path, sizeof path, err);
    if (status) return status;
    if (named && strcmp(wish, "none") == 0)
        return err_set(err, STATUS_NOT_FOUND, "ANNEAL_CUDA_PLUGIN is none, which excludes GPUs");
    if (!file_exists(path))
        return err_set(
            err, STATUS_NOT_FOUND,
            "the CUDA plugin %s is missing%s (build it with `make CUDA=1` where nvcc is, or name it "
            "in ANNEAL_CUDA_PLUGIN)",
            path, named ? "" : ", and not in ../lib/anneal either");
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        return err_set(
            err, STATUS_FAILED,
            "the CUDA plugin cannot be loaded: %s (install NVIDIA's CUDA 13 libraries, or put that "
            "one next to the plugin)",
            dlerror());
    const struct cuda_plugin *plugin = dlsym(handle, "cuda_plugin");
    if (plugin == NULL || plugin->plugin_bytes != sizeof *plugin ||
        plugin->backend_bytes != sizeof(struct backend)) {
        dlclose(handle);
        return err_set(err, STATUS_FAILED,
                       "%s belongs to another build of anneal (build and install both together)", path);
    }
    *library = handle;
    *out = plugin;
    return STATUS_OK;
}

enum status cuda_plugin_open(const struct cuda_plugin **out, struct err *err)
{
    void *library;
    return open_library(&library, out, err);
}

/* The plugin brings cuBLASLt's tables, 140 MiB, which a process that trains on the CPU need not keep. If a
 * driver is loaded, it may have threads in the plugin by now, so the plugin stays. */
static void close_without_driver(void *library, const struct cuda_plugin *plugin)
{
    struct cuda_driver_report driver = {0};
    plugin->inspect(&driver, NULL);
    if (driver.driver == 0) dlclose(library);
}

enum status cuda_backend_open(const struct backend **out, struct err *err)
{
    void *library;
    const struct cuda_plugin *plugin;
    struct cuda_device_report device;
    int index = DEVICE_FIRST;
    enum status status = open_library(&library, &plugin, err);
    if (status) return status;
    status = plugin->find_device(&index, &device, err);
    if (status)
        close_without_driver(library, plugin);
    else
        *out = plugin->table;
    return status;
}
