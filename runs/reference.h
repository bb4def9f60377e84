/* Which runs refer to checkpoints of others: forks, and runs whose configuration names a checkpoint, such as
 * the base of adapters. */
#ifndef ANNEAL_RUNS_REFERENCE_H
#define ANNEAL_RUNS_REFERENCE_H

#include "core/base/arena.h"
#include "runs/run.h"

struct run_reference {
    const char *run;  /* the id of the run that refers to a checkpoint */
    const char *key;  /* of its configuration, "model.from"; "": the run is a fork */
    const char *path; /* as written; of a fork "ID/checkpoints/step-N" */
    const char *real; /* the path with links resolved; NULL: it leads to nothing */
};

struct run_references {
    struct run_reference *of; /* ordered by run */
    size_t count;
};

/* Lists the references of all runs, also to folders that are no run's; array and texts in `arena`. */
enum status run_references_read(struct store *store, struct arena *arena, struct run_references *out,
                                struct err *err);

/* Finds the first reference, from number `from` on, of another run to the checkpoint of run `id` at `step`,
 * or to any of its checkpoints (step -1). Returns its number, `count` if there is none. */
size_t run_references_find(const struct run_references *references, struct store *store, const char *id,
                           int64_t step, size_t from);

/* Lists the other runs that refer to checkpoints of these runs, one reference each, in `arena`. */
enum status run_dependents(struct store *store, const char *const *ids, size_t count, struct arena *arena,
                           struct run_references *out, struct err *err);

#endif
