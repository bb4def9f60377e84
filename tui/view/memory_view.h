/* The view of a run's memory: what was planned by category, what its process holds, and what the device has
 * of it, three bars on one scale above their numbers; who else holds memory of the device; and how busy it
 * is, with what slows it down. The panel is pure drawing. */
#ifndef ANNEAL_TUI_VIEW_MEMORY_VIEW_H
#define ANNEAL_TUI_VIEW_MEMORY_VIEW_H

#include "runs/memory_usage.h"
#include "tui/widget/grid.h"

enum memory_scale {
    MEMORY_SCALE_FIT,    /* the device, but for a run that would be a sliver of it: the run */
    MEMORY_SCALE_RUN,    /* what is planned and held fills the width, the device's bar is cut */
    MEMORY_SCALE_DEVICE, /* all of the device */
};

struct memory_panel {
    const struct memory_usage *usage;
    const struct memory_holder *holders; /* on the run's device, the run itself among them */
    size_t holder_count;
    bool live;  /* the run trains: the holders are those of now */
    double now; /* Unix seconds */
    enum memory_scale scale;
};

/* Draws into `area`, all of which it owns; what has no room is left out from below. */
void memory_panel_draw(struct grid *grid, struct rect area, const struct memory_panel *panel);

/* "memory 155.3 MiB planned, 312.0 MiB held, 14.1 GiB free", with a dash for what is not known; "" when
 * nothing is. Returns buf. */
char *memory_panel_summary(const struct memory_usage *usage, char *buf, size_t size);

#endif
