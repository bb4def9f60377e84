/* The preview in the form of a new run: the configuration as `anneal train` would read it.
 */
#ifndef ANNEAL_TUI_FORM_PREVIEW_H
#define ANNEAL_TUI_FORM_PREVIEW_H

#include "tui/view/workbench.h"

/* A form_preview_function. `settings`: "section.key=value", as on the command line. */
void form_preview_make(const char *const *settings, size_t count, struct form_preview *out);

#endif
