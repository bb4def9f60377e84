/* The real binary on a simulated GPU: the simulator as the plugin that child processes open. */
#ifndef ANNEAL_TESTS_CUDA_SIM_SIMULATED_PLUGIN_H
#define ANNEAL_TESTS_CUDA_SIM_SIMULATED_PLUGIN_H

/* Child processes use the simulator from now on; `machine` is the value of $ANNEAL_SIM_MACHINE, see
 * simulator.h and faults.cc. */
void simulated_plugin_use(const char *machine);
/* A test's teardown: ends child processes and removes the plugin. */
int simulated_plugin_forget(void **state);

#endif
