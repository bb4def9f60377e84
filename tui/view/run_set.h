/* A set of runs by their ids: those that are marked, those that are deleted. */
#ifndef ANNEAL_TUI_RUN_SET_H
#define ANNEAL_TUI_RUN_SET_H

#include "runs/run.h"

struct run_member {
    char id[RUN_ID_MAX];
    double since; /* Unix seconds, or of `compared` the place in the list; 0: not given */
};

struct run_set {
    struct run_member *runs; /* in the order of strcmp */
    size_t count, capacity;
};

bool run_set_has(const struct run_set *set, const char *id);
/* Does nothing when memory runs out. */
void run_set_add(struct run_set *set, const char *id, double since);
void run_set_remove(struct run_set *set, const char *id);
void run_set_release(struct run_set *set); /* empties it */

#endif
