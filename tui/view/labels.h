/* Words and drawing for the facts of a run, the same in every view. */
#ifndef ANNEAL_TUI_LABELS_H
#define ANNEAL_TUI_LABELS_H

#include "core/base/record.h"
#include "runs/run.h"
#include "tui/widget/grid.h"

struct status_label {
    uint32_t symbol; /* differs for each state, so that no state needs colour */
    const char *word;
    enum style style;
};
struct status_label label_status(enum run_status status);
/* The same of a run, or that its trainer is suspended or silent. */
struct status_label label_state(const struct run_info *run, double now);

/* Whether the run stands still though it is running or paused: its trainer is suspended, or has given no sign
 * of life for much longer than a step takes. Its speed is then a thing of the past. */
bool label_stands_still(const struct run_info *run, double now);

/* Seconds until the last planned step at the recent speed; NaN: unknown, or no step is being done. */
double label_eta(const struct run_info *run, double now);
/* Seconds that trainers worked on the run, without the time between an end and a resume. */
double label_elapsed(const struct run_info *run, double now);

/* "97 % busy, 312 W, 64 C, 1980 MHz": the known values; empty if none is. Returns buf. */
char *label_device(const struct gpu_record *sample, char *buf, size_t size);

/* "42.0M parameters", or "1.10M of 42.0M parameters trained" where some are frozen; "- parameters": unknown.
 * Returns buf. */
char *label_parameters(const struct run_info *run, char *buf, size_t size);

/* The kind of a checkpoint (NULL: unknown), or "best" or "was best". */
const char *label_checkpoint(const char *kind, bool best);

/* "12s ago", "3h ago", "31 Jan" after 30 days, "2026-01" after 330. Returns buf. */
char *label_age(double since, double now, char *buf, size_t size);
/* label_age into an array of the enclosing block: for an argument of printf. */
#define LABEL_AGE(since, now) label_age(since, now, (char[32]){0}, 32)

/* Draws name, state and progress into the first LABEL_ROWS rows, as every view of a run does. */
enum { LABEL_ROWS = 2 };
void label_draw_run(struct grid *grid, const struct run_info *run, double now);

#endif
