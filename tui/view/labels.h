/* How a run's facts are worded and drawn: the same in every view. */
#ifndef ANNEAL_TUI_LABELS_H
#define ANNEAL_TUI_LABELS_H

#include "core/base/record.h"
#include "runs/run.h"
#include "tui/widget/grid.h"

struct status_label {
    uint32_t symbol; /* a different one for each state, so that colour is not needed */
    const char *word;
    enum style style;
};
struct status_label label_status(enum run_status status);

/* A trainer lives and may take orders. */
bool label_is_live(enum run_status status);

double label_progress(const struct run_info *run); /* in [0, 1]; NaN: unknown */

/* Seconds until the last planned step at the recent speed; NaN: not known, or not training. */
double label_eta(const struct run_info *run);
/* Seconds that trainers worked on it; the time between an end and a resume does not count. */
double label_elapsed(const struct run_info *run, double now);

/* "97 % busy, 312 W, 64 C, 1980 MHz": what is known; empty when nothing is. Returns buf. */
char *label_device(const struct gpu_record *sample, char *buf, size_t size);

/* "12s ago", "3h ago", "31 Jan" after 30 days, "2026-01" after 330. Returns buf. */
char *label_age(double since, double now, char *buf, size_t size);
/* The same in an array of the enclosing block: for an argument of printf. */
#define LABEL_AGE(since, now) label_age(since, now, (char[32]){0}, 32)

/* Name, state, progress: the first two rows of every view of a run. */
void label_draw_run(struct grid *grid, struct rect area, const struct run_info *run, double now);

#endif
