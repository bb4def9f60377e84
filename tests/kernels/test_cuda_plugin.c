/* The CUDA plugin as the program opens it. */
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

TEST_CASE(a_plugin_that_is_named_is_loaded_without_a_driver)
{
    const struct backend *table;
    struct err err = {0};
    setenv("ANNEAL_CUDA_PLUGIN", stand_in(), 1);
    assert_int_equal(cuda_backend_open(&table, &err), STATUS_FAILED);
    assert_string_equal(err.text, "no NVIDIA driver is loaded");
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
