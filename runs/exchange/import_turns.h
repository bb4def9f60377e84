/* Private to runs/: storing an imported run in many short transactions, so that no other process waits long.
 * Meanwhile the run is locked, its status is `created`, and its message says that it is incomplete: one whose
 * import was killed shows as crashed, says why, and is replaced when it is imported again. */
#ifndef ANNEAL_RUNS_EXCHANGE_IMPORT_TURNS_H
#define ANNEAL_RUNS_EXCHANGE_IMPORT_TURNS_H

#include "runs/database.h"
#include "runs/run.h"

struct import_turns {
    struct store *store; /* borrowed, as is err */
    struct err *err;
    double began; /* clock_monotonic() of the first transaction, or after the last rest */
};

/* Waits until no other process imports into this store: of two imports each would take the other's half
 * stored run for one that was left. close(*fd) ends it; -1: locks do not work here. */
enum status import_lock(struct store *store, int *fd, struct err *err);

/* Deletes what a killed import has left: runs with this message. One that is being imported now is locked,
 * and stays. */
enum status import_remove_incomplete(struct import_turns *turns, const char *message);

/* Makes the row of the run, which `message` marks as incomplete, and takes its lock, in a transaction of its
 * own. `start` and `stem`: see run_begin. */
enum status import_begin_run(struct import_turns *turns, const struct run_new *run, double start,
                             const char *stem, const char *message, char id[RUN_ID_MAX],
                             struct run_lock *lock);

/* Begins the first transaction. */
enum status import_first_turn(struct import_turns *turns);
/* Commits, and begins the next transaction, now and then after a rest in which others write. */
enum status import_next_turn(struct import_turns *turns);

#endif
