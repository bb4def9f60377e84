/* Adapters merged into the weights of their base: W + scale · B A, computed in fp32 and rounded to the type
 * in which the base stores W. What was trained beside the adapters replaces the base's; adapters that make a
 * classifier of a language model bring its head and their config.json, and those that were trained with
 * another pooling their config.json. */
#ifndef ANNEAL_CORE_CHECKPOINT_MERGE_H
#define ANNEAL_CORE_CHECKPOINT_MERGE_H

#include <stdint.h>

#include "core/base/err.h"

#include "datasets/progress.h"

/* Writes the model in the folder `base` with the adapters in the folders `adapters` (count of them, at most
 * ADAPTER_STACK_MAX), added up, merged into its weights to a new or empty folder `to`, as checkpoint_export
 * does. A tokenizer that comes with the first ones goes before that of the base, and they alone may make a
 * classifier. STATUS_USAGE: the adapters do not fit the base. */
enum status checkpoint_merge(const char *base, const char *const *adapters, int count, const char *to,
                             const struct progress *progress, int64_t *bytes, struct err *err);

#endif
