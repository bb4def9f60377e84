/* The parts of the view of one run around its charts: header, sample text, events, and on wide screens the
 * details. */
#ifndef ANNEAL_TUI_RUN_PANELS_H
#define ANNEAL_TUI_RUN_PANELS_H

#include "tui/view/run_model.h"
#include "tui/widget/grid.h"

void panel_draw_header(struct grid *grid, struct rect area, const struct run_model *model, double now);
/* `which`: 0 is the newest sample. */
void panel_draw_sample(struct grid *grid, struct rect area, const struct run_model *model, size_t which);
/* Rows with its title that all of it takes in `width` columns. */
int panel_sample_rows(const struct run_model *model, size_t which, int width);
/* Whole sentences, wrapped, as many as there is room for: from `from` (one of the model's; NULL: the newest)
 * to older ones. */
void panel_draw_events(struct grid *grid, struct rect area, const struct run_model *model,
                       const struct event_record *from);
/* Rows that one of them, or all of them up to `most`, take in `width` columns. */
int panel_event_rows(const struct event_record *event, int width);
int panel_events_rows(const struct run_model *model, int width, int most);
void panel_draw_side(struct grid *grid, struct rect area, const struct run_model *model);

#endif
