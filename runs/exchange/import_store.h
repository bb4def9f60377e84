/* Runs of another store, such as that of another server, with all that was recorded. The other store is only
 * read, whatever its schema's version; one of a newer anneal is refused. */
#ifndef ANNEAL_RUNS_EXCHANGE_IMPORT_STORE_H
#define ANNEAL_RUNS_EXCHANGE_IMPORT_STORE_H

#include "runs/run.h"

/* How the checkpoints of the other store are taken over. */
enum checkpoint_import {
    CHECKPOINTS_LINK, /* symbolic links to them: they can be used as long as they are there */
    CHECKPOINTS_COPY,
    CHECKPOINTS_NONE, /* the list alone */
};

struct store_import {
    const char *folder; /* the home of the other store */
    const char *filter; /* which of its runs (filter.h); NULL: all that are not archived */
    enum checkpoint_import checkpoints;
};

struct imported_run {
    char from[RUN_ID_MAX]; /* the id there */
    char id[RUN_ID_MAX];   /* the id here: another one if that was in use */
    enum run_import {
        RUN_IMPORTED,
        RUN_IS_HERE,    /* left out: it was imported before */
        RUN_IS_TRAINED, /* left out: a trainer still works on it */
        RUN_IS_PARTIAL, /* left out: records wait in its folder, or are damaged (recovery.h) */
    } what;
    int64_t steps, steps_there; /* of one that is here */
};

/* Imports the runs one after the other, the oldest first, each in many short transactions (import_turns.h):
 * after a failure nothing of it is left, and what a killed import has left is replaced by the next. After an
 * error *out has the runs before it. STATUS_USAGE: a problem of the filter, or the folder is this store. */
enum status import_store(struct store *store, const struct store_import *request, struct arena *arena,
                         struct imported_run **out, size_t *count, struct err *err);

#endif
