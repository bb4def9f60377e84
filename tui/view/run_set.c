/* See run_set.h. */
#include "tui/view/run_set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"

/* The place of the first id that is not less. */
static size_t place(const struct run_set *set, const char *id)
{
    size_t from = 0, to = set->count;
    while (from < to) {
        size_t middle = (from + to) / 2;
        if (strcmp(set->runs[middle].id, id) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

bool run_set_has(const struct run_set *set, const char *id)
{
    size_t at = place(set, id);
    return at < set->count && strcmp(set->runs[at].id, id) == 0;
}

void run_set_add(struct run_set *set, const char *id, double since)
{
    size_t at = place(set, id);
    if (run_set_has(set, id) || !list_reserve(&set->runs, set->count, 1, &set->capacity, sizeof *set->runs))
        return;
    memmove(set->runs + at + 1, set->runs + at, (set->count++ - at) * sizeof *set->runs);
    set->runs[at] = (struct run_member){.since = since};
    snprintf(set->runs[at].id, sizeof set->runs[at].id, "%s", id);
}

void run_set_remove(struct run_set *set, const char *id)
{
    size_t at = place(set, id);
    if (run_set_has(set, id))
        memmove(set->runs + at, set->runs + at + 1, (--set->count - at) * sizeof *set->runs);
}

void run_set_release(struct run_set *set)
{
    free(set->runs);
    *set = (struct run_set){0};
}
