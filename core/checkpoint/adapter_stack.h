/* Several adapters beside one base at a time: what they compute is added up. Their matrices A are stacked,
 * and their matrices B, each times its scale, stand side by side, so that together they are one adapter whose
 * rank is the sum of their ranks and whose scale is 1. For forward passes alone. */
#ifndef ANNEAL_CORE_CHECKPOINT_ADAPTER_STACK_H
#define ANNEAL_CORE_CHECKPOINT_ADAPTER_STACK_H

#include "core/base/err.h"
#include "core/network/network.h"

enum { ADAPTER_STACK_MAX = 8 };

/* The adapter that the adapters in the folders make together; one alone is as it is. */
enum status adapter_stack_read(const char *const *folders, int count, struct adapter_config *out,
                               struct err *err);

/* Uploads them to a network whose model has that adapter, and parameters saved beside them over those of the
 * base, which must be loaded. STATUS_USAGE: they do not fit the model, were trained on another base, or two
 * of them bring the same parameter of the base. */
enum status adapter_stack_load(const char *const *folders, int count, struct network *network,
                               struct err *err);

#endif
