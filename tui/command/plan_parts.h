/* The parts of a plan that `estimate` and `train --dry-run` print alike. */
#ifndef ANNEAL_TUI_COMMAND_PLAN_PARTS_H
#define ANNEAL_TUI_COMMAND_PLAN_PARTS_H

#include "core/model/config.h"
#include "core/network/plan.h"
#include "tui/command/output.h"

/* The list param_groups: the parameter groups of a configuration and their shares of the plan's model. On a
 * page only where there are groups: the configuration says it all. */
void parts_print_groups(struct output *output, const struct config *config, const struct plan *plan);

/* A member of bytes whose name does not say so. */
void parts_print_bytes(struct output *output, const char *name, size_t bytes);

/* The member categories: name to bytes. */
void parts_print_categories(struct output *output, const struct plan *plan);

#endif
