/* The peak compute rate of an NVIDIA chip, which utilisation is measured against.
 *
 * A table has NVIDIA's published dense figures, because on some chips the clock attribute differs from the
 * clock behind them. For other chips: operations per clock and multiprocessor, by compute capability, times
 * multiprocessors, times the reported clock, which gives the published figures at the published clocks. 0 if
 * neither applies: no utilisation is better than a wrong one. */
#ifndef ANNEAL_KERNELS_DEVICE_CHIP_H
#define ANNEAL_KERNELS_DEVICE_CHIP_H

#include "kernels/device/backend.h"

struct chip {
    const char *name; /* as reported by the driver: "NVIDIA H100 80GB HBM3" */
    int major, minor; /* compute capability */
    int multiprocessors;
    double hertz; /* boost clock; 0: unknown */
};

enum chip_source { CHIP_UNKNOWN, CHIP_PUBLISHED, CHIP_BY_CLOCK };

/* Operations per second (two per multiply-add) of dense matrix products in each precision, accumulated in
 * fp32: fp32 on the ordinary cores, tf32 and bf16 on tensor cores. 0 if unknown. */
enum chip_source chip_peaks(const struct chip *chip, double out[PRECISIONS]);

#endif
