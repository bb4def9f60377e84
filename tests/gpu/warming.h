/* Warms up matrix products as the trainer does before a training, for the parts of gpu-check. */
#ifndef ANNEAL_TESTS_GPU_WARMING_H
#define ANNEAL_TESTS_GPU_WARMING_H

#include "kernels/device/backend.h"

/* Warms up these products in the stream's precision. folder: stores the choices, so that the next call makes
 * the same ones; NULL: not stored, and two runs may round differently. Warnings are printed. */
enum status warm_products(const struct backend *backend, struct device *device, struct stream *stream,
                          const struct gemm_shape *shapes, int count, const char *folder, struct err *err);

#endif
