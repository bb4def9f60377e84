/* The run store: one SQLite database, $ANNEAL_HOME/anneal.db (WAL), plus one folder per run,
 * $ANNEAL_HOME/runs/<id>/, for checkpoints and logs. SQLite appears in runs/ and nowhere else.
 *
 * A handle belongs to one thread. Any number of processes may hold handles on one database. */
#ifndef ANNEAL_RUNS_STORE_H
#define ANNEAL_RUNS_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"

struct store;

/* Opens, and creates or migrates, the database below `home`; NULL: $ANNEAL_HOME (file_anneal_home). A
 * database written by a newer anneal, one that is not a database, a read-only or full disk, a lock held too
 * long: each is one sentence.
 *
 * With `to_read`, where the folder or the database may not be written (an archive, somebody else's runs), it
 * is read as it is: what a trainer has left in the write-ahead log is seen, nothing is created or migrated,
 * one of an older anneal is refused, and whatever would write fails with one sentence. */
enum status store_open(const char *home, bool to_read, struct store **out, struct err *err);

/* The one below $ANNEAL_HOME, read as it is whether or not it may be written: nothing is created, brought up
 * to date or waited for. A failure means that there is nothing to read right now. For completion. */
enum status store_open_untouched(struct store **out, struct err *err);

void store_close(struct store *store); /* NULL is harmless */

const char *store_home(const struct store *store);

/* Grows whenever another connection committed; one cheap system call or none. Equal: nothing changed. */
int64_t store_version(struct store *store);

#endif
