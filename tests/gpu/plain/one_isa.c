/* The CPU backend of gpu-check's own build: its twins are compiled once, so there is nothing to choose.
 * Takes the place of kernels/device/cpu_select.c; not linked into anything else. */
#include "kernels/device/cpu.h"

extern const struct backend cpu_table;

const struct backend *cpu_backend(void)
{
    return &cpu_table;
}

enum bf16_products cpu_bf16_products(void)
{
    return BF16_WIDENED;
}
