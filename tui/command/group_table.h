/* Who is updated how: the parameter groups of a configuration and what they come to in a model, as a table
 * and as JSON; the same for a run that is planned (estimate) and one that is tried (train --dry-run). */
#ifndef ANNEAL_TUI_GROUP_TABLE_H
#define ANNEAL_TUI_GROUP_TABLE_H

#include <jansson.h>

#include "core/model/config.h"
#include "core/model/model.h"

/* After an empty line. Without groups there is nothing to tell that the configuration does not say: nothing
 * is printed. */
void group_table_print(const struct config *config, const struct model *model);

/* A list, also without groups: what remains is in it. NULL: no memory. */
json_t *group_table_json(const struct config *config, const struct model *model);

#endif
