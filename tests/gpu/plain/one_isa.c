/* The CPU backend of gpu-check's own build: its twins are compiled once, so there is nothing to choose.
 * Takes the place of kernels/device/cpu_select.c; not linked into anything else. */
#include "kernels/device/cpu.h"

extern const struct backend cpu_table;

const struct backend *cpu_backend(void)
{
    return &cpu_table;
}

enum product_way cpu_product_way(void)
{
    return WAY_FMA;
}
