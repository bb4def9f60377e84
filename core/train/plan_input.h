/* The plan that a configuration and a device ask for: training, `anneal estimate` and `anneal bench` plan the
 * same. */
#ifndef ANNEAL_CORE_TRAIN_PLAN_INPUT_H
#define ANNEAL_CORE_TRAIN_PLAN_INPUT_H

#include "core/model/config.h"
#include "core/network/plan.h"

/* Of training `model` with this configuration on `device`, which is asked, not kept. */
struct plan_input plan_input_of(const struct config *config, const struct model *model,
                                const struct backend *backend, struct device *device);

#endif
