/* Checks for gpu-check that GPUs exchange through NCCL: two of them in a world of two ranks or, where there
 * is one GPU, that one in a world of one. */
#ifndef ANNEAL_TESTS_GPU_RANKS_H
#define ANNEAL_TESTS_GPU_RANKS_H

#include "kernels/device/cuda_plugin.h"

struct ranks_sight {
    int ranks;
    bool exact;          /* all collectives gave every rank the exact values */
    double milliseconds; /* of an all_reduce of n values, on rank 0 */
};

/* Each rank is a process of its own, forked from this one, which may not have used its GPUs yet.
 * STATUS_NOT_FOUND: NCCL is missing, the message says where it was looked for. */
enum status ranks_look(const struct cuda_plugin *plugin, size_t n, struct ranks_sight *out, struct err *err);

#endif
