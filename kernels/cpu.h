/* The CPU backend's choices: which instruction set's table to use, and which kernels OpenBLAS should. The
 * tables are the same sources compiled several times; see KERNEL_SRC in the Makefile. */
#ifndef ANNEAL_KERNELS_CPU_H
#define ANNEAL_KERNELS_CPU_H

#include "kernels/backend.h"

/* The table compiled for `isa`: "baseline", "v3" (AVX2, FMA) or "v4" (AVX-512); NULL when this processor or
 * this build does not have it. "baseline" is always there. */
const struct backend *cpu_backend_for(const char *isa);

/* Name of the instruction set cpu_backend() chose. The environment variable ANNEAL_CPU_ISA chooses another
 * one, if the processor has it. */
const char *cpu_isa(void);

/* The OPENBLAS_CORETYPE that OpenBLAS should run with but does not: older releases do not know newer
 * processors and give them kernels without AVX-512, at half the speed. "SkylakeX" when the processor has
 * AVX-512 F, BW, CD, DQ and VL, the user has set no OPENBLAS_CORETYPE, and OpenBLAS chose a core without
 * AVX-512; else NULL. */
const char *cpu_blas_wanted_coretype(void);

/* OpenBLAS reads OPENBLAS_CORETYPE before main, so a wish for another core means starting over: when
 * cpu_blas_wanted_coretype gives one, sets it and executes this binary again with argv. Returns when there is
 * nothing to wish for or the system refuses (then it goes on more slowly). Sets ANNEAL_REEXECUTED, which
 * stops a second round. Call it before anything is opened or any thread started. */
void cpu_blas_reexec(char **argv);

#endif
