/* The run store: one SQLite database, $ANNEAL_HOME/anneal.db, plus one folder per run,
 * $ANNEAL_HOME/runs/<id>/, for checkpoints and logs. SQLite appears in runs/ and nowhere else.
 * $ANNEAL_STORE moves the database to another folder, for a home on a file system without locks.
 *
 * A handle belongs to one thread. Any number of processes may hold handles on one database. */
#ifndef ANNEAL_RUNS_STORE_H
#define ANNEAL_RUNS_STORE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"

struct store;

enum store_access {
    STORE_WRITE, /* creates and migrates the database */
    /* The same, but a database that may not be written (an archive, another user's runs) is read as it is:
     * records in the write-ahead log are included, nothing is created or migrated, a database of an older
     * anneal is refused, and calls that would write fail with one sentence. */
    STORE_VIEW,
    /* WRITE and VIEW for commands about runs that are there: nothing is created. Without a database the store
     * is one without runs. */
    STORE_CHANGE,
    STORE_READ,
    STORE_UNTOUCHED, /* only reads it as it is, and never waits: a failure means that it cannot be read now */
    /* Whatever $ANNEAL_STORE says, the database below `home`, which is not NULL. FOREIGN only reads it as it
     * is, also while a trainer there writes, and its schema may be older. APART creates and migrates it. */
    STORE_FOREIGN,
    STORE_APART
};

/* Opens the database below `home`; NULL: $ANNEAL_HOME (file_anneal_home). A database of a newer anneal, a
 * file that is not a database, a read-only or full disk, or a lock held too long fails with one sentence. */
enum status store_open(const char *home, enum store_access access, struct store **out, struct err *err);

/* The path of the database below `home`; NULL: $ANNEAL_HOME. */
enum status store_path(const char *home, char path[PATH_MAX], struct err *err);

/* The type of the file system, such as "nfs4", where other hosts may use the database at the same time; NULL:
 * it is this host's alone. */
const char *store_shared(const struct store *store);

/* In a hurry, calls on this handle wait at most a few milliseconds for another process's lock, and return
 * STATUS_BUSY; writes leave checkpoints to other processes. A screen is in a hurry. */
void store_hurry(struct store *store, bool hurry);

/* From now on a call on this handle that takes long ends with STATUS_INTERRUPTED when stop() is true. */
void store_stop_when(struct store *store, bool (*stop)(void));

/* Reads the whole database and checks that it is consistent. STATUS_CORRUPT names the first fault. */
enum status store_check(struct store *store, struct err *err);

void store_close(struct store *store); /* NULL is harmless */

const char *store_home(const struct store *store);

/* STATUS_FAILED: the database, or one of its helper files -wal and -shm, was removed or replaced since it was
 * opened, so that what is written is lost. */
enum status store_check_place(const struct store *store, struct err *err);

/* A number that grows whenever another connection has committed; if it is equal, nothing has changed. It
 * costs at most one cheap system call, on a shared file system a lock. */
int64_t store_version(struct store *store);

#endif
