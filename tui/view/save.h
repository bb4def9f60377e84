/* Saving what a view shows as a file, whose ending says how: a chart as a picture (.svg) or its points
 * (.csv), a comparison as tables (.md). */
#ifndef ANNEAL_TUI_SAVE_H
#define ANNEAL_TUI_SAVE_H

#include "runs/comparison.h"
#include "tui/view/workbench.h"
#include "tui/widget/chart.h"

/* On a key asks for the file and proposes "STEM-TITLE.svg" (ACTION_SAVE); when it was `entered`, writes it
 * and reports that in the last row. A file that exists is never replaced; after an error the name can be
 * typed on. `comparison` NULL: there is none. */
void save_shown(struct workbench *workbench, const struct chart *chart, const struct comparison *comparison,
                const char *stem, bool entered);

#endif
