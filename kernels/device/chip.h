/* The most that an NVIDIA chip can compute: the peaks that utilisation is measured against.
 *
 * A table holds what NVIDIA publishes, dense: of some chips the clock attribute is another than the figure's.
 * For the rest: operations a clock and multiprocessor, by compute capability, times multiprocessors times the
 * reported clock, which reproduces the published figures at the published clocks. Where neither knows, 0: no
 * utilisation rather than a wrong one. */
#ifndef ANNEAL_KERNELS_DEVICE_CHIP_H
#define ANNEAL_KERNELS_DEVICE_CHIP_H

#include "kernels/device/backend.h"

struct chip {
    const char *name; /* as the driver says it: "NVIDIA H100 80GB HBM3" */
    int major, minor; /* compute capability */
    int multiprocessors;
    double hertz; /* boost clock; 0: unknown */
};

enum chip_source { CHIP_UNKNOWN, CHIP_PUBLISHED, CHIP_BY_CLOCK };

/* Operations a second (two for a multiply-add) of dense matrix products in each precision, accumulated in
 * fp32: fp32 on the ordinary cores, tf32 and bf16 on tensor cores. 0 where unknown. */
enum chip_source chip_peaks(const struct chip *chip, double out[PRECISIONS]);

#endif
