/* A set of runs by their ids: those that are marked, those that are deleted. */
#ifndef ANNEAL_TUI_RUN_SET_H
#define ANNEAL_TUI_RUN_SET_H

#include "runs/run.h"

struct run_set {
    char (*ids)[RUN_ID_MAX]; /* in the order of strcmp */
    size_t count, capacity;
};

bool run_set_has(const struct run_set *set, const char *id);
void run_set_add(struct run_set *set, const char *id); /* does nothing when memory runs out */
void run_set_remove(struct run_set *set, const char *id);
void run_set_release(struct run_set *set); /* empties it */

#endif
