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
        if (strcmp(set->ids[middle], id) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

bool run_set_has(const struct run_set *set, const char *id)
{
    size_t at = place(set, id);
    return at < set->count && strcmp(set->ids[at], id) == 0;
}

void run_set_add(struct run_set *set, const char *id)
{
    size_t at = place(set, id);
    if (run_set_has(set, id) || !list_reserve(&set->ids, set->count, 1, &set->capacity, sizeof *set->ids))
        return;
    memmove(set->ids + at + 1, set->ids + at, (set->count++ - at) * sizeof *set->ids);
    snprintf(set->ids[at], sizeof set->ids[at], "%s", id);
}

void run_set_remove(struct run_set *set, const char *id)
{
    size_t at = place(set, id);
    if (run_set_has(set, id))
        memmove(set->ids + at, set->ids + at + 1, (--set->count - at) * sizeof *set->ids);
}

void run_set_release(struct run_set *set)
{
    free(set->ids);
    *set = (struct run_set){0};
}
