/* Private to runs/: the three files of an open database, anneal.db, anneal.db-wal (the log) and anneal.db-shm
 * (the log's index), and whether their names still lead to the files that this handle has open.
 *
 * SQLite never asks: it goes on with files that were removed, while another process makes new ones. Two
 * processes then share neither log nor locks, and a checkpoint of the old log damages what the other one has
 * written. So a handle compares them before it writes, before a checkpoint, and when it is closed. It holds
 * SQLite's locks meanwhile, so that among processes that have the same index no commit comes between. SQLite
 * itself removes the helper files only when the last connection is closed.
 *
 * On a shared file system there are no helper files, and a handle that only reads a database as it is does
 * not compare anything. */
#ifndef ANNEAL_RUNS_PLACE_H
#define ANNEAL_RUNS_PLACE_H

#include <sys/types.h>

#include "core/base/err.h"

struct store;

enum { PLACE_DATABASE, PLACE_LOG, PLACE_INDEX, PLACE_FILES };

struct place {
    dev_t device;
    ino_t file; /* 0: not noted */
};

/* Notes the files of a database that has been read, so that SQLite has opened all of them. STATUS_FAILED: one
 * was removed since. */
enum status place_note(struct store *store, struct err *err);

/* After store_check_place has failed: if only the log is gone, removes its index, too. It describes the lost
 * log, and as long as this process has it open, others would look there for what their new log does not have.
 */
void place_leave(struct store *store);

#endif
