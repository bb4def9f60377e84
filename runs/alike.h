/* The recorded run that is most like a new one: its speed says how long the new one will take. */
#ifndef ANNEAL_RUNS_ALIKE_H
#define ANNEAL_RUNS_ALIKE_H

#include "runs/run.h"

/* `wanted` has the device, the numbers of parameters, the precision ("": any), and the id of a parent, which
 * is preferred ("": none). A step takes about as long as it has parameters × tokens, so the run whose number
 * of parameters is nearest is taken, if it is within a factor of eight. Runs of a handful of steps do not
 * count. False: there is none. */
bool run_find_alike(struct store *store, const struct run_info *wanted, struct run_info *out);

#endif
