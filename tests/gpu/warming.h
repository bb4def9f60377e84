/* Warms up a device as the trainer does before a training, for the parts of gpu-check. */
#ifndef ANNEAL_TESTS_GPU_WARMING_H
#define ANNEAL_TESTS_GPU_WARMING_H

#include "kernels/device/backend.h"

/* Warms up for this work in the stream's precision. folder: stores the choices, so that the next call makes
 * the same ones; NULL: not stored, and two runs may round differently. Warnings are printed. */
enum status warm_up(const struct backend *backend, struct device *device, struct stream *stream,
                    const struct warm_work *work, const char *folder, struct err *err);

/* Has cuDNN compute both passes of this attention, where it can, and lends the stream the memory for it,
 * which is the caller's to free after taking it back. STATUS_NOT_FOUND: cuDNN is missing. */
enum status warm_cudnn(const struct backend *backend, struct device *device, struct stream *stream,
                       struct attention_problem problem, void **workspace, struct err *err);

#endif
