/* The real binary on a simulated GPU: the simulator as the plugin that child processes open. */
#ifndef ANNEAL_TESTS_CUDA_SIM_SIMULATED_PLUGIN_H
#define ANNEAL_TESTS_CUDA_SIM_SIMULATED_PLUGIN_H

/* From now on; `machine` as $ANNEAL_SIM_MACHINE has it, see simulator.h and faults.cc. */
void simulated_plugin_use(const char *machine);
/* A test's teardown: no plugin any more, and no child. */
int simulated_plugin_forget(void **state);

#endif
