/* The panels around the charts of one run: header, sample text, events, and on wide screens the details. */
#ifndef ANNEAL_TUI_RUN_PANELS_H
#define ANNEAL_TUI_RUN_PANELS_H

#include "tui/view/run_model.h"
#include "tui/widget/grid.h"

void panel_draw_header(struct grid *grid, struct rect area, const struct run_model *model, double now);
/* `which`: 0 is the newest sample. Returns the rows used. */
int panel_draw_sample(struct grid *grid, struct rect area, const struct run_model *model, size_t which);
/* Whole sentences, wrapped, the newest first, as many as there is room for. Returns the rows used. */
int panel_draw_events(struct grid *grid, struct rect area, const struct run_model *model);
/* "@100 the loss rose". Returns buf. */
char *panel_event_text(const struct event_record *event, char *buf, size_t size);
void panel_draw_side(struct grid *grid, struct rect area, const struct run_model *model);

#endif
