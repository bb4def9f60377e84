/* Work that may end its process, as a finding of the simulator does, in a child of the test. */
#ifndef ANNEAL_TESTS_CUDA_SIM_CHILD_H
#define ANNEAL_TESTS_CUDA_SIM_CHILD_H

#include <stddef.h>

/* Runs `work` in a child; returns its exit status, or 128 + the signal. Its standard error is copied to buf,
 * truncated to `size`. */
int child_run(void (*work)(int argument), int argument, char *buf, size_t size);

#endif
