/* The CPU backend's choice: which instruction set's table to use. The tables are the same sources compiled
 * several times; see KERNEL_SRC in the Makefile. */
#ifndef ANNEAL_KERNELS_DEVICE_CPU_H
#define ANNEAL_KERNELS_DEVICE_CPU_H

#include "kernels/device/backend.h"

/* The table compiled for `isa`: "baseline", "v3" (AVX2, FMA) or "v4" (AVX-512); NULL when this processor or
 * this build does not have it. "baseline" is always there. */
const struct backend *cpu_backend_for(const char *isa);

/* Name of the instruction set cpu_backend() chose. The environment variable ANNEAL_CPU_ISA chooses another
 * one, if the processor has it. */
const char *cpu_isa(void);

#endif
