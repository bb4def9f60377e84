/* See simulated_plugin.h. */
#include "tests/cuda_sim/simulated_plugin.h"

#include "tests/cmocka.h"
#include "tests/kept.h"

/* The plugin is in the folder of the tests, one below the binary's. */
void simulated_plugin_use(const char *machine)
{
    char path[4096];
    const char *binary = getenv("ANNEAL_BINARY");
    assert_non_null(binary);
    snprintf(path, sizeof path, "%.*s/tests/cuda_sim/simulated_cuda.so", (int)(strrchr(binary, '/') - binary),
             binary);
    setenv("ANNEAL_CUDA_PLUGIN", path, 1);
    setenv("ANNEAL_SIM_MACHINE", machine, 1);
}

int simulated_plugin_forget(void **state)
{
    setenv("ANNEAL_CUDA_PLUGIN", "none", 1);
    unsetenv("ANNEAL_SIM_MACHINE");
    unsetenv("ANNEAL_SIM_STREAMS");
    return kept_teardown(state);
}
