/* Private to runs/: a run and the runs that it continues. A fork's own steps follow those of its parent,
 * whose steps may follow those of another one. */
#ifndef ANNEAL_RUNS_LINEAGE_H
#define ANNEAL_RUNS_LINEAGE_H

#include "runs/run.h"

enum { LINEAGE_MAX = 1 + 64 }; /* the store may hold a circle of parents */

struct lineage {
    struct ancestor {
        char id[RUN_ID_MAX];
        int64_t first;       /* its first step; -1: none is recorded */
        int64_t parent_step; /* where it was forked from the next one; 0: nowhere */
    } runs[LINEAGE_MAX];     /* the run itself first */
    int count;
};

/* Lists the run, also an unknown one, and its parents as far as the store has them. */
enum status lineage_read(struct store *store, const char *run_id, struct lineage *out, struct err *err);

#endif
