/* The story of early stopping that `anneal show` tells: the best evaluation and since when it is that, how
 * much patience is left, and why the run stopped. */
#ifndef ANNEAL_TUI_STOPPING_STORY_H
#define ANNEAL_TUI_STOPPING_STORY_H

#include "tui/command/show.h"

/* Prints it as a section of the page, with its heading; nothing for a run without a decision. */
void stopping_story_print(struct show *show);

#endif
