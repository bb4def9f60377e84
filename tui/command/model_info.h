/* What lies in the folder of a model, from the headers of its files alone: for `anneal model info`. */
#ifndef ANNEAL_TUI_COMMAND_MODEL_INFO_H
#define ANNEAL_TUI_COMMAND_MODEL_INFO_H

#include <stdbool.h>

#include "core/base/err.h"

/* Prints it on standard output. A config.json that we do not compute is said and no obstacle; without the
 * weights, or a shard that their index lists, STATUS_NOT_FOUND. */
enum status model_info_print(const char *folder, bool json, struct err *err);

#endif
