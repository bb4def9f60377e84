/* The memory view of a run: bars, above their numbers, for the planned memory by category and the memory of
 * the process, on one scale, and for the memory of the device, always whole; the other processes on the
 * device; the largest batch that would fit; how busy the device is and what slows it down; and the memory of
 * the process from the first step on. The panel is pure drawing. */
#ifndef ANNEAL_TUI_VIEW_MEMORY_VIEW_H
#define ANNEAL_TUI_VIEW_MEMORY_VIEW_H

#include "runs/memory_usage.h"
#include "runs/series.h"
#include "tui/widget/grid.h"

enum memory_scale {
    /* of the bars of the plan and the process: */
    MEMORY_SCALE_FIT,    /* the device, or the run if its bar were too narrow */
    MEMORY_SCALE_RUN,    /* the run's memory fills the width */
    MEMORY_SCALE_DEVICE, /* the whole device */
};

struct memory_panel {
    const struct memory_usage *usage;
    const struct memory_holder *holders; /* on the run's device, including the run itself */
    size_t holder_count;
    const struct series_point *history; /* of the process in bytes, in step order */
    size_t history_count;
    int64_t batch_size; /* train.batch_size; 0: not known */
    bool live;          /* the run trains: the holders are current */
    double now;         /* Unix seconds */
    enum memory_scale scale;
};

/* Draws into `area`, all of which it owns; leaves out the lowest rows that do not fit. */
void memory_panel_draw(struct grid *grid, struct rect area, const struct memory_panel *panel);

/* "memory 155.3 MiB planned, 312.0 MiB held, 14.1 GiB free", with a dash for an unknown number; "" when all
 * are unknown. Returns buf. */
char *memory_panel_summary(const struct memory_usage *usage, char *buf, size_t size);

#endif
