/* How the CPU computes: which instruction set's table. The tables are the same sources compiled several
 * times; see KERNEL_SRC in the Makefile. */
#ifndef ANNEAL_KERNELS_DEVICE_CPU_H
#define ANNEAL_KERNELS_DEVICE_CPU_H

#include "kernels/device/backend.h"

/* The table compiled for `isa`: "baseline", "v3" (AVX2, FMA) or "v4" (AVX-512), which is also that of
 * "v4-bf16", "v4-dot" (and AVX512-BF16) and "v4-amx" (and AMX); NULL if this processor or this build does not
 * have it. "baseline" always exists. */
const struct backend *cpu_backend_for(const char *isa);

/* The name of the instruction set that cpu_backend() chose. The environment variable ANNEAL_CPU_ISA chooses
 * another one, if the processor has it. */
const char *cpu_isa(void);

/* Writes a warning for the user if that variable has no effect or costs speed; NULL: neither. */
const char *cpu_isa_note(char *buf, size_t size);

/* Whether it is "v4-bf16", "v4-dot" or "v4-amx": operations in bf16 use the processor's conversions. */
bool cpu_has_bf16(void);

/* How products are computed: */
enum product_way {
    WAY_FMA,  /* in fp32 */
    WAY_DOTS, /* with "v4-dot" those of numbers in bf16 by vdpbf16ps. It is chosen for AMD's processors, which
               * do twice as many multiplications with it as with FMA; Intel's do half as many */
    WAY_AMX /* with "v4-amx": by the matrix unit of Intel's processors, which does about twenty times as many
             * in bf16 as FMA in fp32 */
};

enum product_way cpu_product_way(void);

#endif
