/* Compiles attention by the real cuDNN, for a GPU that is not there. */
#ifndef ANNEAL_TESTS_CUDA_SIM_ABSENT_H
#define ANNEAL_TESTS_CUDA_SIM_ABSENT_H

#include "kernels/device/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* STATUS_NOT_FOUND: there is no cuDNN, or it refuses. *version: of the library, 91900 is 9.19. */
enum status absent_compile(int major, int minor, const struct attention_problem *problem, int *version,
                           size_t *workspace, struct err *err);

/* The bound on its scratch that a plan counts with. */
size_t absent_workspace(int major, int version, const struct attention_problem *problem);

#ifdef __cplusplus
}
#endif

#endif
