/* The CUDA plugin as the program opens it. */
#include <dlfcn.h>

#include "kernels/device/cuda_plugin.h"
#include "tests/cmocka.h"

/* Beside this program. */
static const char *stand_in(void)
{
    static char path[4096 + 64];
    char *program = realpath("/proc/self/exe", NULL);
    assert_non_null(program);
    snprintf(path, sizeof path, "%.*s/stand_in/anneal_cuda.so", (int)(strrchr(program, '/') - program),
             program);
    free(program);
    return path;
}

static bool is_loaded(void)
{
    void *library = dlopen(stand_in(), RTLD_NOW | RTLD_NOLOAD);
    if (library) dlclose(library);
    return library != NULL;
}

/* With it cuBLASLt would stay, 140 MiB of a process that trains on the CPU. */
TEST_CASE(a_plugin_without_a_driver_is_not_kept)
{
    const struct backend *table;
    const struct cuda_plugin *plugin;
    struct err err = {0};
    setenv("ANNEAL_CUDA_PLUGIN", stand_in(), 1);
    assert_int_equal(cuda_backend_open(&table, &err), STATUS_FAILED);
    assert_string_equal(err.text, "no NVIDIA driver is loaded");
    assert_false(is_loaded());
    assert_int_equal(cuda_plugin_open(&plugin, &err),
                     STATUS_OK); /* a program that only lists devices keeps it */
    assert_true(is_loaded());
}

TEST_CASE(none_is_no_missing_file)
{
    const struct cuda_plugin *plugin;
    struct err err = {0};
    setenv("ANNEAL_CUDA_PLUGIN", "none", 1);
    assert_int_equal(cuda_plugin_open(&plugin, &err), STATUS_NOT_FOUND);
    assert_string_equal(err.text, "ANNEAL_CUDA_PLUGIN is none, which excludes GPUs");
}

TEST_MAIN()
