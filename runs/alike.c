/* See alike.h. */
#include "runs/alike.h"

#include <math.h>
#include <string.h>

enum { STEPS_LEAST = 10 }; /* the speed of the first steps says nothing about that of the others */

/* How far a run is from the one wanted; below 0: it is the parent; infinite: its speed says nothing about it.
 */
static double distance(const struct run_info *wanted, const struct run_info *run)
{
    bool fits = strcmp(run->device, wanted->device) == 0 && run->tokens_per_sec > 0 && run->parameters > 0 &&
                wanted->parameters > 0 && run->steps - run->parent_step >= STEPS_LEAST &&
                (!*wanted->precision || strcmp(run->precision, wanted->precision) == 0);
    if (fits && strcmp(run->id, wanted->parent_id) == 0) return -1;
    if (!fits || (run->frozen_parameters > 0) != (wanted->frozen_parameters > 0)) return INFINITY;
    double apart = fabs(log((double)run->parameters / (double)wanted->parameters));
    return apart < log(8) ? apart : INFINITY;
}

bool run_find_alike(struct store *store, const struct run_info *wanted, struct run_info *out)
{
    struct arena arena = {0};
    struct run_info *runs;
    size_t count = 0;
    double nearest = INFINITY;
    if (run_list(store, &arena, &runs, &count, NULL)) count = 0;
    for (size_t i = 0; i < count; i++) {
        if (distance(wanted, &runs[i]) >= nearest) continue;
        nearest = distance(wanted, &runs[i]);
        *out = runs[i];
    }
    arena_release(&arena);
    return nearest < INFINITY;
}
