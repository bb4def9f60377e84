/* Configurations as the views of the workbench show them, which know none: the rows of a stored one, and the
 * preview and the memory of a form. */
#ifndef ANNEAL_TUI_COMMAND_VIEW_CONFIG_H
#define ANNEAL_TUI_COMMAND_VIEW_CONFIG_H

#include "tui/view/workbench.h"

/* A config_rows_function. The default of a size is the preset's. A value that follows from another key, as
 * the sizes of a model that is trained further, counts as its own default; a key of [param_group.NAME] has
 * none. */
enum status config_rows_make(const char *text, struct arena *arena, struct config_row **out, size_t *count,
                             struct err *err);

/* A form_preview_function. `settings`: "section.key=value", as on the command line. */
void form_preview_make(const char *const *settings, size_t count, struct form_preview *out);

/* A form_estimate_function: reads the page of `anneal estimate --json --fit`. */
bool form_estimate_read(const char *json, struct form_estimate *out);

#endif
