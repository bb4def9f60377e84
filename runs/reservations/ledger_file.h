/* The file of a ledger of device memory: its name, FOLDER/ledger-<host>.db, as hosts may share a folder; and
 * its rights, as users may. What is in it is runs/reservations/ledger.h's. */
#ifndef ANNEAL_RUNS_RESERVATIONS_LEDGER_FILE_H
#define ANNEAL_RUNS_RESERVATIONS_LEDGER_FILE_H

#include <stddef.h>

#include "core/base/err.h"

enum status ledger_file_path(const char *folder, char *path, size_t size, struct err *err);

/* Whoever may write into the folder may write the file, whatever this process's umask: users who share a
 * ledger share its folder. The file appears with these rights and the folder's group, and SQLite gives its
 * journal the same. One that is there stays as it is; where this fails, SQLite tries and says why it cannot.
 */
void ledger_file_create(const char *folder, const char *path);

#endif
