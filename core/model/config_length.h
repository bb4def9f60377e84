/* How long a run is: its steps and epochs, and the batches of each step. config.h has what others use:
 * config_settle_steps and config_micro_batches. Here: the check, for config_finish. */
#ifndef ANNEAL_CORE_MODEL_CONFIG_LENGTH_H
#define ANNEAL_CORE_MODEL_CONFIG_LENGTH_H

#include "core/model/config.h"

/* STATUS_USAGE: something must happen after the last step. */
enum status config_check_length(const struct config *config, struct err *err);

#endif
