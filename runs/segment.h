/* Private to runs/: which rows of a resumed run count.
 *
 * A segment is one trainer's life. When it records its first step s it replaces what earlier segments hold
 * from s on: those rows stay in the tables and in the CSV, but charts, panels and rollups show the run as its
 * newest segment remembers it. So the history shown is a list of ranges, one a segment, disjoint and in step
 * order. */
#ifndef ANNEAL_RUNS_SEGMENT_H
#define ANNEAL_RUNS_SEGMENT_H

#include <stddef.h>
#include <stdint.h>

#include "runs/database.h"

struct segment_range {
    int segment;
    int64_t first, last; /* steps; last is INT64_MAX for the newest */
};

struct segment_list {
    struct segment_range *ranges; /* owned; zero the list before first use */
    size_t count, capacity;
};

/* Fills `list` (reusing its memory) with the ranges of segments 1..newest (0: all). Segments without a step
 * are left out. */
enum status segment_read(struct store *store, const char *run_id, int newest, struct segment_list *list,
                         struct err *err);
void segment_release(struct segment_list *list);

/* Whether a row of `segment` counts. `step` is a step of training; for evaluations, checkpoints and samples,
 * which are numbered by steps done, pass step - 1. */
bool segment_shows(const struct segment_list *list, int segment, int64_t step);

#endif
