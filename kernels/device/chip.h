/* What NVIDIA publishes about its GPUs: the peak compute rate, which utilisation is measured against, memory,
 * and the links between GPUs of a host.
 *
 * The table has dense figures. They are better than the clock attribute, which on some chips differs from the
 * clock behind them. For other chips: operations per clock and multiprocessor, by compute capability, times
 * multiprocessors, times the reported clock, which gives the published figures at the published clocks. 0 if
 * neither applies: no utilisation is better than a wrong one. */
#ifndef ANNEAL_KERNELS_DEVICE_CHIP_H
#define ANNEAL_KERNELS_DEVICE_CHIP_H

#include "kernels/device/backend.h"

/* A GPU's data sheet. */
struct chip_sheet {
    const char *word;    /* for options: "h100"; NULL: only a fallback for names of the driver */
    const char *model;   /* words of the driver's name */
    int major;           /* of the compute capability */
    int multiprocessors; /* of the whole chip: a MIG slice or a smaller chip of the same name has fewer */
    double teraflops[PRECISIONS];
    double memory_gib;
    double bandwidth_gbs; /* of the memory, 10^9 bytes per second */
    double link_gbs;      /* to the other GPUs of its host, 10^9 bytes per second in each direction */
    const char *link;     /* "NVLink", "PCI Express 4.0" */
};

/* The sheet that has this word, in capitals or not; NULL: none has. */
const struct chip_sheet *chip_find(const char *word);
/* All words, with commas between. Returns buf; 300 bytes are enough. */
char *chip_words(char *buf, size_t size);

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
