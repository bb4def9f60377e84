/* The keys of the list that change runs: tags, note, name, archive, delete. */
#ifndef ANNEAL_TUI_RUN_CHANGE_H
#define ANNEAL_TUI_RUN_CHANGE_H

#include "tui/view/workbench.h"

bool run_change_knows(enum action action);
bool run_change_takes_many(enum action action); /* else it is given one run */

/* Carries out `action` on `count` runs, one or more; asks or prompts first as `code` (K_CONFIRMED, K_ENTERED)
 * shows that the user has not answered yet. The last row tells the outcome. True: the runs have changed or,
 * for ACTION_DELETE, may be deleted. A text that is refused can be typed on. */
bool run_change(struct workbench *workbench, const struct run_info *const *runs, size_t count,
                enum action action, uint32_t code);

#endif
