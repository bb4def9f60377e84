/* Runs that belong together: those that differ in certain keys of the configuration alone, such as the seed,
 * and those of a sweep. */
#ifndef ANNEAL_RUNS_GROUPING_H
#define ANNEAL_RUNS_GROUPING_H

#include "core/base/arena.h"
#include "runs/run.h"

#define GROUPING_DEFAULT "train.seed"

/* Sets (*group)[i], in `arena`, to the first run of `runs` that differs from run i in the keys of `keys`
 * alone ("train.seed,model.layers", separated by commas or blanks), or to i itself. Forks belong together if
 * they were forked at the same step of runs that belong together; a parent that is not among `runs` belongs
 * to none. A run without a recorded configuration belongs to no other. With `sweeps` a run of a sweep belongs
 * to the first one of it instead. */
enum status grouping_read(struct store *store, const char *keys, bool sweeps, const struct run_info *runs,
                          size_t count, struct arena *arena, size_t **group, struct err *err);

/* Cuts `stem`, the name of the first run of a group, to what it shares with the name of another one, up to a
 * separator: "base-s1" and "base-s2" are "base". It stays as it is if they share nothing. */
void grouping_cut_stem(char *stem, const char *name);

#endif
