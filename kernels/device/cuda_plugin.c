/* See cuda_plugin.h. */
#include "kernels/device/cuda_plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"

/* NULL: it is looked for beside the program. */
static const char *named_plugin(void)
{
    const char *name = getenv("ANNEAL_CUDA_PLUGIN");
    return name != NULL && *name != '\0' ? name : NULL;
}

enum status cuda_plugin_open(const struct cuda_plugin **out, struct err *err)
{
    char path[PATH_MAX];
    const char *named = named_plugin();
    enum status status = named ? file_format_path(path, sizeof path, err, "%s", named)
                               : file_of_program("anneal_cuda.so", path, sizeof path, err);
    if (status) return status;
    if (named && strcmp(named, "none") == 0)
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
    *out = plugin;
    return STATUS_OK;
}

/* The plugin brings cuBLASLt's tables, 140 MiB and a tenth of a second, for nothing where there is no driver.
 * One that the user names may need none. */
static bool lacks_driver(void)
{
    return named_plugin() == NULL && dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) == NULL;
}

enum status cuda_backend_open(const struct backend **out, struct err *err)
{
    const struct cuda_plugin *plugin;
    struct cuda_device_report device;
    int index = DEVICE_FIRST;
    if (lacks_driver())
        return err_set(err, STATUS_FAILED,
                       "no NVIDIA driver is installed: libcuda.so.1 is missing (`anneal devices` names the "
                       "version that is needed)");
    enum status status = cuda_plugin_open(&plugin, err);
    if (!status) status = plugin->find_device(&index, &device, err);
    if (!status) *out = plugin->table;
    return status;
}
