/* Several adapters beside one base at a time: what they compute is added up. Their matrices A are stacked,
 * and their matrices B, each times its scale, stand side by side, so that together they are one adapter whose
 * rank is the sum of their ranks and whose scale is 1. One alone stays as it is. For forward passes and
 * merging. */
#ifndef ANNEAL_CORE_CHECKPOINT_ADAPTER_STACK_H
#define ANNEAL_CORE_CHECKPOINT_ADAPTER_STACK_H

#include "core/base/err.h"
#include "core/model/safetensors.h"
#include "core/network/network.h"

enum { ADAPTER_STACK_MAX = 8 };

/* The adapter that the adapters in the folders make together. */
enum status adapter_stack_read(const char *const *folders, int count, struct adapter_config *out,
                               struct err *err);

struct adapter_stack {
    struct stacked_adapter {
        struct adapter_config config;
        struct safetensors file;
        int first; /* of its rows of A and columns of B */
    } adapters[ADAPTER_STACK_MAX];
    int count;
};

/* Opens them for a model that has the adapter of adapter_stack_read. STATUS_USAGE: they do not fit the model,
 * were trained on another base, or two of them bring the same parameter of the base. Close it also after a
 * failure. */
enum status adapter_stack_open(struct adapter_stack *stack, const char *const *folders, int count,
                               const struct model *model, struct err *err);
void adapter_stack_close(struct adapter_stack *stack); /* harmless on a zeroed struct */

/* The tensor of the parameter in the file of the one that brings it; NULL: none does. */
const struct safetensor *adapter_stack_find(const struct adapter_stack *stack, const char *param);
/* A or B of the adapter that they make, (rows, cols) of the parameter; malloc'd. NULL: no memory. */
float *adapter_stack_matrix(const struct adapter_stack *stack, const struct param *param);

/* Uploads them to a network whose model has that adapter, and parameters saved beside them over those of the
 * base, which must be loaded. */
enum status adapter_stack_load(const char *const *folders, int count, struct network *network,
                               struct err *err);

#endif
