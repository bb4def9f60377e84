/* The stored configuration of a run, key by key: what filters and comparisons look at. */
#ifndef ANNEAL_RUNS_RUN_PARAMS_H
#define ANNEAL_RUNS_RUN_PARAMS_H

#include <stddef.h>

#include "core/base/arena.h"
#include "runs/store.h"

struct run_param {
    const char *name, *value; /* "train.learning_rate", "3e-4": as the configuration says it */
};

/* All keys of a run, in the order of their names; texts and array in `arena`. An unknown run has none. */
enum status run_params_list(struct store *store, const char *run_id, struct arena *arena,
                            struct run_param **out, size_t *count, struct err *err);

/* The value of `name` among `count` of run_params_list, or NULL. */
const char *run_params_get(const struct run_param *params, size_t count, const char *name);

#endif
