/* The parts of a plan that `estimate` and `train --dry-run` print alike. */
#ifndef ANNEAL_TUI_COMMAND_PLAN_PARTS_H
#define ANNEAL_TUI_COMMAND_PLAN_PARTS_H

#include "core/base/json_out.h"
#include "core/model/config.h"
#include "core/model/model.h"
#include "core/network/plan.h"

/* The parameter groups of a configuration and their shares of a model, after an empty line. Without groups
 * nothing is printed: the configuration says it all. */
void parts_print_groups(const struct config *config, const struct model *model);
/* As the member param_groups, a list, also without groups: what remains is in it. */
void parts_print_groups_json(struct json_out *json, const struct config *config, const struct model *model);

/* The member categories: name to bytes. */
void parts_print_categories_json(struct json_out *json, const struct plan *plan);

#endif
