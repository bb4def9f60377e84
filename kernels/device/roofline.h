/* How long operations take on a GPU, estimated from its data sheet: an operation takes as long as its FLOPs
 * at the rate that this kind of operation reaches, or its bytes at the rate that memory reaches, whichever is
 * longer (Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", 2009), and
 * never less than starting it. An estimate, not a measurement: no rate below is of our own kernels. */
#ifndef ANNEAL_KERNELS_DEVICE_ROOFLINE_H
#define ANNEAL_KERNELS_DEVICE_ROOFLINE_H

#include "kernels/device/chip.h"
#include "kernels/device/observed.h"

/* The shares of a published peak that operations are assumed to reach, the same for all GPUs. The products of
 * whole training runs reach about 0.6 (H100) to 0.8 (A100) of it, fused attention, forward and backward, 0.3
 * to 0.6, element-wise kernels 0.8 to 0.9 of the memory's rate. */
#define ROOFLINE_PRODUCTS  0.7
#define ROOFLINE_ATTENTION 0.4
#define ROOFLINE_MEMORY    0.8
#define ROOFLINE_STARTING  3e-6 /* seconds */

/* The rates that operations reach. */
struct roofline {
    double products;  /* FLOP/s of matrix products */
    double attention; /* FLOP/s */
    double others;    /* FLOP/s of element-wise operations and sums */
    double memory;    /* bytes per second */
    double starting;  /* seconds: the least that an operation takes */
};

struct roofline roofline_of(const struct chip_sheet *sheet, enum precision precision);

double roofline_seconds(const struct roofline *roofline, const struct operation_call *call);

#endif
