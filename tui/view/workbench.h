/* The workbench without a terminal: the stack of views, what a key does, what is on the grid.
 * tui/view/session.h runs it on a terminal; tests and benchmarks run it on a grid alone. */
#ifndef ANNEAL_TUI_WORKBENCH_H
#define ANNEAL_TUI_WORKBENCH_H

#include "tui/view/view.h"

struct workbench_options {
    const char *home;                /* the state folder; borrowed */
    const char *run_id;              /* opens on this run; NULL: on the list */
    const struct form_field *fields; /* the form of a new run; borrowed */
    size_t field_count;
    form_preview_function *preview; /* of that form */
};

enum status workbench_open(const struct workbench_options *options, struct workbench **out, struct err *err);
void workbench_close(struct workbench *workbench);

/* One wake-up at `now` (Unix seconds): asks the store whether anything changed and lets the view read. */
void workbench_tick(struct workbench *workbench, double now);
void workbench_key(struct workbench *workbench, uint32_t code);

/* True when the grid no longer shows the state; workbench_draw clears it. */
bool workbench_is_dirty(const struct workbench *workbench);
void workbench_touch(struct workbench *workbench); /* the size changed */
void workbench_draw(struct workbench *workbench, struct grid *grid);

/* How many runs train right now: what is worth a word on leaving. */
size_t workbench_live_runs(struct workbench *workbench);

bool workbench_has_left(const struct workbench *workbench);
/* True once: Ctrl-L asked for every cell to be written anew. */
bool workbench_take_redraw(struct workbench *workbench);

#endif
